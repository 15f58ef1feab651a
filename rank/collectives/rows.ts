import { elementBytes } from "../../shared/dtype.ts";
import type { Span } from "../../shared/shape.ts";
import type { Engine } from "../engine.ts";
import type { CallContext } from "../group.ts";
import { get } from "../get.ts";
import type { Scratch } from "../memory/arena.ts";
import type { Allocation } from "../memory/registry.ts";
import { spansBytes } from "../memory/spans.ts";

/** Bytes of one row, that is of everything below the first dimension. */
export function rowBytesOf({ dtype, shape }: Allocation): number {
  return shape.slice(1).reduce((bytes, length) => bytes * length, elementBytes(dtype));
}

/** `count` rows from the `first` on, as spans: one run, or none where it would be empty. */
export function rowSpans(rowBytes: number, first: number, count = 1): Span[] {
  const bytes = rowBytes * count;
  return bytes === 0 ? [] : [{ offset: first * rowBytes, rowBytes: bytes, rows: 1, strideBytes: bytes }];
}

/** Reads spans of a member's window into packed scratch. */
export async function fetch(
  engine: Engine,
  ctx: CallContext,
  owner: number,
  window: Allocation,
  spans: readonly Span[],
  scratch: Scratch,
): Promise<Uint8Array> {
  const bytes = scratch.take(spansBytes(spans));
  await get(engine, ctx, owner, window, spans, { bytes, spans: rowSpans(bytes.byteLength, 0) });
  return bytes;
}
