/** The compliance suite: every guarantee of the memory model, for every transport. */
import { describe, test } from "vitest";
import { type RankTransport, range } from "../helpers/ranks.ts";
import { type Direction, directions, type Guarantee, prove, proveTogether } from "./guarantee.ts";
import { flowSuite } from "./suite-flow.ts";
import { orderSuite } from "./suite-order.ts";
import { signalSuite } from "./suite-signals.ts";

/** All guarantees, by line of the memory model. */
export const guarantees: readonly Guarantee[] = [...orderSuite, ...signalSuite, ...flowSuite].sort(
  (a, b) => a.line - b.line,
);

/** Runs the suite on a pair of ranks, with some seeds, and, unless `pairs` is 1, on eight pairs at once. */
export function complianceSuite(transport: RankTransport, seeds: number, pairs = 8): void {
  describe(`the memory model over ${transport}, P = 2`, () => {
    for (const guarantee of guarantees) {
      // time passes in a guarantee that is about a timeout
      const few = guarantee.verdict === undefined ? seeds : Math.min(seeds, 2);
      test.each(directions)(titleOf(guarantee), async (direction) => {
        await onSeeds(few, (seed) => prove(guarantee, direction, { transport, nranks: 2, seed }));
      });
    }
  });

  if (pairs === 1) return;
  describe(`the memory model over ${transport}, P = 16`, () => {
    const few = Math.min(seeds, 2);
    const together = guarantees.filter((guarantee) => !needsJob(guarantee));
    test.each(directions)("every guarantee that needs no job of its own (%s)", async (direction) => {
      await onSeeds(few, (seed) => proveTogether(together, direction, { transport, nranks: 16, seed }));
    });
    for (const guarantee of guarantees.filter(needsJob)) {
      const direction: Direction = "1 → 0";
      test(titleOf(guarantee).replace("%s", direction), async () => {
        await onSeeds(few, (seed) => prove(guarantee, direction, { transport, nranks: 16, seed }));
      });
    }
  });
}

function needsJob({ job, verdict }: Guarantee): boolean {
  return job !== undefined || verdict !== undefined;
}

function titleOf({ line, name }: Guarantee): string {
  return `line ${line}: ${name} (%s)`;
}

async function onSeeds(seeds: number, run: (seed: number) => Promise<void>): Promise<void> {
  for (const seed of range(seeds)) {
    try {
      await run(seed);
    } catch (error) {
      throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error });
    }
  }
}
