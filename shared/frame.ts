/**
 * The data frame: a fixed little-endian header and raw bytes behind it, one WebSocket binary message each.
 *
 * ```text
 * byte  0        1        2        3
 *   0   kind     flags    lane (u16)
 *   4   serial (u32)                    this frame's number on its link, from 1
 *   8   ack (u32)                       highest serial of the opposite link that has been applied
 *  12   group (u32)                     group id, 0 for the world
 *  16   seq (u32)                       number of the collective call in its group, 0 outside of one
 *  20   round (u16)       dtype  0      element type of an atomic put
 *  24   fingerprint (u32)               of that call's arguments
 *  28   window (u32)                    ordinal of the window in its group
 *  32   signal (u32)                    ordinal of the signal in its group, with SIGNAL
 *  36   offset (f64)                    first byte in the window
 *  44   rowBytes (u32)
 *  48   rows (u32)
 *  52   strideBytes (u32)               from row to row
 *  56   cell (u32)                      signal cell, with SIGNAL
 *  60   value (i32)                     value for the cell; request number of a get and its reply
 *  64   payload, rows · rowBytes, packed
 * ```
 *
 * One link carries everything one rank sends to one peer, so the order of serials is the order of effects.
 */
import { FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES_MAX } from "./constants.ts";
import { RankwiseError } from "./errors.ts";

/** What a frame does at its receiver. */
export const FrameKind = {
  /** The receiver's hello was accepted; first frame of a link. */
  Welcome: 1,
  /** Write the payload into a window, then, with SIGNAL, change a cell. */
  Put: 2,
  /** Send back a region of a window. */
  Get: 3,
  /** The region that a get asked for. */
  GetReply: 4,
  /** Change a signal cell. */
  Notify: 5,
  /** Acknowledge at once. */
  Fence: 6,
  /** Nothing but the `ack` field. */
  Ack: 7,
  /** This rank has allocated its part of a window; the payload says which. */
  Publish: 8,
  /** This rank will not touch the window again. */
  Free: 9,
  /** This rank has reached its next `check`. */
  Checked: 10,
  /** This rank's `main` has resolved and everything it sent has been applied. */
  Goodbye: 11,
  /** Keep the payload for its builtin call until that takes it; then, with SIGNAL, change a cell. */
  Stage: 12,
} as const;
export type FrameKind = (typeof FrameKind)[keyof typeof FrameKind];

/** Flag bits. */
export const FrameFlag = {
  /** The frame changes the cell (`signal`, `cell`) by `value`. */
  Signal: 1,
  /** The change is an AtomicAdd; without it a Set. */
  SignalAdd: 2,
  /** The payload is added to the window, element by element, in `dtype`. */
  AtomicAdd: 4,
  /** `rows` of a notify is a note of its builtin call, e.g. how many rows the sender will put. */
  Note: 8,
  /** Acknowledge at once, as a fence does. */
  AckNow: 16,
} as const;

/** The header of a data frame, decoded. */
export interface FrameHeader {
  kind: FrameKind;
  flags: number;
  lane: number;
  serial: number;
  ack: number;
  group: number;
  seq: number;
  round: number;
  dtype: number;
  fingerprint: number;
  window: number;
  signal: number;
  offset: number;
  rowBytes: number;
  rows: number;
  strideBytes: number;
  cell: number;
  value: number;
}

/** A header with every field 0 but the given ones. */
export function frameHeader(fields: Partial<FrameHeader> & { kind: FrameKind }): FrameHeader {
  return Object.assign(blankHeader(fields.kind), fields);
}

/** A header of a kind with every other field 0. */
export function blankHeader(kind: FrameKind): FrameHeader {
  return {
    kind,
    flags: 0,
    lane: 0,
    serial: 0,
    ack: 0,
    group: 0,
    seq: 0,
    round: 0,
    dtype: 0,
    fingerprint: 0,
    window: 0,
    signal: 0,
    offset: 0,
    rowBytes: 0,
    rows: 0,
    strideBytes: 0,
    cell: 0,
    value: 0,
  };
}

