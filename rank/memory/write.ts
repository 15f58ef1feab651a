/** How a payload lands in window memory: by copy, or added element by element. */
import type { DType } from "../../shared/dtype.ts";
import type { Span } from "../../shared/shape.ts";
import { reduceInto, ReduceOp } from "./reduce.ts";
import type { Allocation } from "./registry.ts";
import { scatter } from "./spans.ts";

/** dtypes that an atomic put adds in, as PyPTO's atomic add does. Integers wrap. */
export const atomicDtypes = ["float32", "float16", "bfloat16", "int32", "int16", "int8"] as const;
export type AtomicDType = (typeof atomicDtypes)[number];

/** Whether a dtype can be added atomically. */
export function isAtomicDType(dtype: DType): dtype is AtomicDType {
  return (atomicDtypes as readonly DType[]).includes(dtype);
}

/** Writes a packed payload into the spans of a window, or adds it there when the put is atomic. */
export function writeSpans(
  target: Allocation,
  spans: readonly Span[],
  payload: Uint8Array,
  atomic: AtomicDType | undefined,
): void {
  const [first] = spans;
  const place = target.local.bytes.byteOffset + (first?.offset ?? 0);
  // a transport may have read the payload straight into its place
  if (payload.buffer === target.local.bytes.buffer && payload.byteOffset === place && atomic === undefined) return;
  if (atomic === undefined) scatter(target.local.bytes, spans, 0, payload);
  else addSpans(atomic, target.local.bytes, spans, payload);
}

/** Adds a packed payload to the spans of a window. Offsets and rows are whole elements. */
function addSpans(dtype: AtomicDType, memory: Uint8Array, spans: readonly Span[], payload: Uint8Array): void {
  let taken = 0;
  for (const { offset, rowBytes, rows, strideBytes } of spans) {
    for (let row = 0; row < rows; row++) {
      const start = offset + row * strideBytes;
      const target = memory.subarray(start, start + rowBytes);
      reduceInto(dtype, ReduceOp.Sum, target, [target, payload.subarray(taken, taken + rowBytes)]);
      taken += rowBytes;
    }
  }
}
