/**
 * Reductions of packed rows.
 *
 * float16 and bfloat16 accumulate in float32 and are rounded once, at the end. Everything else accumulates in its own
 * dtype, where integers wrap. The operands are taken in the order given, so the same operands give the same bits; every
 * NaN in a result is the same one, because engines and processors differ in whose payload they keep.
 */
import { assert } from "../../shared/assert.ts";
import { type DType, dtypes, elementBytes } from "../../shared/dtype.ts";
import { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from "../../shared/half.ts";
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
  for (let start = 0; start < result.length; start += CHUNK_ELEMENTS) {
    const end = Math.min(start + CHUNK_ELEMENTS, result.length);
    const [first, ...others] = sources.map((source) => widened(dtype, source.subarray(start, end)));
    if (first === undefined) return;
    // an operand may be the target, so the sum grows elsewhere
    const accumulator = first.slice();
    for (const other of others) combine(dtype, op, accumulator, other);
    store(dtype, result.subarray(start, end), accumulator);
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

/** The elements as numbers to compute with: float32 for the half types. */
function widened(dtype: KernelDType, elements: NumberArray): NumberArray {
  if (dtype !== "float16" && dtype !== "bfloat16") return elements;
  const wide = new Float32Array(elements.length);
  if (dtype === "float16") for (let i = 0; i < wide.length; i++) wide[i] = fromFloat16(elements[i]!);
  else for (let i = 0; i < wide.length; i++) wide[i] = fromBfloat16(elements[i]!);
  return wide;
}

function store(dtype: KernelDType, target: NumberArray, values: NumberArray): void {
  if (dtype === "float16") for (let i = 0; i < values.length; i++) target[i] = toFloat16(values[i]!);
  else if (dtype === "bfloat16") for (let i = 0; i < values.length; i++) target[i] = toBfloat16(values[i]!);
  else {
    if (values instanceof Float32Array) setNaNs(values, new Uint32Array(values.buffer), FLOAT32_NAN);
    else if (values instanceof Float64Array) setNaNs(values, new BigUint64Array(values.buffer), FLOAT64_NAN);
    target.set(values);
  }
}

/** Gives all NaNs the same bits. */
function setNaNs<T extends number | bigint>(values: NumberArray, bits: { [index: number]: T }, nan: T): void {
  for (let i = 0; i < values.length; i++) if (Number.isNaN(values[i])) bits[i] = nan;
}

function combine(dtype: KernelDType, op: ReduceOp, into: NumberArray, from: NumberArray): void {
  const { length } = into;
  if (op === "sum") for (let i = 0; i < length; i++) into[i] = into[i]! + from[i]!;
  else if (op === "max") for (let i = 0; i < length; i++) into[i] = Math.max(into[i]!, from[i]!);
  else if (op === "min") for (let i = 0; i < length; i++) into[i] = Math.min(into[i]!, from[i]!);
  else if (dtype === "int32") for (let i = 0; i < length; i++) into[i] = Math.imul(into[i]!, from[i]!);
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
