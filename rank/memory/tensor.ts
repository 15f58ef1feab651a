import {
  type AnyArray,
  type ArrayOf,
  arrayOver,
  checkDType,
  type DType,
  dtypes,
  elementBytes,
} from "../../shared/dtype.ts";
import { RankwiseError } from "../../shared/errors.ts";
import { byteLength, checkShape, describe, elementCount, formatShape, type Shape } from "../../shared/shape.ts";

/**
 * A packed row-major array with a dtype and a shape.
 *
 * A tensor made by `comm.tensor` is private to its rank: it may be the source of a put or the destination of a get,
 * never a peer's target. `window.local` is the owner's own part of a window as a tensor.
 */
export class Tensor<D extends DType = DType> {
  readonly dtype: D;
  /** Lengths of the dimensions, outermost first. */
  readonly shape: Shape;
  /** The elements. float16 and bfloat16 hold their bits in a `Uint16Array`, int64 is a `BigInt64Array`. */
  readonly array: ArrayOf<D>;
  /** The same memory as bytes. */
  readonly bytes: Uint8Array;

  /** @internal Programs get tensors from `comm.tensor`, `tensor.view` and `window.local`. */
  constructor(dtype: D, shape: Shape, array: ArrayOf<D>) {
    this.dtype = dtype;
    this.shape = shape;
    this.array = array;
    this.bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  }

  /**
   * The same memory under another dtype or shape, from `byteOffset` on.
   *
   * @throws {ERR_OUT_OF_BOUNDS} when the view would reach beyond this tensor.
   * @throws {ERR_NOT_CONTIGUOUS} when it would not start at a multiple of its element size.
   */
  view<V extends DType>(dtype: V, shape: Shape, byteOffset = 0): Tensor<V> {
    checkDType("view", dtype);
    const checked = checkShape("view", shape);
    const bytes = byteLength("view", dtype, checked);
    if (!Number.isSafeInteger(byteOffset) || byteOffset < 0 || byteOffset + bytes > this.bytes.byteLength) {
      throw new RankwiseError(
        "ERR_OUT_OF_BOUNDS",
        `view: ${dtype} ${formatShape(checked)} at byte ${byteOffset} needs ${bytes} bytes, the tensor has ${this.bytes.byteLength}`,
        { argument: "byteOffset" },
      );
    }
    const start = this.bytes.byteOffset + byteOffset;
    if (start % elementBytes(dtype) !== 0) {
      throw new RankwiseError(
        "ERR_NOT_CONTIGUOUS",
        `view: byte ${start} of the memory is no multiple of ${dtype}'s ${elementBytes(dtype)} bytes; check byteOffset`,
        { argument: "byteOffset" },
      );
    }
    return new Tensor(dtype, checked, arrayOver(dtype, this.bytes.buffer, start, elementCount("view", checked)));
  }
}

/**
 * A private tensor: zeros, or the given typed array, whose `byteOffset` and `length` are honoured.
 *
 * @throws {ERR_INVALID_ARGUMENT | ERR_SHAPE_MISMATCH | ERR_NOT_CONTIGUOUS | ERR_SIZE_LIMIT}
 */
export function makeTensor<D extends DType>(dtype: D, shape: Shape, array?: ArrayOf<D>): Tensor<D> {
  checkDType("tensor", dtype);
  const checked = checkShape("tensor", shape);
  const count = elementCount("tensor", checked);
  const bytes = byteLength("tensor", dtype, checked);
  if (array === undefined) return new Tensor(dtype, checked, arrayOver(dtype, allocate("tensor", bytes), 0, count));
  checkArray(dtype, array);
  if (array.length !== count) {
    throw new RankwiseError(
      "ERR_SHAPE_MISMATCH",
      `tensor: shape ${formatShape(checked)} has ${count} elements, the array has ${array.length}`,
      { argument: "array" },
    );
  }
  return new Tensor(dtype, checked, array);
}

/** Zeroed memory. @throws {ERR_SIZE_LIMIT} when the platform does not grant it. */
export function allocate(call: string, bytes: number): ArrayBuffer {
  try {
    return new ArrayBuffer(bytes);
  } catch (error) {
    throw new RankwiseError("ERR_SIZE_LIMIT", `${call}: the platform does not grant ${bytes} bytes at once`, {}, error);
  }
}

/** Whether two pieces of memory share a byte. */
export function sharesMemory(a: Uint8Array, b: Uint8Array): boolean {
  return (
    a.buffer === b.buffer &&
    Math.max(a.byteOffset, b.byteOffset) < Math.min(a.byteOffset + a.byteLength, b.byteOffset + b.byteLength)
  );
}

/** @throws {ERR_INVALID_ARGUMENT} unless the value is a tensor. */
export function checkTensor(call: string, argument: string, value: unknown): Tensor {
  if (value instanceof Tensor) return value as Tensor;
  throw new RankwiseError(
    "ERR_INVALID_ARGUMENT",
    `${call}: ${argument} must be a tensor (comm.tensor, or the local part of a window), got ${describe(value)}`,
    { argument },
  );
}

function checkArray(dtype: DType, array: unknown): asserts array is AnyArray {
  const expected = dtypes[dtype].array;
  if (array instanceof expected) return;
  const strided = typeof array === "object" && array !== null && ("stride" in array || "strides" in array);
  throw new RankwiseError(
    strided ? "ERR_NOT_CONTIGUOUS" : "ERR_INVALID_ARGUMENT",
    `tensor: ${dtype} wants a packed ${expected.name}, got ${describe(array)}${strided ? " with strides; copy it into a typed array first" : ""}`,
    { argument: "array" },
  );
}
