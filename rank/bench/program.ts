/**
 * The program behind `rankwise bench`: every rank measures, rank 0 writes the results into the file that
 * `RANKWISE_BENCH_FILE` names. Its one argument is the plan, as JSON.
 */
import { writeFileSync } from "node:fs";
import { RankwiseError } from "../../shared/errors.ts";
import { collectives } from "../collectives/table.ts";
import type { Comm } from "../comm.ts";
import { benchCollective } from "./collectives.ts";
import { openBench } from "./measure.ts";
import { type BenchPlan, type BenchResult, primitives } from "./plan.ts";
import { benchPrimitive } from "./primitives.ts";

export const modes = ["hand"];

export default async function main(comm: Comm): Promise<void> {
  const file = process.env["RANKWISE_BENCH_FILE"];
  const [text] = comm.args;
  if (file === undefined || text === undefined) {
    throw new RankwiseError("ERR_USAGE", "bench is run by rankwise bench, which gives it its plan and its file");
  }
  const plan = JSON.parse(text) as BenchPlan;
  const bench = await openBench(comm);
  const results: BenchResult[] = [];
  for (const name of plan.names) {
    const primitive = primitives.find((known) => known === name);
    const row = collectives.find((known) => known.name === name);
    // a notify has no size
    for (const bytes of name === "notify_lat" ? [4] : plan.sizesBytes) {
      if (primitive !== undefined) results.push(await benchPrimitive(bench, primitive, bytes, plan));
      else if (row !== undefined) results.push(await benchCollective(bench, row, bytes, plan));
    }
  }
  if (comm.rank === 0) writeFileSync(file, JSON.stringify(results));
}
