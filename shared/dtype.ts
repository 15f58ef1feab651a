import { RankwiseError } from "./errors.ts";

/** Element types, their size in bytes, their typed array and their code on the wire. */
export const dtypes = {
  float32: { bytes: 4, code: 1, array: Float32Array },
  float16: { bytes: 2, code: 2, array: Uint16Array },
  bfloat16: { bytes: 2, code: 3, array: Uint16Array },
  float64: { bytes: 8, code: 4, array: Float64Array },
  int32: { bytes: 4, code: 5, array: Int32Array },
  int16: { bytes: 2, code: 6, array: Int16Array },
  int8: { bytes: 1, code: 7, array: Int8Array },
  uint8: { bytes: 1, code: 8, array: Uint8Array },
  int64: { bytes: 8, code: 9, array: BigInt64Array },
} as const;

/** Name of an element type. */
export type DType = keyof typeof dtypes;

/**
 * The typed array that holds a dtype; float16 and bfloat16 hold their bits. Its buffer may be an `ArrayBuffer` or shared
 * memory, as a window's is.
 */
export type ArrayOf<D extends DType> = {
  float32: Float32Array;
  float16: Uint16Array;
  bfloat16: Uint16Array;
  float64: Float64Array;
  int32: Int32Array;
  int16: Int16Array;
  int8: Int8Array;
  uint8: Uint8Array;
  int64: BigInt64Array;
}[D];

/** Any tensor's array. */
export type AnyArray = ArrayOf<DType>;

/** Whether a value names a dtype. */
export function isDType(value: unknown): value is DType {
  return typeof value === "string" && Object.hasOwn(dtypes, value);
}

/** Bytes of one element. */
export function elementBytes(dtype: DType): number {
  return dtypes[dtype].bytes;
}

/** @throws {ERR_INVALID_ARGUMENT} unless the value names a dtype. */
export function checkDType(call: string, value: unknown): DType {
  if (isDType(value)) return value;
  throw new RankwiseError(
    "ERR_INVALID_ARGUMENT",
    `${call}: dtype ${typeof value === "string" ? JSON.stringify(value) : typeof value === "number" ? value : typeof value} is not one of ${Object.keys(dtypes).join(", ")}`,
    { argument: "dtype" },
  );
}

/** A typed array of `dtype` over `count` elements of `buffer`, from `byteOffset` on. */
export function arrayOver<D extends DType>(
  dtype: D,
  buffer: ArrayBufferLike,
  byteOffset: number,
  count: number,
): ArrayOf<D> {
  const ArrayType = dtypes[dtype].array as new (
    buffer: ArrayBufferLike,
    byteOffset: number,
    length: number,
  ) => AnyArray;
  return new ArrayType(buffer, byteOffset, count) as ArrayOf<D>;
}
