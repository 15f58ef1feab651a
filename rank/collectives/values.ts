/** Values for conformance runs: they name where they come from, and are exact in every dtype. */
import type { DType } from "../../shared/dtype.ts";
import { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from "../../shared/half.ts";
import type { ReduceOp } from "../memory/reduce.ts";
import type { Tensor } from "../memory/tensor.ts";

/** Integers below this are exact in the dtype; a prime, so that neighbouring rows do not repeat each other. */
const moduli: Readonly<Record<DType, number>> = {
  float32: 16_777_213,
  float16: 2039,
  bfloat16: 251,
  float64: 2_147_483_647,
  int32: 2_147_483_647,
  int16: 32_749,
  int8: 127,
  uint8: 251,
  int64: 2_147_483_647,
};

/** The value of an element that names source, destination, element and round as far as the dtype can hold it. */
export function nameValue(dtype: DType, source: number, destination: number, element: number, round: number): number {
  return (source * 1_000_003 + destination * 10_007 + element * 31 + round * 101 + 1) % moduli[dtype];
}

/** Operands of a reduction, small enough to be exact in every dtype for up to 16 ranks. */
export function operandValue(op: ReduceOp, source: number, element: number, round: number): number {
  if (op === "prod") return 1 + ((source + element + round) % 4 === 0 ? 1 : 0);
  return ((source * 5 + element * 3 + round) % 11) - (op === "sum" ? 0 : 3);
}

/** Sets an element from a number. */
export function setElement(tensor: Tensor, index: number, value: number): void {
  const { dtype, array } = tensor;
  if (array instanceof BigInt64Array) array[index] = BigInt(value);
  else if (dtype === "float16") array[index] = toFloat16(value);
  else if (dtype === "bfloat16") array[index] = toBfloat16(value);
  else array[index] = value;
}

/** An element as a number. */
export function getElement(tensor: Tensor, index: number): number {
  const value = tensor.array[index] ?? 0;
  if (tensor.dtype === "float16") return fromFloat16(Number(value));
  return tensor.dtype === "bfloat16" ? fromBfloat16(Number(value)) : Number(value);
}

/** An exact integer as the dtype holds it: integers wrap, the others are exact as they are. */
export function wrapped(dtype: DType, value: number): number {
  switch (dtype) {
    case "int8":
      return (value << 24) >> 24;
    case "uint8":
      return value & 255;
    case "int16":
      return (value << 16) >> 16;
    case "int32":
      return value | 0;
    default:
      return value;
  }
}

/** Rows of a partition in conformance runs of all_to_all_v. */
export const CONFORMANCE_ROWS = 4;

/** Rows that one rank sends another there: none, some or all. */
export function rowCount(source: number, destination: number): number {
  return (source * 2 + destination * 3) % (CONFORMANCE_ROWS + 1);
}

/** Input rows in conformance runs of indexed_all_to_all_v; more than a partition has, so that some are never sent. */
export const INDEXED_ROWS = 6;

/** The input row that one rank's index names for a slot at another; scattered, and repeated in small partitions. */
export function indexedRow(source: number, destination: number, slot: number): number {
  return (source + 3 * destination + slot * slot) % INDEXED_ROWS;
}

/** The rows that one rank sends another there, in the order of their slots. */
export function sentRows(source: number, destination: number): number[] {
  return Array.from({ length: rowCount(source, destination) }, (_, slot) => indexedRow(source, destination, slot));
}
