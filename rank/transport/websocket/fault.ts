import type { RawData } from "ws";
import { RankwiseError, toWireError } from "../../../shared/errors.ts";

/** Most bytes of a close reason (RFC 6455, section 5.5: 125 in a control frame, 2 of them the code). */
const CLOSE_REASON_BYTES_MAX = 123;

/** What `ws` reports about bytes that are no valid message, as one of our codes. */
export function linkFault(error: unknown): RankwiseError {
  if (error instanceof RankwiseError) return error;
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  if (code === "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH") {
    return new RankwiseError("ERR_FRAME_TOO_LARGE", "a frame above FRAME_PAYLOAD_BYTES_MAX", {}, error);
  }
  const message = error instanceof Error ? error.message : toWireError(error).message;
  return new RankwiseError(code.startsWith("WS_ERR_") ? "ERR_BAD_FRAME" : "ERR_PEER_LOST", message, {}, error);
}

/** An error as the reason of a close frame, cut to what fits. */
export function closeReason(error: RankwiseError): string {
  let reason = `${error.code}: ${error.message}`;
  while (Buffer.byteLength(reason) > CLOSE_REASON_BYTES_MAX) reason = reason.slice(0, -1);
  return reason;
}

/** A message of `ws` as one piece of plain bytes: a `Buffer` would slice without copying. */
export function bytesOf(data: RawData): Uint8Array {
  const whole = Array.isArray(data) ? Buffer.concat(data) : data;
  return whole instanceof ArrayBuffer
    ? new Uint8Array(whole)
    : new Uint8Array(whole.buffer, whole.byteOffset, whole.byteLength);
}
