/**
 * The program behind `rankwise bench`: every rank measures, rank 0 writes a line of JSON for each result, as soon as it
 * has it, into the file that `RANKWISE_BENCH_FILE` names. Its one argument is the plan, as JSON.
 */
import { appendFileSync } from "node:fs";
import { ENV } from "../../shared/config.ts";
import { RankwiseError } from "../../shared/errors.ts";
import type { Comm } from "../comm.ts";
import type { BenchPlan } from "./plan.ts";
import { runBench } from "./run.ts";

export const modes = ["hand"];

export default async function main(comm: Comm): Promise<void> {
  const file = process.env["RANKWISE_BENCH_FILE"];
  const [text] = comm.args;
  if (file === undefined || text === undefined) {
    throw new RankwiseError("ERR_USAGE", "bench is run by rankwise bench, which gives it its plan and its file");
  }
  const write = (line: object): void => {
    if (comm.rank === 0) appendFileSync(file, `${JSON.stringify(line)}\n`);
  };
  write({ transport: process.env[ENV.transport] ?? "unknown" });
  await runBench(comm, JSON.parse(text) as BenchPlan, write);
}
