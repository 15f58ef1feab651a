/** Groups one after another and several at once on one machine: nothing leaks, nothing crosses over. */
import { runGroups } from "../helpers/groups.ts";
import type { Campaign } from "./campaign.ts";

export const campaign: Campaign = {
  runs: 100,
  async start({ runs, say }) {
    for (let done = 0; done < runs; done += 10) {
      for (let run = 0; run < 10; run++) await runGroups(1);
      say(`${done + 10} groups, one after another`);
    }
    for (let round = 0; round < runs / 10; round++) await runGroups(5);
    say(`${runs / 10} times 5 groups at once`);
  },
};
