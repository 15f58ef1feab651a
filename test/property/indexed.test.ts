import fc from "fast-check";
import { expect, test } from "vitest";
import { expectExchange, runIndexed } from "../helpers/indexed.ts";
import { arbitraryExchange, deepQueues } from "../helpers/indexed-arbitrary.ts";
import { Random } from "../../shared/random.ts";
import { range } from "../helpers/ranks.ts";

// ten times as many: npm run campaign -- indexed
test("any exchange agrees with its oracle, and costs what it must", { timeout: 60_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(arbitraryExchange, async ({ given, seed }) => {
      await expectExchange(given, { seed, settings: deepQueues });
    }),
    { numRuns: 100, seed: 17 },
  );
});

test("any value outside its range ends the group, and the message names it", async () => {
  await fc.assert(
    fc.asyncProperty(arbitraryExchange, fc.boolean(), async ({ given, seed }, below) => {
      const random = new Random(seed);
      const { nranks, capacity, heights } = given;
      const [s, d] = [random.below(nranks), random.below(nranks)];
      const round = structuredClone(given.rounds[0]!);
      const counts = round.counts as number[][];
      const index = round.index as number[][][];
      let told: string;
      if (capacity === 0 || random.below(2) === 0) {
        const count = below ? -1 - random.below(1000) : capacity + 1 + random.below(1000);
        counts[s]![d] = count;
        told = `rank ${s}: count ${count} for destination ${d} (sendCounts slot ${d}) is outside [0, ${capacity}]`;
      } else {
        const slot = random.below(capacity);
        const row = below ? -1 - random.below(1000) : heights[s]! + random.below(1000);
        counts[s]![d] = slot + 1; // the wrong row is the last one that counts
        for (const j of range(slot)) index[s]![d]![j] = 0;
        index[s]![d]![slot] = row;
        told = `rank ${s}: index ${row} in slot ${slot} for destination ${d} is outside [0, ${heights[s]!})`;
      }
      const { failure, states } = await runIndexed({ ...given, rounds: [round] }, { seed, settings: deepQueues });
      expect(failure?.error.message).toContain(told);
      for (const { counters } of states) expect(counters.payloadBytesSent).toBe(0);
    }),
    { numRuns: 50, seed: 3 },
  );
});
