/**
 * Shapes, offsets and regions: all arithmetic on sizes, with safe integers only.
 *
 * Views are packed and row-major. A region of a tensor is a block given by offsets and a shape in elements; its
 * bytes are `rows` runs of `rowBytes`, `strideBytes` apart: one {@link Span}, or several where more than one outer
 * dimension is cut.
 */
import { DIMENSIONS_MAX } from "./constants.ts";
import { type DType, elementBytes } from "./dtype.ts";
import { RankwiseError } from "./errors.ts";

/** Lengths of the dimensions, outermost first. */
export type Shape = readonly number[];

/** `rows` runs of `rowBytes` bytes, the first at `offset`, each `strideBytes` after the one before. */
export interface Span {
  readonly offset: number;
  readonly rowBytes: number;
  readonly rows: number;
  readonly strideBytes: number;
}

/** @throws {ERR_INVALID_ARGUMENT} unless `shape` is an array of at most `DIMENSIONS_MAX` safe integers ≥ 0. */
export function checkShape(call: string, shape: unknown): Shape {
  if (!Array.isArray(shape) || shape.length === 0 || shape.length > DIMENSIONS_MAX) {
    throw new RankwiseError(
      "ERR_INVALID_ARGUMENT",
      `${call}: a shape is an array of 1 to ${DIMENSIONS_MAX} lengths, got ${describe(shape)}`,
      { argument: "shape" },
    );
  }
  for (const length of shape as unknown[]) {
    if (!Number.isSafeInteger(length) || (length as number) < 0) {
      throw new RankwiseError(
        "ERR_INVALID_ARGUMENT",
        `${call}: a shape's lengths are integers ≥ 0, got ${describe(shape)}`,
        { argument: "shape" },
      );
    }
  }
  return [...(shape as number[])];
}

/** Elements of a shape. @throws {ERR_SIZE_LIMIT} when their number is not a safe integer. */
export function elementCount(call: string, shape: Shape): number {
  let count = 1;
  for (const length of shape) count *= length;
  if (shape.includes(0)) count = 0;
  if (!Number.isSafeInteger(count)) {
    throw new RankwiseError("ERR_SIZE_LIMIT", `${call}: shape ${formatShape(shape)} has more than 2^53 - 1 elements`);
  }
  return count;
}

/** Bytes of a packed tensor. @throws {ERR_SIZE_LIMIT} when their number is not a safe integer. */
export function byteLength(call: string, dtype: DType, shape: Shape): number {
  const bytes = elementCount(call, shape) * elementBytes(dtype);
  if (!Number.isSafeInteger(bytes)) {
    throw new RankwiseError("ERR_SIZE_LIMIT", `${call}: ${dtype} ${formatShape(shape)} has more than 2^53 - 1 bytes`);
  }
  return bytes;
}

/** Whether two shapes are the same. */
export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((length, dimension) => length === b[dimension]);
}

/** `[4, 64]`. */
export function formatShape(shape: Shape): string {
  return `[${shape.join(", ")}]`;
}

/**
 * Checks that the block `[offset, offset + extent)` lies inside `shape`.
 *
 * @throws {ERR_INVALID_ARGUMENT} for a wrong number of offsets or a value that is no integer;
 * @throws {ERR_OUT_OF_BOUNDS} when a dimension exceeds its length.
 */
export function checkBlock(where: BlockPlace, offset: Shape, extent: Shape): void {
  const { call, argument, shape, what } = where;
  for (const [name, list] of [
    [argument, offset],
    ["shape", extent],
  ] as const) {
    if (!Array.isArray(list) || list.length !== shape.length) {
      throw new RankwiseError(
        "ERR_INVALID_ARGUMENT",
        `${call}: ${name} ${describe(list)} must have ${shape.length} entries, one for each dimension of ${what} ${formatShape(shape)}`,
        { argument: name },
      );
    }
  }
  for (let dimension = 0; dimension < shape.length; dimension++) {
    const start = offset[dimension] ?? Number.NaN;
    const length = extent[dimension] ?? Number.NaN;
    if (!Number.isSafeInteger(start) || !Number.isSafeInteger(length)) {
      throw new RankwiseError(
        "ERR_INVALID_ARGUMENT",
        `${call}: ${argument} ${describe(offset)} with shape ${describe(extent)}: entry ${dimension} is not a safe integer`,
        { argument },
      );
    }
    const limit = shape[dimension] ?? 0;
    if (start < 0 || length < 0 || start + length > limit) {
      throw new RankwiseError(
        "ERR_OUT_OF_BOUNDS",
        `${call}: ${dimension === 0 ? "rows" : `elements of dimension ${dimension}`} [${start}, ${start + length}) ${length < 0 ? "run backwards in" : "exceed"} ${what} ${formatShape(shape)}; check ${argument}`,
        { argument, offset },
      );
    }
  }
}