/** Writes the header's 64 bytes at `at`. */
export function encodeHeader(header: FrameHeader, target: DataView, at: number): void {
  target.setUint8(at, header.kind);
  target.setUint8(at + 1, header.flags);
  target.setUint16(at + 2, header.lane, true);
  target.setUint32(at + 4, header.serial, true);
  target.setUint32(at + 8, header.ack, true);
  target.setUint32(at + 12, header.group, true);
  target.setUint32(at + 16, header.seq, true);
  target.setUint16(at + 20, header.round, true);
  target.setUint8(at + 22, header.dtype);
  target.setUint8(at + 23, 0);
  target.setUint32(at + 24, header.fingerprint, true);
  target.setUint32(at + 28, header.window, true);
  target.setUint32(at + 32, header.signal, true);
  target.setFloat64(at + 36, header.offset, true);
  target.setUint32(at + 44, header.rowBytes, true);
  target.setUint32(at + 48, header.rows, true);
  target.setUint32(at + 52, header.strideBytes, true);
  target.setUint32(at + 56, header.cell, true);
  target.setInt32(at + 60, header.value, true);
}

/**
 * Reads a frame's header and checks what can be checked without knowing any window: length, kind, flags, sizes.
 * `payloadBytes` is what the message carries behind the header, by default what stands behind it in `frame`.
 *
 * @throws {ERR_BAD_FRAME} naming the field that is wrong.
 */
export function decodeHeader(frame: Uint8Array, payloadBytes = frame.byteLength - FRAME_HEADER_BYTES): FrameHeader {
  if (frame.byteLength < FRAME_HEADER_BYTES) {
    throw bad(`${frame.byteLength} bytes are shorter than the header of ${FRAME_HEADER_BYTES}`);
  }
  return readHeader(new DataView(frame.buffer, frame.byteOffset, FRAME_HEADER_BYTES), 0, payloadBytes);
}

/** The same for a header that begins at byte `at` of a view. @throws {ERR_BAD_FRAME} */
export function readHeader(view: DataView, at: number, payloadBytes: number): FrameHeader {
  const header: FrameHeader = {
    kind: view.getUint8(at) as FrameKind,
    flags: view.getUint8(at + 1),
    lane: view.getUint16(at + 2, true),
    serial: view.getUint32(at + 4, true),
    ack: view.getUint32(at + 8, true),
    group: view.getUint32(at + 12, true),
    seq: view.getUint32(at + 16, true),
    round: view.getUint16(at + 20, true),
    dtype: view.getUint8(at + 22),
    fingerprint: view.getUint32(at + 24, true),
    window: view.getUint32(at + 28, true),
    signal: view.getUint32(at + 32, true),
    offset: view.getFloat64(at + 36, true),
    rowBytes: view.getUint32(at + 44, true),
    rows: view.getUint32(at + 48, true),
    strideBytes: view.getUint32(at + 52, true),
    cell: view.getUint32(at + 56, true),
    value: view.getInt32(at + 60, true),
  };
  if (header.kind < FrameKind.Welcome || header.kind > FrameKind.Stage) throw bad(`kind ${header.kind} is unknown`);
  if (header.flags > 31) throw bad(`flags ${header.flags} are unknown`);
  if (!Number.isSafeInteger(header.offset) || header.offset < 0) throw bad(`offset ${header.offset} is no byte offset`);
  const regionBytes = header.rows * header.rowBytes;
  if (regionBytes > FRAME_PAYLOAD_BYTES_MAX) {
    throw bad(`${header.rows} rows of ${header.rowBytes} bytes exceed FRAME_PAYLOAD_BYTES_MAX`);
  }
  const expectedBytes = carriesRegion(header.kind) ? regionBytes : header.kind === FrameKind.Publish ? payloadBytes : 0;
  if (payloadBytes !== expectedBytes) {
    throw bad(`${payloadBytes} bytes of payload where the header announces ${expectedBytes}`);
  }
  return header;
}

/** The short name of a kind, for messages: `put`, `get_reply`, … */
export function frameKindName(kind: FrameKind): string {
  const name = Object.entries(FrameKind).find(([, code]) => code === kind)?.[0] ?? `kind ${String(kind)}`;
  return name.replace(/(?<=[a-z])[A-Z]/gu, (letter) => `_${letter}`).toLowerCase();
}

function carriesRegion(kind: FrameKind): boolean {
  return kind === FrameKind.Put || kind === FrameKind.GetReply || kind === FrameKind.Stage;
}

function bad(what: string): RankwiseError {
  return new RankwiseError("ERR_BAD_FRAME", `frame: ${what}`);
}

const utf8 = new TextEncoder();

/**
 * A hash of what the ranks must agree on: short, and the same everywhere. FNV-1a of 32 bits, folded to 31: it stands in
 * every header, and numbers of that size cost JavaScript no memory of their own.
 */
export function fingerprint(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of utf8.encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return ((hash >>> 31) ^ hash) & 0x7fff_ffff;
}
