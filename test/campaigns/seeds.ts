/** Orders of delivery: all_to_all by hand with its barrier on 10 000 of them, and without it until one exposes it. */
import { duties, goesWell } from "../compliance/duties.ts";
import type { Campaign } from "./campaign.ts";

export const campaign: Campaign = {
  runs: 10_000,
  start: async ({ seed: first, runs, say }) => {
    for (const duty of duties) {
      let exposed = 0;
      for (let seed = first; seed < first + duty.seedsMax; seed++) {
        if (!(await goesWell(duty, false, seed))) exposed += 1;
      }
      if (exposed === 0) throw new Error(`${duty.name}: ${duty.seedsMax} seeds from ${first} on expose nothing`);
      const count = duty.name.includes("all_to_all") ? runs : Math.ceil(runs / 10);
      for (let seed = first; seed < first + count; seed++) {
        if (!(await goesWell(duty, true, seed))) throw new Error(`${duty.name}: heeded, and seed ${seed} fails`);
      }
      say(`${duty.name}: neglected, ${exposed} of ${duty.seedsMax} seeds expose it; heeded, ${count} seeds are right`);
    }
  },
};
