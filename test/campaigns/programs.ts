/** Random primitive programs on the in-process transport. */
import { checkAgreement } from "../property/agreement.ts";
import type { Campaign } from "./campaign.ts";

/** Programs of one seed; the next ones have the next seed. */
const BATCH = 500;

export const campaign: Campaign = {
  runs: 5000,
  start: async ({ seed, runs, say }) => {
    for (let done = 0, batch = seed; done < runs; done += BATCH, batch++) {
      const count = Math.min(BATCH, runs - done);
      await checkAgreement({ runs: count, seed: batch }).catch((error: unknown) => {
        throw new Error(`repeat with --seed ${batch} --runs ${count}`, { cause: error });
      });
      say(`seed ${batch}: ${count} programs agree with the memory model`);
    }
  },
};
