/**
 * What collectives must leave behind, computed one element after another in one place: no frames, no credits, and no
 * code of theirs but the conversions of the half types, which have tests of their own.
 */
import type { AllReduceAlgo } from "../../rank/collectives/reduce-options.ts";
import type { ReduceOp } from "../../rank/memory/reduce.ts";
import { type AnyArray, type DType, dtypes } from "../../shared/dtype.ts";
import { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from "../../shared/half.ts";

/** Memory of one rank: elements as they are stored. */
export interface Block {
  readonly dtype: DType;
  readonly array: AnyArray;
}

/** Zeroed memory of so many elements. */
export function block(dtype: DType, elements: number): Block {
  return { dtype, array: new dtypes[dtype].array(elements) };
}

/** A value as the element that stores it. */
function encode(dtype: DType, value: number): number | bigint {
  if (dtype === "int64") return BigInt(value);
  if (dtype === "float16") return toFloat16(value);
  return dtype === "bfloat16" ? toBfloat16(value) : value;
}

/** Sets an element of a block to a small integer. */
export function put({ dtype, array }: Block, index: number, value: number): void {
  (array as { [index: number]: number | bigint })[index] = encode(dtype, value);
}

/** The first element that differs, or undefined; a NaN is a NaN. */
export function difference(got: AnyArray, expected: AnyArray, dtype: DType): string | undefined {
  for (let i = 0; i < expected.length; i++) {
    const [a, b] = [decode(dtype, got[i] ?? 0), decode(dtype, expected[i] ?? 0)];
    if (!Object.is(a, b)) return `element ${i}: got ${String(a)}, expected ${String(b)}`;
  }
  return got.length === expected.length ? undefined : `${got.length} elements, expected ${expected.length}`;
}

/** Every rank's block becomes root's. */
export function broadcast(data: readonly Block[], root: number): void {
  const staged = data[root]!.array.slice();
  for (const { array } of data) copy(array, 0, staged, 0, staged.length);
}

/** Row s of every block becomes rank s's chunk. */
export function allGather(chunks: readonly Block[], data: readonly Block[]): void {
  for (const target of data) {
    for (const [source, { array }] of chunks.entries())
      copy(target.array, source * array.length, array, 0, array.length);
  }
}

/** Row s of rank d's block becomes row d of rank s's input. */
export function allToAll(inputs: readonly Block[], data: readonly Block[]): void {
  const ranks = data.length;
  for (const [d, target] of data.entries()) {
    const row = target.array.length / ranks;
    for (const [s, { array }] of inputs.entries()) copy(target.array, s * row, array, d * row, row);
  }
}

/** The first counts[s][d] rows of partition d go from rank s to partition s of rank d. Returns what everybody receives. */
export function allToAllV(
  inputs: readonly Block[],
  data: readonly Block[],
  counts: readonly (readonly number[])[],
  capacity: number,
): number[][] {
  const ranks = data.length;
  return data.map((target, d) => {
    const row = capacity === 0 ? 0 : target.array.length / ranks / capacity;
    return inputs.map(({ array }, s) => {
      const count = Math.max(0, Math.min(capacity, counts[s]?.[d] ?? 0));
      copy(target.array, s * capacity * row, array, d * capacity * row, count * row);
      return count;
    });
  });
}

/** Row r of rank r's block becomes the reduction of everybody's row r, taken in the order of ranks. */
export function reduceScatter(data: readonly Block[], op: ReduceOp): void {
  const ranks = data.length;
  const before = data.map(({ array }) => array.slice());
  for (const [rank, { dtype, array }] of data.entries()) {
    const row = array.length / ranks;
    for (let i = rank * row; i < (rank + 1) * row; i++) {
      set(
        array,
        i,
        reduceOnce(
          dtype,
          op,
          before.map((operand) => operand[i] ?? 0),
        ),
      );
    }
  }
}

/** Mesh: in the order of ranks, rounded once. Ring: segment k from rank k on, rounded at each step. */
export function allReduce(data: readonly Block[], op: ReduceOp, algo: AllReduceAlgo): void {
  const ranks = data.length;
  const before = data.map(({ array }) => array.slice());
  const { dtype, array } = data[0]!;
  for (let i = 0; i < array.length; i++) {
    const operands = before.map((operand) => operand[i] ?? 0);
    let result: number | bigint;
    if (algo === "mesh") result = reduceOnce(dtype, op, operands);
    else {
      let k = 0;
      while (i >= Math.floor(((k + 1) * array.length) / ranks)) k += 1;
      const turned = [...operands.slice(k), ...operands.slice(0, k)];
      result = turned.reduce((partial, operand) => reduceOnce(dtype, op, [partial, operand]));
    }
    for (const target of data) set(target.array, i, result);
  }
}

/** Stored operands reduced in order, in the dtype (half types in float32), as it is stored. */
function reduceOnce(dtype: DType, op: ReduceOp, operands: readonly (number | bigint)[]): number | bigint {
  const scratch = new dtypes[dtype === "float16" || dtype === "bfloat16" ? "float32" : dtype].array(1);
  const [first = 0, ...others] = operands.map((operand) => decode(dtype, operand));
  set(scratch, 0, first);
  for (const operand of others) set(scratch, 0, combine(op, scratch[0] ?? 0, operand, dtype));
  const result = scratch[0] ?? 0;
  return typeof result === "bigint" || (dtype !== "float16" && dtype !== "bfloat16") ? result : encode(dtype, result);
}

function combine(op: ReduceOp, a: number | bigint, b: number | bigint, dtype: DType): number | bigint {
  if (typeof a === "bigint" || typeof b === "bigint") {
    const [x, y] = [BigInt(a), BigInt(b)];
    if (op === "sum") return x + y;
    if (op === "prod") return x * y;
    return (op === "max") === x > y ? x : y;
  }
  if (op === "sum") return a + b;
  if (op === "max") return Math.max(a, b);
  if (op === "min") return Math.min(a, b);
  // a product of two int32 does not fit a double
  return dtype === "int32" ? Number(BigInt.asIntN(32, BigInt(a) * BigInt(b))) : a * b;
}

function decode(dtype: DType, stored: number | bigint): number | bigint {
  if (dtype === "float16") return fromFloat16(Number(stored));
  return dtype === "bfloat16" ? fromBfloat16(Number(stored)) : stored;
}

function set(array: AnyArray, index: number, value: number | bigint): void {
  (array as { [index: number]: number | bigint })[index] = value;
}

function copy(target: AnyArray, to: number, source: AnyArray, from: number, count: number): void {
  for (let i = 0; i < count; i++) set(target, to + i, source[from + i] ?? 0);
}
