/** Random drills on 2 to 8 ranks; each run is one drill with a seed of its own. */
import { planDrills } from "../../coordinator/drill/plan.ts";
import { DRILL_TIMES, play } from "../../coordinator/drill/stage.ts";
import { judge } from "../../coordinator/drill/verdict.ts";
import type { Campaign } from "./campaign.ts";

const SAID_EVERY = 25;

export const campaign: Campaign = {
  runs: 1000,
  async start({ seed, runs, say }) {
    const nranks = [2, 3, 4, 5, 6, 7, 8];
    const settled: number[] = [];
    const gone: number[] = [];
    let failed = 0;
    for (const [at, drill] of planDrills({ names: ["random"], nranks, at: {}, seed, runs }).entries()) {
      const seen = await play(drill);
      const { passed, faults, settledMs } = judge(drill, seen, DRILL_TIMES);
      if (drill.scenario.outcome.detection === "at once" && drill.scenario.outcome.ok !== true) {
        if (settledMs !== undefined) settled.push(settledMs);
        if (seen.goneMs !== undefined) gone.push(seen.goneMs);
      }
      if (!passed) {
        failed += 1;
        say(`seed ${drill.seed}: ${drill.scenario.name} on ${drill.nranks} ranks: ${faults.join("; ")}`);
      }
      if ((at + 1) % SAID_EVERY === 0) say(`${at + 1} drills, ${failed} wrong verdicts; ${figures(settled, gone)}`);
    }
    say(figures(settled, gone));
    if (failed > 0) throw new Error(`${failed} of ${runs} drills failed`);
  },
};

function figures(settled: number[], gone: number[]): string {
  return `detected at once: settled ${spread(settled)}, gone ${spread(gone)}`;
}

function spread(values: number[]): string {
  values.sort((a, b) => a - b);
  const at = (share: number): number => values[Math.max(Math.ceil(values.length * share) - 1, 0)] ?? 0;
  return `median ${at(0.5)}, p99 ${at(0.99)}, max ${at(1)} ms`;
}
