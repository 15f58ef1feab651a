/** Regions of puts and gets: checked against both shapes, and turned into spans. */
import { RankwiseError } from "../shared/errors.ts";
import { checkBlock, formatShape, sameShape, type Shape, type Span, spansOf } from "../shared/shape.ts";
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

/** The spans of a region on this rank's side and in the peer's window, checked against both shapes. */
export function blocks(
  call: string,
  window: Allocation,
  tensor: Tensor,
  region: Region | undefined,
  direction: "put" | "get",
): { mine: Span[]; theirs: Span[] } {
  if (region === undefined) {
    if (!sameShape(window.shape, tensor.shape)) {
      throw new RankwiseError(
        "ERR_SHAPE_MISMATCH",
        `${call}: without a region the shapes must match: ${formatShape(tensor.shape)} and window "${window.name}" ${formatShape(window.shape)}`,
        { argument: "region", window: window.name },
      );
    }
    const zeros = window.shape.map(() => 0);
    return {
      mine: spansOf(tensor.dtype, tensor.shape, zeros, tensor.shape),
      theirs: spansOf(window.dtype, window.shape, zeros, window.shape),
    };
  }
  const { shape } = region;
  const [mineName, theirsName] =
    direction === "put" ? (["srcOffset", "dstOffset"] as const) : (["dstOffset", "srcOffset"] as const);
  const mineOffset = region[mineName] ?? tensor.shape.map(() => 0);
  const theirOffset = region[theirsName] ?? window.shape.map(() => 0);
  checkBlock({ call, argument: theirsName, what: `window "${window.name}"`, shape: window.shape }, theirOffset, shape);
  checkBlock(
    { call, argument: mineName, what: direction === "put" ? "the source" : "the destination", shape: tensor.shape },
    mineOffset,
    shape,
  );
  return {
    mine: spansOf(tensor.dtype, tensor.shape, mineOffset, shape),
    theirs: spansOf(window.dtype, window.shape, theirOffset, shape),
  };
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
