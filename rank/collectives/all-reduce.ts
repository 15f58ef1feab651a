import { RankwiseError } from "../../shared/errors.ts";
import { describe } from "../../shared/shape.ts";
import type { Group } from "../group.ts";
import { allReduceMesh } from "./all-reduce-mesh.ts";
import { allReduceRing } from "./all-reduce-ring.ts";
import { checkOptions } from "./arguments.ts";
import type { CollectiveSpec } from "./call.ts";
import { AllReduceAlgo, type AllReduceOptions } from "./reduce-options.ts";

/** `allreduce(data, signal, { op, algo, coreNum })`, in place: the same reduction, bit for bit, on every rank. */
export function allReduce(
  group: Group,
  data: unknown,
  signal: unknown,
  options: AllReduceOptions,
  lanesMax: number,
): CollectiveSpec {
  checkOptions({ op: "allreduce", group }, options);
  const algo: unknown = options.algo ?? AllReduceAlgo.Mesh;
  if (algo === AllReduceAlgo.Mesh) return allReduceMesh(group, data, signal, options, lanesMax);
  if (algo === AllReduceAlgo.Ring) return allReduceRing(group, data, signal, options);
  throw new RankwiseError("ERR_INVALID_ARGUMENT", `allreduce: algo must be mesh or ring, got ${describe(algo)}`, {
    argument: "algo",
  });
}
