/** Any exchange of indexed_all_to_all_v against its one-line oracle: geometries, counts, indices, five rounds each. */
import fc from "fast-check";
import { expectExchange } from "../helpers/indexed.ts";
import { arbitraryExchange, deepQueues } from "../helpers/indexed-arbitrary.ts";
import type { Campaign } from "./campaign.ts";

export const campaign: Campaign = {
  runs: 1000,
  start: async ({ seed, runs, say }) => {
    let done = 0;
    await fc.assert(
      fc.asyncProperty(arbitraryExchange, async ({ given, seed: deliveries }) => {
        await expectExchange(given, { seed: deliveries, settings: deepQueues });
        done += 1;
        if (done % 100 === 0) say(`${done} exchanges of five rounds`);
      }),
      { numRuns: runs, seed },
    );
  },
};
