import { RankwiseError } from "../../shared/errors.ts";
import { describe } from "../../shared/shape.ts";
import type { Group } from "../group.ts";
import { allReduceMesh } from "./all-reduce-mesh.ts";
import { allReduceRing } from "./all-reduce-ring.ts";
import type { CollectiveSpec } from "./call.ts";
import type { ReduceOptions } from "./reduce-scatter.ts";

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

/** `allreduce(data, signal, { op, algo, coreNum })`, in place: the same reduction, bit for bit, on every rank. */
export function allReduce(
  group: Group,
  data: unknown,
  signal: unknown,
  options: AllReduceOptions,
  lanesMax: number,
): CollectiveSpec {
  const algo: unknown = options.algo ?? AllReduceAlgo.Mesh;
  if (algo === AllReduceAlgo.Mesh) return allReduceMesh(group, data, signal, options, lanesMax);
  if (algo === AllReduceAlgo.Ring) return allReduceRing(group, data, signal, options);
  throw new RankwiseError("ERR_INVALID_ARGUMENT", `allreduce: algo must be mesh or ring, got ${describe(algo)}`, {
    argument: "algo",
  });
}
