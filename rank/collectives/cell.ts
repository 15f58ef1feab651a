import type { DType } from "../../shared/dtype.ts";
import type { ReduceOp } from "../memory/reduce.ts";
import type { Tensor } from "../memory/tensor.ts";
import type { Signal, Window } from "../window.ts";

/** One way to run a collective: a dtype, a length and, for reductions, an op. */
export interface Cell {
  readonly dtype: DType;
  /** Elements of one rank's chunk (of the whole buffer for broadcast and allreduce). */
  readonly length: number;
  readonly op: ReduceOp;
  readonly nranks: number;
}

/** The buffers of one conformance run. */
export interface Buffers {
  readonly input: Tensor;
  readonly data: Window;
  readonly signal: Signal;
  readonly round: number;
}
