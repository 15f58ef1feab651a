/** Bytes between packed payloads and the spans of a window or tensor. */
import { type Span, spanBytes } from "../../shared/shape.ts";

/** Total payload of spans, in bytes. */
export function spansBytes(spans: readonly Span[]): number {
  let bytes = 0;
  for (const span of spans) bytes += spanBytes(span);
  return bytes;
}

/** The bytes of spans as one packed piece: the memory itself where they are one run, else a copy, in memory that `take` gives. */
export function gather(
  memory: Uint8Array,
  spans: readonly Span[],
  take = (bytes: number): Uint8Array => new Uint8Array(bytes),
): { packed: Uint8Array; copied: boolean } {
  const [only] = spans;
  if (only === undefined) return { packed: memory.subarray(0, 0), copied: false };
  if (spans.length === 1 && only.rows === 1) {
    return { packed: memory.subarray(only.offset, only.offset + only.rowBytes), copied: false };
  }
  const packed = take(spansBytes(spans));
  let position = 0;
  for (const { offset, rowBytes, rows, strideBytes } of spans) {
    for (let row = 0; row < rows; row++) {
      const start = offset + row * strideBytes;
      packed.set(memory.subarray(start, start + rowBytes), position);
      position += rowBytes;
    }
  }
  return { packed, copied: true };
}

/** Writes a packed payload into spans, as if the payload stood at `position` of all their bytes. */
export function scatter(memory: Uint8Array, spans: readonly Span[], position: number, payload: Uint8Array): void {
  let start = position;
  let taken = 0;
  for (const span of spans) {
    const bytes = spanBytes(span);
    if (start >= bytes) {
      start -= bytes;
      continue;
    }
    for (let row = Math.floor(start / span.rowBytes); row < span.rows && taken < payload.byteLength; row++) {
      const within = start - row * span.rowBytes;
      const length = Math.min(span.rowBytes - within, payload.byteLength - taken);
      memory.set(payload.subarray(taken, taken + length), span.offset + row * span.strideBytes + within);
      taken += length;
      start += length;
    }
    start = 0;
    if (taken === payload.byteLength) return;
  }
}
