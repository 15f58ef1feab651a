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
export type { Decode, Golden } from "./check.ts";
export type { CallOptions, Task } from "./collectives/call.ts";
export type { Comm } from "./comm.ts";
export type { Tensor } from "./memory/tensor.ts";
export { NotifyOp, WaitCmp } from "./primitives.ts";
export type { Region } from "./region.ts";
export type { Signal, Window } from "./window.ts";
