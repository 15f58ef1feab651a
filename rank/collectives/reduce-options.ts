import { RankwiseError } from "../../shared/errors.ts";
import type { ReduceOp } from "../memory/reduce.ts";
import type { CallOptions } from "./call.ts";

/** Options of the reductions. */
export interface ReduceOptions extends CallOptions {
  /** Default `ReduceOp.Sum`. */
  readonly op?: ReduceOp;
}

/** The algorithms of `allreduce`. */
export const AllReduceAlgo = {
  Auto: "auto",
  Mesh: "mesh",
  Ring: "ring",
  Exchange: "exchange",
  Hub: "hub",
  TwoPhase: "two_phase",
} as const;
export type AllReduceAlgo = (typeof AllReduceAlgo)[keyof typeof AllReduceAlgo];

/** Options of `allreduce`. */
export interface AllReduceOptions extends ReduceOptions {
  /**
   * Default `mesh`: everybody reads everybody. `ring` moves less and takes more steps. `exchange`: everybody's data to
   * everybody in one round. `hub`: to rank 0 of the group, which reduces, and back. `two_phase`: block d to rank d, which
   * reduces it, and back. `auto` takes the fastest of the last three; all but `ring` give the same bits.
   */
  readonly algo?: AllReduceAlgo;
  /** Lanes of the mesh. Default 1. */
  readonly coreNum?: number;
}

/** Lanes are the mesh's. @throws {ERR_INVALID_ARGUMENT} for more than one with another algorithm. */
export function refuseLanes(algo: AllReduceAlgo, { coreNum }: AllReduceOptions): void {
  if (coreNum === undefined || coreNum === 1) return;
  throw new RankwiseError("ERR_INVALID_ARGUMENT", `allreduce: algo ${algo} has one lane; coreNum is for algo mesh`, {
    argument: "coreNum",
  });
}
