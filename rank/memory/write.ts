/** How a payload lands in window memory: by copy, or added element by element. */
import { type DType, dtypes, elementBytes } from "../../shared/dtype.ts";
import { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from "../../shared/half.ts";
import type { Span } from "../../shared/shape.ts";
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
  const size = elementBytes(dtype);
  const operand = elementsOf(dtype, payload);
  let taken = 0;
  for (const { offset, rowBytes, rows, strideBytes } of spans) {
    for (let row = 0; row < rows; row++) {
      const start = offset + row * strideBytes;
      addRow(dtype, elementsOf(dtype, memory.subarray(start, start + rowBytes)), operand, taken / size);
      taken += rowBytes;
    }
  }
}

type NumberArray = Float32Array | Uint16Array | Int32Array | Int16Array | Int8Array;

function addRow(dtype: AtomicDType, target: NumberArray, operand: NumberArray, start: number): void {
  for (let i = 0; i < target.length; i++) {
    const a = target[i] ?? 0;
    const b = operand[start + i] ?? 0;
    if (dtype === "float16") target[i] = toFloat16(fromFloat16(a) + fromFloat16(b));
    else if (dtype === "bfloat16") target[i] = toBfloat16(Math.fround(fromBfloat16(a) + fromBfloat16(b)));
    else target[i] = a + b;
  }
}

/** Bytes as elements; bytes that do not start at a multiple of the element size are copied first. */
function elementsOf(dtype: AtomicDType, bytes: Uint8Array): NumberArray {
  const { array, bytes: size } = dtypes[dtype];
  const aligned = bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes); // slice of a Buffer copies nothing
  const ArrayType = array as new (buffer: ArrayBufferLike, byteOffset: number, length: number) => NumberArray;
  return new ArrayType(aligned.buffer, aligned.byteOffset, aligned.byteLength / size);
}
