/** Regions of puts and gets: checked against both shapes, and turned into spans. */
import { RankwiseError } from "../shared/errors.ts";
import { checkBlock, describe, formatShape, sameShape, type Shape, type Span, spansOf } from "../shared/shape.ts";
import type { Allocation } from "./memory/registry.ts";
import { checkTensor, sharesMemory, type Tensor } from "./memory/tensor.ts";

/** A block to move: offsets in the destination and in the source, and its shape, all in elements. */
export interface Region {
  /** Default: all zeros. */
  readonly dstOffset?: Shape;
  /** Default: all zeros. */
  readonly srcOffset?: Shape;
  readonly shape: Shape;
}

/** How a block is cut into chunks, in elements of its last two dimensions. Each chunk is a transfer of its own. */
export interface ChunkOptions {
  readonly chunkRows?: number;
  readonly chunkCols?: number;
  /** Chunks leave back to back in any case; as in PyPTO, asking for it needs both chunk sizes. */
  readonly pipeline?: boolean;
}

/** The private side of a put or get: a tensor of the window's dtype. */
export function checkOther(call: string, argument: string, window: Allocation, value: unknown): Tensor {
  const tensor = checkTensor(call, argument, value);
  if (tensor.dtype === window.dtype) return tensor;
  throw new RankwiseError(
    "ERR_DTYPE_MISMATCH",
    `${call}: ${argument} is ${tensor.dtype}, window "${window.name}" is ${window.dtype}; a view has the other dtype`,
    { argument, window: window.name },
  );
}

/** The spans of a region on this rank's side and in the peer's window, in the same order, checked against both shapes. */
export function blocks(
  call: string,
  window: Allocation,
  tensor: Tensor,
  region: Region | undefined,
  options: ChunkOptions,
  direction: "put" | "get",
): { mine: Span[]; theirs: Span[] } {
  if (region !== undefined && (typeof region !== "object" || (region as unknown) === null)) {
    throw new RankwiseError(
      "ERR_INVALID_ARGUMENT",
      `${call}: region must be { shape, dstOffset?, srcOffset? }, got ${describe(region)}`,
      {
        argument: "region",
      },
    );
  }
  if (region === undefined && !sameShape(window.shape, tensor.shape)) {
    throw new RankwiseError(
      "ERR_SHAPE_MISMATCH",
      `${call}: without a region the shapes must match: ${formatShape(tensor.shape)} and window "${window.name}" ${formatShape(window.shape)}`,
      { argument: "region", window: window.name },
    );
  }
  const { shape, dstOffset, srcOffset } = region ?? { shape: window.shape };
  const [mineName, regionName] = direction === "put" ? ["srcOffset", "dstOffset"] : ["dstOffset", "srcOffset"];
  // the tile-sized forms take the window's offset as an argument of its own
  const theirsName = call.startsWith("remote") ? "offset" : regionName;
  const [mineGiven, theirsGiven] = direction === "put" ? [srcOffset, dstOffset] : [dstOffset, srcOffset];
  const mineOffset = mineGiven ?? tensor.shape.map(() => 0);
  const theirOffset = theirsGiven ?? window.shape.map(() => 0);
  const mineWhat = direction === "put" ? "the source" : "the destination";
  checkBlock({ call, argument: theirsName, what: `window "${window.name}"`, shape: window.shape }, theirOffset, shape);
  checkBlock({ call, argument: mineName, what: mineWhat, shape: tensor.shape }, mineOffset, shape);
  const spans: { mine: Span[]; theirs: Span[] } = { mine: [], theirs: [] };
  for (const { offset, extent } of chunks(call, shape, options)) {
    spans.mine.push(...spansOf(tensor.dtype, tensor.shape, added(mineOffset, offset), extent));
    spans.theirs.push(...spansOf(window.dtype, window.shape, added(theirOffset, offset), extent));
  }
  return spans;
}

/** The chunks of a block, in row-major order; without chunk sizes the block itself. */
function chunks(call: string, shape: Shape, options: ChunkOptions): { offset: Shape; extent: Shape }[] {
  const { chunkRows, chunkCols, pipeline = false } = options;
  for (const [argument, value] of Object.entries({ chunkRows, chunkCols })) {
    if (value === undefined || (Number.isSafeInteger(value) && value > 0)) continue;
    throw new RankwiseError(
      "ERR_INVALID_ARGUMENT",
      `${call}: ${argument} must be an integer > 0, got ${describe(value)}`,
      {
        argument,
      },
    );
  }
  if (pipeline && (chunkRows === undefined || chunkCols === undefined)) {
    throw new RankwiseError("ERR_INVALID_ARGUMENT", `${call}: pipeline needs chunkRows and chunkCols, both > 0`, {
      argument: "pipeline",
    });
  }
  if (chunkRows === undefined && chunkCols === undefined) return [{ offset: shape.map(() => 0), extent: shape }];
  const steps = shape.map((length, dimension) => {
    if (dimension === shape.length - 1) return chunkCols ?? length;
    return dimension === shape.length - 2 ? (chunkRows ?? length) : 1;
  });
  let list: { offset: number[]; extent: number[] }[] = [{ offset: [], extent: [] }];
  for (const [dimension, length] of shape.entries()) {
    const step = Math.max(1, steps[dimension] ?? 1);
    list = list.flatMap(({ offset, extent }) => {
      const parts: typeof list = [];
      for (let start = 0; start < length; start += step) {
        parts.push({ offset: [...offset, start], extent: [...extent, Math.min(step, length - start)] });
      }
      return parts;
    });
  }
  return list;
}

function added(a: Shape, b: Shape): Shape {
  return a.map((value, dimension) => value + (b[dimension] ?? 0));
}

/** A put or get to oneself between overlapping memory has no defined result. */
export function refuseOverlap(
  call: string,
  window: Allocation,
  tensor: Tensor,
  mine: readonly Span[],
  theirs: readonly Span[],
): void {
  if (!sharesMemory(window.local.bytes, tensor.bytes)) return;
  const shift = tensor.bytes.byteOffset - window.local.bytes.byteOffset;
  const clash = mine.some((a) => theirs.some((b) => rowsOverlap({ ...a, offset: a.offset + shift }, b)));
  if (!clash) return;
  throw new RankwiseError(
    "ERR_ALIASED_BUFFERS",
    `${call}: source and destination overlap in window "${window.name}" of this rank`,
    { window: window.name },
  );
}

function rowsOverlap(a: Span, b: Span): boolean {
  for (let i = 0; i < a.rows; i++) {
    const start = a.offset + i * a.strideBytes;
    for (let j = 0; j < b.rows; j++) {
      const other = b.offset + j * b.strideBytes;
      if (start < other + b.rowBytes && other < start + a.rowBytes) return true;
    }
  }
  return false;
}
