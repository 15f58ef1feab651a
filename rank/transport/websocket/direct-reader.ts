/**
 * The direct path's parser: WebSocket frames as a server sends them, read by the kernel straight into window memory.
 *
 * Headers and small payloads land in a staging buffer; the rest of a larger payload goes where the sink has room for
 * it. Only complete, unmasked binary messages are data; control frames are handed back to `ws`.
 */
import { FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES_MAX } from "../../../shared/constants.ts";
import { RankwiseError } from "../../../shared/errors.ts";
import { type FrameHeader, readHeader } from "../../../shared/frame.ts";

/** What the parser finds. */
export interface DirectEvents {
  /** A whole frame. The payload is lent for the time of the call. */
  frame(header: FrameHeader, payload: Uint8Array): void;
  /** Memory for a payload that is still arriving, or undefined. */
  place(header: FrameHeader): Uint8Array | undefined;
  /** A whole control frame (ping, pong, close), as it came. */
  control(frame: Uint8Array): void;
}

/** Size of the staging buffer. Larger ones keep more payload from being read into its place. */
const STAGING_BYTES = 8192;

/** Opcodes and bits of RFC 6455, section 5.2. */
const FIN = 0x80;
const RESERVED = 0x70;
const OPCODE = 0x0f;
const TEXT = 1;
const BINARY = 2;
const FIRST_CONTROL = 8;
const MASKED = 0x80;
const CONTROL_BYTES_MAX = 125;

const EMPTY = new Uint8Array();

export class DirectReader {
  readonly #events: DirectEvents;
  readonly #staging = new Uint8Array(STAGING_BYTES);
  readonly #view = new DataView(this.#staging.buffer);
  /** Bytes in the staging buffer that are not parsed yet. */
  #have = 0;
  /** The frame whose payload is arriving, and where it goes. */
  #header: FrameHeader | undefined;
  #payload: Uint8Array = EMPTY;
  #arrived = 0;

  constructor(events: DirectEvents) {
    this.#events = events;
  }

  /** Where the next bytes shall be read to. */
  buffer(): Uint8Array {
    if (this.#header !== undefined) return this.#payload.subarray(this.#arrived);
    return this.#have === 0 ? this.#staging : this.#staging.subarray(this.#have);
  }

  /** `bytes` have been read into what `buffer` gave. @throws {ERR_BAD_FRAME | ERR_FRAME_TOO_LARGE} */
  read(bytes: number): void {
    if (this.#header !== undefined) {
      this.#arrived += bytes;
      this.#deliver();
      return;
    }
    const end = this.#have + bytes;
    let at = 0;
    for (;;) {
      const next = this.#parse(at, end);
      if (next === at) break;
      at = next;
    }
    this.#have = end - at;
    if (this.#have > 0) this.#staging.copyWithin(0, at, end);
  }

  /** Parses one frame of the staging buffer; returns where the next one begins, or `at` when it is not whole yet. */
  #parse(at: number, end: number): number {
    const staging = this.#staging;
    if (end - at < 2) return at;
    const [first = 0, second = 0] = [staging[at], staging[at + 1]];
    checkBits(first, second);
    if ((first & OPCODE) >= FIRST_CONTROL) return this.#parseControl(at, end, second);
    checkBinary(first);
    const lengthBytes = second === 126 ? 2 : second === 127 ? 8 : 0;
    const start = at + 2 + lengthBytes + FRAME_HEADER_BYTES;
    if (end < start - FRAME_HEADER_BYTES) return at;
    const payloadBytes = this.#messageBytes(at, second) - FRAME_HEADER_BYTES;
    checkLength(payloadBytes);
    if (end < start) return at;
    const header = readHeader(this.#view, start - FRAME_HEADER_BYTES, payloadBytes);
    const here = Math.min(payloadBytes, end - start);
    if (here === payloadBytes) {
      this.#events.frame(header, payloadBytes === 0 ? EMPTY : staging.subarray(start, start + payloadBytes));
      return start + payloadBytes;
    }
    this.#header = header;
    this.#payload = this.#events.place(header) ?? new Uint8Array(payloadBytes);
    this.#payload.set(staging.subarray(start, start + here));
    this.#arrived = here;
    return end;
  }

  /** Length of the message whose WebSocket header begins at `at`. */
  #messageBytes(at: number, second: number): number {
    if (second === 126) return this.#view.getUint16(at + 2);
    return second === 127 ? Number(this.#view.getBigUint64(at + 2)) : second;
  }

  #parseControl(at: number, end: number, length: number): number {
    if (length > CONTROL_BYTES_MAX) throw bad(`a control frame of more than ${CONTROL_BYTES_MAX} bytes`);
    const next = at + 2 + length;
    if (end < next) return at;
    this.#events.control(this.#staging.slice(at, next));
    return next;
  }

  #deliver(): void {
    const header = this.#header;
    if (header === undefined || this.#arrived < this.#payload.byteLength) return;
    const payload = this.#payload;
    this.#header = undefined;
    this.#payload = EMPTY;
    this.#events.frame(header, payload);
  }
}

function checkBits(first: number, second: number): void {
  if ((first & RESERVED) !== 0) throw bad("reserved bits are set");
  if ((second & MASKED) !== 0) throw bad("a server's frame is masked");
}

function checkBinary(first: number): void {
  const opcode = first & OPCODE;
  if (opcode === BINARY && (first & FIN) !== 0) return;
  if (opcode === TEXT) throw bad("text message where a frame was due");
  throw bad(opcode === BINARY || opcode === 0 ? "a fragmented message" : `unknown opcode ${opcode}`);
}

function checkLength(payloadBytes: number): void {
  if (payloadBytes < 0) {
    throw bad(`${payloadBytes + FRAME_HEADER_BYTES} bytes are shorter than the header of ${FRAME_HEADER_BYTES}`);
  }
  if (payloadBytes <= FRAME_PAYLOAD_BYTES_MAX) return;
  throw new RankwiseError(
    "ERR_FRAME_TOO_LARGE",
    `a frame with ${payloadBytes} bytes of payload is above FRAME_PAYLOAD_BYTES_MAX ${FRAME_PAYLOAD_BYTES_MAX}`,
  );
}

function bad(what: string): RankwiseError {
  return new RankwiseError("ERR_BAD_FRAME", `frame: ${what}`);
}
