import { collectives } from "../collectives/table.ts";
import type { Comm } from "../comm.ts";
import { benchCollective } from "./collectives.ts";
import { openBench } from "./measure.ts";
import { type BenchPlan, type BenchResult, primitives, unsized } from "./plan.ts";
import { benchPrimitive } from "./primitives.ts";

/** Measures everything of a plan, on every rank of the group; each result is the same on all of them. */
export async function runBench(
  comm: Comm,
  plan: BenchPlan,
  found: (result: BenchResult) => void | Promise<void>,
): Promise<void> {
  const bench = await openBench(comm);
  for (const name of plan.names) {
    const primitive = primitives.find((known) => known === name);
    const row = collectives.find((known) => known.name === name);
    for (const bytes of unsized.includes(name) ? [0] : plan.sizesBytes) {
      if (primitive !== undefined) await found(await benchPrimitive(bench, primitive, bytes, plan));
      else if (row !== undefined) await found(await benchCollective(bench, row, bytes, plan));
    }
  }
}
