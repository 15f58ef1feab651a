/** Frames as WebSocket messages: unmasked binary messages, as a server sends them (RFC 6455, section 5.2). */
import { FRAME_HEADER_BYTES } from "../../../shared/constants.ts";
import { type Payload, payloadBytes } from "../transport.ts";
import { encodeHeader, type FrameHeader } from "../../../shared/frame.ts";

const FIN_BINARY = 0x82;

/** Small buffers come out of one pool after another: the view on the latest one is kept. */
let pool: DataView = new DataView(new ArrayBuffer(0));

function viewOf({ buffer }: Buffer): DataView {
  if (pool.buffer !== buffer) pool = new DataView(buffer);
  return pool;
}

/**
 * The WebSocket header and the frame header in one buffer, with `inline` bytes of payload behind them.
 * `bytes` counts the whole payload, also what is written after this buffer.
 */
export function frameHead(header: FrameHeader, bytes: number, inline: Payload | undefined): Buffer {
  const messageBytes = FRAME_HEADER_BYTES + bytes;
  const lengthBytes = messageBytes < 126 ? 0 : messageBytes < 65_536 ? 2 : 8;
  const start = 2 + lengthBytes;
  const head = Buffer.allocUnsafe(start + FRAME_HEADER_BYTES + payloadBytes(inline));
  head[0] = FIN_BINARY;
  if (lengthBytes === 0) head[1] = messageBytes;
  else if (lengthBytes === 2) {
    head[1] = 126;
    head.writeUInt16BE(messageBytes, 2);
  } else {
    head[1] = 127;
    head.writeBigUInt64BE(BigInt(messageBytes), 2);
  }
  encodeHeader(header, viewOf(head), head.byteOffset + start);
  let position = start + FRAME_HEADER_BYTES;
  for (const piece of inline === undefined ? [] : inline instanceof Uint8Array ? [inline] : inline) {
    head.set(piece, position);
    position += piece.byteLength;
  }
  return head;
}
