import type { Comm } from "../comm.ts";
import { benchCollective } from "./collectives.ts";
import { openBench } from "./measure.ts";
import { type BenchPlan, type BenchResult, isSized, primitives } from "./plan.ts";
import { benchPrimitive } from "./primitives.ts";
import { benchRows } from "./rows.ts";

/** Measures everything of a plan, on every rank of the group; each result is the same on all of them. */
export async function runBench(
  comm: Comm,
  plan: BenchPlan,
  found: (result: BenchResult) => void | Promise<void>,
): Promise<void> {
  const bench = await openBench(comm);
  for (const name of plan.names) {
    const primitive = primitives.find((known) => known === name);
    const row = benchRows.find((known) => known.name === name);
    for (const bytes of isSized(name) ? plan.sizesBytes : [0]) {
      if (primitive !== undefined) await found(await benchPrimitive(bench, primitive, bytes, plan));
      else if (row !== undefined) await found(await benchCollective(bench, row, bytes, plan));
    }
  }
}
