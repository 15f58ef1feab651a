/** Random programs of collectives on the in-process transport, against the sequential oracle. */
import fc from "fast-check";
import { programPlans, runProgram } from "../helpers/collective-programs.ts";
import type { Campaign } from "./campaign.ts";

/** Programs of one seed; the next ones have the next seed. */
const BATCH = 250;

export const campaign: Campaign = {
  runs: 2000,
  start: async ({ seed, runs, say }) => {
    for (let done = 0, batch = seed; done < runs; done += BATCH, batch++) {
      const count = Math.min(BATCH, runs - done);
      const property = fc.asyncProperty(programPlans, (plan) => runProgram(plan));
      await fc.assert(property, { numRuns: count, seed: batch }).catch((error: unknown) => {
        throw new Error(`repeat with --seed ${batch} --runs ${count}`, { cause: error });
      });
      say(`seed ${batch}: ${count} programs agree with the oracle`);
    }
  },
};
