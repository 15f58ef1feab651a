/**
 * Reductions of packed rows.
 *
 * float16 and bfloat16 accumulate in float32 and are rounded once, at the end. Everything else accumulates in its own
 * dtype, where integers wrap. The operands are taken in the order given, so the same operands give the same bits; every
 * NaN in a result is the same one, because engines and processors differ in whose payload they keep.
 */
import { assert } from "../../shared/assert.ts";
import { type DType, dtypes, elementBytes } from "../../shared/dtype.ts";
import { narrowBfloat16, narrowFloat16, widenBfloat16, widenFloat16 } from "../../shared/half.ts";
import { type KernelDType, reduceByKernel } from "./kernels.ts";

/** How a reduction combines elements. */
export const ReduceOp = { Sum: "sum", Max: "max", Min: "min", Prod: "prod" } as const;
export type ReduceOp = (typeof ReduceOp)[keyof typeof ReduceOp];

/** The quiet NaN without sign or payload, as bits. */
const FLOAT32_NAN = 0x7fc0_0000;
const FLOAT64_NAN = 0x7ff8_0000_0000_0000n;

/** Elements other than int64, or the bits of halves. */
type NumberArray = Float32Array | Float64Array | Int32Array | Int16Array | Uint16Array | Int8Array | Uint8Array;

/** Elements that are reduced at a time without SIMD, so that what they accumulate in stays in the processor's cache. */
const CHUNK_ELEMENTS = 4096;

/**
 * Reduces packed operands of the target's length, in order, into `target`, which may be one of them but not overlap one
 * otherwise. By SIMD where all of them lie in one arena; the bits are the same.
 */
export function reduceInto(dtype: DType, op: ReduceOp, target: Uint8Array, operands: readonly Uint8Array[]): void {
  if (operands.length === 0 || target.byteLength === 0) return;
  assert(
    operands.every(({ byteLength }) => byteLength === target.byteLength),
    `operands of ${operands.map(({ byteLength }) => byteLength).join(", ")} bytes for ${target.byteLength}`,
  );
  if (dtype === "int64") reduceBigints(op, target, operands);
  else if (!reduceByKernel(dtype, op, target, operands)) reduceNumbers(dtype, op, target, operands);
}

/** The same without SIMD. */
export function reduceNumbers(
  dtype: KernelDType,
  op: ReduceOp,
  target: Uint8Array,
  operands: readonly Uint8Array[],
): void {
  const result = elementsOf(dtype, target);
  const sources = operands.map((operand) => elementsOf(dtype, operand));
  const room = Math.min(CHUNK_ELEMENTS, result.length);
  for (let start = 0; start < result.length; start += room) {
    const end = Math.min(start + room, result.length);
    const [first, ...others] = sources.map((source) => source.subarray(start, end));
    if (first === undefined) return;
    const accumulator = widened(dtype, first);
    for (const other of others) combine(op, accumulator, widened(dtype, other));
    narrow(dtype, result.subarray(start, end), accumulator);
  }
  if (result.buffer !== target.buffer) target.set(asBytes(result));
}

/** Bytes as elements, halves as their bits; bytes that do not start at a multiple of the element size are copied. */
function elementsOf(dtype: KernelDType, bytes: Uint8Array): NumberArray {
  const { array, bytes: size } = dtypes[dtype];
  const aligned = bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes); // slice of a Buffer copies nothing
  const ArrayType = array as new (buffer: ArrayBufferLike, byteOffset: number, length: number) => NumberArray;
  return new ArrayType(aligned.buffer, aligned.byteOffset, aligned.byteLength / size);
}

/** What elements are computed in: three kinds of array, since code that has seen many runs a hundred times slower. */
type Wide = Float32Array | Float64Array | Int32Array;

/** A copy of elements to compute with: float32 for the half types, and int32 for integers, whose low bits are theirs. */
function widened(dtype: KernelDType, elements: NumberArray): Wide {
  if (dtype === "float64") return new Float64Array(elements);
  if (dtype === "float32") return new Float32Array(elements);
  if (dtype !== "float16" && dtype !== "bfloat16") return new Int32Array(elements);
  const wide = new Float32Array(elements.length);
  if (dtype === "float16") widenFloat16(elements as Uint16Array, wide);
  else widenBfloat16(elements as Uint16Array, wide);
  return wide;
}

/** Puts results in their place, and gives all NaNs the same bits. */
function narrow(dtype: KernelDType, target: NumberArray, values: Wide): void {
  if (dtype === "float16") narrowFloat16(values as Float32Array, target as Uint16Array);
  else if (dtype === "bfloat16") narrowBfloat16(values as Float32Array, target as Uint16Array);
  else {
    if (values instanceof Float32Array) setNaNs(values);
    else if (values instanceof Float64Array) setLongNaNs(values);
    target.set(values);
  }
}

function setNaNs(values: Float32Array): void {
  const bits = new Uint32Array(values.buffer);
  for (let i = 0; i < values.length; i++) if (Number.isNaN(values[i]!)) bits[i] = FLOAT32_NAN;
}

function setLongNaNs(values: Float64Array): void {
  const bits = new BigUint64Array(values.buffer);
  for (let i = 0; i < values.length; i++) if (Number.isNaN(values[i]!)) bits[i] = FLOAT64_NAN;
}

function combine(op: ReduceOp, into: Wide, from: Wide): void {
  if (into instanceof Int32Array) combineIntegers(op, into, from);
  else combineFloats(op, into, from);
}

function combineIntegers(op: ReduceOp, into: Wide, from: Wide): void {
  const { length } = into;
  if (op === "sum") for (let i = 0; i < length; i++) into[i] = (into[i]! + from[i]!) | 0;
  else if (op === "max") for (let i = 0; i < length; i++) into[i] = Math.max(into[i]!, from[i]!);
  else if (op === "min") for (let i = 0; i < length; i++) into[i] = Math.min(into[i]!, from[i]!);
  else for (let i = 0; i < length; i++) into[i] = Math.imul(into[i]!, from[i]!);
}

function combineFloats(op: ReduceOp, into: Wide, from: Wide): void {
  const { length } = into;
  if (op === "sum") for (let i = 0; i < length; i++) into[i] = into[i]! + from[i]!;
  else if (op === "max") for (let i = 0; i < length; i++) into[i] = Math.max(into[i]!, from[i]!);
  else if (op === "min") for (let i = 0; i < length; i++) into[i] = Math.min(into[i]!, from[i]!);
  else for (let i = 0; i < length; i++) into[i] = into[i]! * from[i]!;
}

function reduceBigints(op: ReduceOp, target: Uint8Array, [first, ...others]: readonly Uint8Array[]): void {
  if (first === undefined) return;
  const sum = bigints(first).slice();
  for (const operand of others) combineBigints(op, sum, bigints(operand));
  target.set(asBytes(sum));
}

function combineBigints(op: ReduceOp, into: BigInt64Array, from: BigInt64Array): void {
  for (let i = 0; i < into.length; i++) {
    const a = into[i] ?? 0n;
    const b = from[i] ?? 0n;
    if (op === "sum") into[i] = a + b;
    else if (op === "prod") into[i] = a * b;
    else if (op === "max") into[i] = a > b ? a : b;
    else into[i] = a < b ? a : b;
  }
}

function bigints(bytes: Uint8Array): BigInt64Array {
  return new BigInt64Array(bytes.slice().buffer, 0, bytes.byteLength / elementBytes("int64"));
}

function asBytes(array: ArrayBufferView): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}
