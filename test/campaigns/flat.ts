/**
 * Memory and descriptors of ranks stay flat over `--runs` collectives of all kinds, back to back: the mean of the second
 * half of twenty samples against that of the first, behind as many calls of warm-up.
 */
import { leaks, runFlat } from "../helpers/flat.ts";
import type { Campaign } from "./campaign.ts";

const SAMPLES = 20;

export const campaign: Campaign = {
  runs: 10_000,
  async start({ runs, say }) {
    say("P  rank   heapUsed    external         rss   descriptors   (KiB; in brackets from one half to the other)");
    const found: string[] = [];
    for (const nranks of [2, 4]) {
      const ranks = await runFlat(nranks, runs, SAMPLES, 600_000);
      for (const [rank, { last, growth }] of ranks.entries()) {
        const kib = (what: "heapUsed" | "external" | "rss"): string =>
          `${kibibytes(last[what])} (${kibibytes(growth[what])})`.padStart(17);
        say(
          `${nranks} ${rank} ${kib("heapUsed")}${kib("external")}${kib("rss")}  ${last.descriptors} (${growth.descriptors})`,
        );
      }
      found.push(...leaks(ranks).map((leak) => `P = ${nranks}: ${leak}`));
    }
    if (found.length > 0) throw new Error(found.join("\n"));
  },
};

function kibibytes(bytes: number): string {
  return String(Math.round(bytes / 1024));
}
