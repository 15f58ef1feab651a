/** What one guarantee of the memory model is, and how it is put to the test. */
import assert from "node:assert/strict";
import type { Comm } from "rankwise";
import type { Limits } from "../../rank/limits.ts";
import type { SimulationResult } from "../../rank/simulate.ts";
import { range, type RankRun, runRanks, runRanksWell } from "../helpers/ranks.ts";

/** One end of a pair of ranks, on its way through a guarantee's program. */
export interface End {
  readonly comm: Comm;
  /** Whether this end is the one that puts, notifies and gets; the other owns the memory. */
  readonly sends: boolean;
  readonly other: number;
  /** What the ranks of this job lay open for each other, past all links: the memory of an owner, say. */
  readonly board: Map<string, unknown>;
}

/** A promise of the memory model, with a program that shows it. */
export interface Guarantee {
  /** Line of the memory model, 1 to 12. */
  readonly line: number;
  readonly name: string;
  /** Run by both ends of every pair; rejects when the promise is broken. */
  readonly program: (end: End) => Promise<void>;
  /** What the job needs beside a transport; a guarantee that needs nothing shares its job with others at P = 16. */
  readonly job?: { readonly limits?: Partial<Limits>; readonly waitTimeoutMs?: number };
  /** How the job must end; by default well. */
  readonly verdict?: (result: SimulationResult) => void;
}

/** Directions in which a pair (2k, 2k + 1) can be gone through. */
export const directions = ["0 → 1", "1 → 0"] as const;
export type Direction = (typeof directions)[number];

/** Runs a guarantee on all pairs of ranks at once; rejects when it does not hold. */
export async function prove(guarantee: Guarantee, direction: Direction, run: Omit<RankRun, "main">): Promise<void> {
  const board = new Map<string, unknown>();
  const main = (comm: Comm): Promise<void> => guarantee.program(endOf(comm, direction, board));
  const result = await runRanks({ ...guarantee.job, ...run, main });
  (guarantee.verdict ?? endedWell)(result);
}

/** Runs several guarantees one after another in one job, each in a group of its own of all ranks. */
export async function proveTogether(
  list: readonly Guarantee[],
  direction: Direction,
  run: Omit<RankRun, "main">,
): Promise<void> {
  const boards = list.map(() => new Map<string, unknown>());
  await runRanksWell({
    ...run,
    main: async (world) => {
      for (const [k, { line, name, program }] of list.entries()) {
        const comm = world.group(range(world.nranks));
        try {
          await program(endOf(comm, direction, boards[k] ?? new Map<string, unknown>()));
        } catch (error) {
          throw new Error(`line ${line}: ${name}`, { cause: error });
        }
      }
    },
  });
}

function endOf(comm: Comm, direction: Direction, board: Map<string, unknown>): End {
  const sender = direction === "0 → 1" ? 0 : 1;
  return { comm, sends: comm.rank % 2 === sender, other: comm.rank + 1 - 2 * (comm.rank % 2), board };
}

function endedWell({ failure }: SimulationResult): void {
  if (failure !== undefined) throw failure.error;
}

/** A verdict: the group has ended with this code, and the message matches. */
export function endsWith(code: string, message: RegExp): (result: SimulationResult) => void {
  return ({ failure }) => {
    if (failure === undefined) assert.fail(`expected ${code}, got a good end`);
    assert.equal(failure.error.code, code, failure.error.message);
    assert.match(failure.error.message, message);
  };
}
