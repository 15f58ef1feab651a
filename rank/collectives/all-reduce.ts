import { ALLREDUCE_EXCHANGE_BYTES_MAX, ALLREDUCE_HUB_BYTES_MAX } from "../../shared/constants.ts";
import type { Engine } from "../engine.ts";
import type { Group } from "../group.ts";
import { checkAlgo, isCrowded } from "./algo.ts";
import { allReduceMesh } from "./all-reduce-mesh.ts";
import { allReduceRing } from "./all-reduce-ring.ts";
import { allReduceStaged } from "./all-reduce-staged.ts";
import { checkOptions, checkWindow } from "./arguments.ts";
import type { CollectiveSpec } from "./call.ts";
import { AllReduceAlgo, type AllReduceOptions } from "./reduce-options.ts";

/** `allreduce(data, signal, { op, algo, coreNum })`, in place: the same reduction, bit for bit, on every rank. */
export function allReduce(
  engine: Engine,
  group: Group,
  data: unknown,
  signal: unknown,
  options: AllReduceOptions,
  lanesMax: number,
): CollectiveSpec {
  const place = { op: "allreduce", group };
  checkOptions(place, options, ["op", "algo", "coreNum"]);
  const asked = checkAlgo(place.op, AllReduceAlgo, options.algo === undefined ? AllReduceAlgo.Mesh : options.algo);
  const algo =
    asked === AllReduceAlgo.Auto
      ? fastest(engine, group, checkWindow(place, "data", data).local.bytes.byteLength)
      : asked;
  if (algo === AllReduceAlgo.Mesh) return allReduceMesh(group, data, signal, options, lanesMax);
  if (algo === AllReduceAlgo.Ring) return allReduceRing(group, data, signal, options);
  return allReduceStaged(engine, group, data, signal, options, algo);
}

/** The fastest algorithm for so many bytes on so many ranks, as measured. */
function fastest(engine: Engine, group: Group, bytes: number): "exchange" | "hub" | "two_phase" {
  if (isCrowded(engine, group)) {
    return bytes <= ALLREDUCE_HUB_BYTES_MAX ? AllReduceAlgo.Hub : AllReduceAlgo.TwoPhase;
  }
  return bytes <= ALLREDUCE_EXCHANGE_BYTES_MAX ? AllReduceAlgo.Exchange : AllReduceAlgo.TwoPhase;
}
