/** Runs random programs and compares what they saw with the model. */
import fc from "fast-check";
import { type RankRun, range, runRanksWell } from "../helpers/ranks.ts";
import { programs } from "./generate.ts";
import { interpret, type Observations, type Program } from "./interpret.ts";
import { findViolation } from "./model.ts";

/** How many programs, from which seed, on what. */
export interface Agreement {
  readonly runs: number;
  readonly seed: number;
  readonly run?: Omit<RankRun, "main" | "nranks" | "seed">;
}

/** Runs a program on every rank; rejects when it fails or contradicts the model. */
export async function runProgram(program: Program, seed: number, run: Agreement["run"] = {}): Promise<void> {
  const observed: Observations[] = [];
  await runRanksWell({
    waitTimeoutMs: 3000,
    ...run,
    nranks: program.nranks,
    seed,
    main: async (comm) => (observed[comm.rank] = await interpret(comm, program)),
  });
  const violation = findViolation(program, observed);
  if (violation !== undefined) throw new Error(violation);
}

/** Rejects with the smallest program found that contradicts the model, and the seed that repeats it. */
export async function checkAgreement({ runs, seed, run }: Agreement): Promise<void> {
  await fc.assert(
    fc.asyncProperty(programs, fc.nat(), (program, order) => runProgram(program, order, run)),
    { numRuns: runs, seed, endOnFailure: false },
  );
}

/** The programs of a seed, as `checkAgreement` would run them. */
export function samplePrograms(count: number, seed: number): Program[] {
  return fc.sample(programs, { numRuns: count, seed });
}

/** What is wrong with what the ranks of several programs saw, or undefined. `observed` by rank, then program. */
export function firstDisagreement(
  list: readonly Program[],
  observed: readonly (readonly Observations[])[],
): string | undefined {
  for (const [k, program] of list.entries()) {
    const seen = range(program.nranks).map((rank) => observed[rank]?.[k]);
    if (seen.includes(undefined)) return `program ${k}: a rank has no observations`;
    const violation = findViolation(program, seen as Observations[]);
    if (violation !== undefined) return `program ${k}: ${violation}\n${JSON.stringify(program)}`;
  }
  return undefined;
}
