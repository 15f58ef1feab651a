/**
 * Rankwise: one-sided collectives between real Node.js processes.
 *
 * @packageDocumentation
 */
export type { Platform } from "../shared/config.ts";
export type { Mode } from "../shared/config.ts";
export type { ArrayOf, DType } from "../shared/dtype.ts";
export { type ErrorCode, type ErrorContext, RankwiseError } from "../shared/errors.ts";
export type { Shape } from "../shared/shape.ts";
export { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from "../shared/half.ts";
export type { Decode, Golden } from "./check.ts";
export type { DeferredCondition } from "./checks.ts";
export { BarrierAlgo, type BarrierOptions, ExchangeAlgo, type ExchangeOptions } from "./collectives/algo.ts";
export { AllReduceAlgo, type AllReduceOptions, type ReduceOptions } from "./collectives/reduce-options.ts";
export type { AllToAllVOptions } from "./collectives/all-to-all-v.ts";
export type { IndexedAllToAllVOptions } from "./collectives/indexed-all-to-all-v.ts";
export type { BroadcastOptions } from "./collectives/broadcast.ts";
export type { CallOptions, Task } from "./collectives/call.ts";
export type { Comm } from "./comm.ts";
export { ReduceOp } from "./memory/reduce.ts";
export type { Tensor } from "./memory/tensor.ts";
export { NotifyOp, WaitCmp } from "./primitives.ts";
export type { ChunkOptions, Region } from "./region.ts";
export type { PutOptions, Signal, Window } from "./window.ts";
