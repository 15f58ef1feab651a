/** Any exchange of indexed_all_to_all_v: geometry, widths, counts and indices, five rounds with everything changed. */
import fc from "fast-check";
import { Random } from "../../shared/random.ts";
import type { IndexedCase, IndexedRound } from "./indexed.ts";
import { range } from "./ranks.ts";

/** An exchange, and the seed of its deliveries. */
export interface ArbitraryExchange {
  readonly given: IndexedCase;
  readonly seed: number;
}

const ROUNDS = 5;

export const arbitraryExchange: fc.Arbitrary<ArbitraryExchange> = fc
  .record({
    nranks: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 1, max: 4 }) }, fc.integer({ min: 5, max: 8 })),
    coreNum: fc.integer({ min: 1, max: 10 }),
    extraColumns: fc.integer({ min: 0, max: 2 }),
    capacity: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 0, max: 40 }) }, fc.integer({ min: 700, max: 800 })),
    width: fc.oneof(
      { weight: 6, arbitrary: fc.integer({ min: 1, max: 48 }) },
      fc.integer({ min: 1000, max: 1100 }),
      fc.integer({ min: 4090, max: 4200 }),
    ),
    dtype: fc.constantFrom("float32" as const, "int8" as const),
    height: fc.integer({ min: 1, max: 30 }),
    refill: fc.boolean(),
    seed: fc.nat(),
  })
  .map(({ nranks, coreNum, extraColumns, capacity, width, dtype, height, refill, seed }) => {
    const random = new Random(seed);
    const heights = range(nranks).map(() => 1 + random.below(height));
    // wide rows and many of them at once say nothing new, and take long
    const slots = width > 48 ? capacity % 41 : capacity;
    const rounds = range(ROUNDS).map(() => anyRound(random, nranks, slots, heights));
    const signalWidth = coreNum + extraColumns;
    const given = { nranks, coreNum, signalWidth, capacity: slots, width, dtype, heights, rounds, refill };
    return { given, seed };
  });

/** Counts that are often none or all, and indices with repeats and runs; tails hold anything. */
function anyRound(random: Random, nranks: number, capacity: number, heights: readonly number[]): IndexedRound {
  const count = (): number => [0, capacity, random.below(capacity + 1)][random.below(3)]!;
  const counts = range(nranks).map(() => range(nranks).map(count));
  const index = range(nranks).map((s) =>
    range(nranks).map((d) => {
      const stride = random.below(3);
      const start = random.below(heights[s]!);
      return range(capacity).map((j) => {
        if (j >= counts[s]![d]!) return random.below(2 ** 32) - 2 ** 31;
        return random.below(4) === 0 ? random.below(heights[s]!) : (start + stride * j) % heights[s]!;
      });
    }),
  );
  return { counts, index };
}

/** Queues that hold the largest of these transfers, which takes more than one doorbell. */
export const deepQueues = { sqDepth: 1024 };
