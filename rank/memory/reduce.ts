/**
 * Reductions of packed rows.
 *
 * float16 and bfloat16 accumulate in float32 and are rounded once, at the end. Everything else accumulates in its own
 * dtype, where integers wrap. The operands are taken in the order given, so the same operands give the same bits; every
 * NaN in a result is the same one, because engines and processors differ in whose payload they keep.
 */
import { type DType, dtypes, elementBytes } from "../../shared/dtype.ts";
import { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from "../../shared/half.ts";

/** How a reduction combines elements. */
export const ReduceOp = { Sum: "sum", Max: "max", Min: "min", Prod: "prod" } as const;
export type ReduceOp = (typeof ReduceOp)[keyof typeof ReduceOp];

/** The quiet NaN without sign or payload, as bits. */
const FLOAT32_NAN = 0x7fc0_0000;
const FLOAT64_NAN = 0x7ff8_0000_0000_0000n;

type NumberArray = Float32Array | Float64Array | Int32Array | Int16Array | Int8Array | Uint8Array;

/** Reduces packed operands of one length, in order, into `target`, which may be one of them. */
export function reduceInto(dtype: DType, op: ReduceOp, target: Uint8Array, operands: readonly Uint8Array[]): void {
  const [first, ...others] = operands;
  if (first === undefined) return;
  if (dtype === "int64") {
    const sum = bigints(first).slice();
    for (const operand of others) combineBigints(op, sum, bigints(operand));
    target.set(asBytes(sum));
    return;
  }
  const accumulator = load(dtype, first);
  for (const operand of others) combine(dtype, op, accumulator, load(dtype, operand));
  store(dtype, target, accumulator);
}

/** The elements as numbers to compute with: float32 for the half types, else a copy in the dtype itself. */
function load(dtype: Exclude<DType, "int64">, bytes: Uint8Array): NumberArray {
  const { buffer } = bytes.slice();
  if (dtype === "float16") return Float32Array.from(new Uint16Array(buffer), fromFloat16);
  if (dtype === "bfloat16") return Float32Array.from(new Uint16Array(buffer), fromBfloat16);
  return new dtypes[dtype].array(buffer);
}

function store(dtype: DType, target: Uint8Array, values: NumberArray): void {
  if (dtype === "float16") target.set(asBytes(Uint16Array.from(values, toFloat16)));
  else if (dtype === "bfloat16") target.set(asBytes(Uint16Array.from(values, toBfloat16)));
  else {
    if (values instanceof Float32Array) setNaNs(values, new Uint32Array(values.buffer), FLOAT32_NAN);
    else if (values instanceof Float64Array) setNaNs(values, new BigUint64Array(values.buffer), FLOAT64_NAN);
    target.set(asBytes(values));
  }
}

/** Gives all NaNs the same bits. */
function setNaNs<T extends number | bigint>(values: NumberArray, bits: { [index: number]: T }, nan: T): void {
  for (let i = 0; i < values.length; i++) if (Number.isNaN(values[i])) bits[i] = nan;
}

function combine(dtype: DType, op: ReduceOp, into: NumberArray, from: NumberArray): void {
  const { length } = into;
  if (op === "sum") for (let i = 0; i < length; i++) into[i] = (into[i] ?? 0) + (from[i] ?? 0);
  else if (op === "max") for (let i = 0; i < length; i++) into[i] = Math.max(into[i] ?? 0, from[i] ?? 0);
  else if (op === "min") for (let i = 0; i < length; i++) into[i] = Math.min(into[i] ?? 0, from[i] ?? 0);
  else if (dtype === "int32") for (let i = 0; i < length; i++) into[i] = Math.imul(into[i] ?? 0, from[i] ?? 0);
  else for (let i = 0; i < length; i++) into[i] = (into[i] ?? 0) * (from[i] ?? 0);
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
