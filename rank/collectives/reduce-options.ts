import type { ReduceOp } from "../memory/reduce.ts";
import type { CallOptions } from "./call.ts";

/** Options of the reductions. */
export interface ReduceOptions extends CallOptions {
  /** Default `ReduceOp.Sum`. */
  readonly op?: ReduceOp;
}

/** The algorithms of `allreduce`. */
export const AllReduceAlgo = { Mesh: "mesh", Ring: "ring" } as const;
export type AllReduceAlgo = (typeof AllReduceAlgo)[keyof typeof AllReduceAlgo];

/** Options of `allreduce`. */
export interface AllReduceOptions extends ReduceOptions {
  /** Default `mesh`: everybody reads everybody. `ring` moves less and takes more steps. */
  readonly algo?: AllReduceAlgo;
  /** Lanes of the mesh. Default 1. */
  readonly coreNum?: number;
}