/** Where a block is taken from, for the message. */
export interface BlockPlace {
  readonly call: string;
  readonly argument: string;
  readonly what: string;
  readonly shape: Shape;
}

/**
 * The byte spans of a checked block, in row-major order. Contiguous inner dimensions are merged, so that a whole
 * tensor is one row; a block cut in several outer dimensions is several spans. An empty block has none.
 */
export function spansOf(dtype: DType, shape: Shape, offset: Shape, extent: Shape): Span[] {
  if (extent.includes(0)) return [];
  const size = elementBytes(dtype);
  const strides = strideElements(shape);
  let offsetElements = 0;
  for (let d = 0; d < shape.length; d++) offsetElements += at(offset, d) * at(strides, d);
  // merge inner dimensions that are taken whole: what is left of `inner` is one contiguous run
  let inner = shape.length - 1;
  while (inner > 0 && extent[inner] === shape[inner]) inner--;
  const rowBytes = at(extent, inner) * at(strides, inner) * size;
  // the next dimension outwards gives the rows; further ones give separate spans
  const outer: number[] = [];
  let rows = 1;
  let strideBytes = rowBytes;
  let rowDimension = inner - 1;
  while (rowDimension >= 0 && extent[rowDimension] === 1) rowDimension--;
  if (rowDimension >= 0) {
    rows = at(extent, rowDimension);
    strideBytes = at(strides, rowDimension) * size;
    for (let d = 0; d < rowDimension; d++) if (at(extent, d) > 1) outer.push(d);
  }
  const spans: Span[] = [];
  const visit = (level: number, base: number): void => {
    const d = outer[level];
    if (d === undefined) {
      spans.push({ offset: base * size, rowBytes, rows, strideBytes });
      return;
    }
    for (let i = 0; i < at(extent, d); i++) visit(level + 1, base + i * at(strides, d));
  };
  visit(0, offsetElements);
  return spans;
}

/** Payload bytes of a span. */
export function spanBytes(span: Span): number {
  return span.rows * span.rowBytes;
}

/** Cuts a span into pieces of at most `limit` payload bytes, in order: whole rows where they fit, else parts of a row. */
export function cutSpan(span: Span, limit: number): Span[] {
  if (spanBytes(span) <= limit) return [span];
  const pieces: Span[] = [];
  if (span.rowBytes <= limit) {
    const step = Math.floor(limit / span.rowBytes);
    for (let row = 0; row < span.rows; row += step) {
      pieces.push({ ...span, offset: span.offset + row * span.strideBytes, rows: Math.min(step, span.rows - row) });
    }
    return pieces;
  }
  for (let row = 0; row < span.rows; row++) {
    for (let byte = 0; byte < span.rowBytes; byte += limit) {
      const rowBytes = Math.min(limit, span.rowBytes - byte);
      const offset = span.offset + row * span.strideBytes + byte;
      pieces.push({ offset, rowBytes, rows: 1, strideBytes: rowBytes });
    }
  }
  return pieces;
}

/** Whether a span's last byte lies inside `limitBytes`; safe for any header a peer may send. */
export function spanFits(span: Span, limitBytes: number): boolean {
  if (span.rows === 0 || span.rowBytes === 0) return span.offset <= limitBytes;
  const end = span.offset + (span.rows - 1) * span.strideBytes + span.rowBytes;
  const disjoint = span.rows === 1 || span.strideBytes >= span.rowBytes;
  return Number.isSafeInteger(end) && end <= limitBytes && disjoint;
}

/** Whether two byte ranges of one buffer, `[start, end)`, share a byte. */
export function rangesOverlap(a: readonly [number, number], b: readonly [number, number]): boolean {
  return a[0] < b[1] && b[0] < a[1];
}

/** Row-major strides, in elements. */
export function strideElements(shape: Shape): number[] {
  const strides = new Array<number>(shape.length).fill(1);
  for (let d = shape.length - 2; d >= 0; d--) strides[d] = at(strides, d + 1) * at(shape, d + 1);
  return strides;
}

/** The offset of the element with this row-major index, one number for each dimension. */
export function offsetOf(index: number, shape: Shape): number[] {
  return strideElements(shape).map((stride, d) => Math.floor(index / stride) % at(shape, d));
}

/** A value for a message, short. */
export function describe(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.slice(0, 9).map(describe).join(", ")}${value.length > 9 ? ", …" : ""}]`;
  if (value === null || value === undefined || typeof value !== "object") return String(value);
  const { constructor } = value as { constructor?: unknown };
  return typeof constructor === "function" ? `a ${constructor.name.replace(/^_/u, "")}` : "an object"; // a bundler may rename _Tensor
}

function at(list: readonly number[], index: number): number {
  return list[index] ?? 0;
}
