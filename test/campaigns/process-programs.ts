/** Random primitive programs on real processes, half of them over TCP, half over Unix sockets. */
import { checkOnProcesses } from "../property/processes.ts";
import type { Campaign } from "./campaign.ts";

/** Programs of one job. */
const BATCH = 50;

export const campaign: Campaign = {
  runs: 200,
  start: async ({ seed, runs, say }) => {
    for (let done = 0, batch = seed; done < runs; done += BATCH, batch++) {
      const count = Math.min(BATCH, runs - done);
      const transport = (batch - seed) % 2 === 0 ? "tcp" : "unix";
      await checkOnProcesses(count, batch, transport).catch((error: unknown) => {
        throw new Error(`repeat with --seed ${batch} --runs ${count}`, { cause: error });
      });
      say(`seed ${batch}: ${count} programs on processes over ${transport} agree with the memory model`);
    }
  },
};
