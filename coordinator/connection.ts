/** One control connection, as the coordinator sees it. */
import type { RawData, WebSocket } from "ws";
import { encodeMessage } from "../shared/codec.ts";
import { CLOSE_CODES } from "../shared/constants.ts";
import type { ErrorCode, RankwiseError } from "../shared/errors.ts";
import type { Message } from "../shared/messages.ts";

/** Close code of a connection that is refused with an error that has no close code of its own. */
const REFUSED = 4400;

/** Bytes that a close frame has for its reason (RFC 6455, section 5.5). */
const CLOSE_REASON_BYTES_MAX = 123;

/** How long a last message is waited for to leave. */
const DELIVERY_TIMEOUT_MS = 500;

/** How long a refused peer has to answer the close. */
const CLOSE_TIMEOUT_MS = 1000;

/** What a connection has turned out to be. */
export type ConnectionRole = { readonly kind: "rank"; readonly rank: number } | { readonly kind: "supervisor" };

/** A control connection: sends messages whole and in order, and closes with a reason. */
export class ControlConnection {
  readonly id: number;
  readonly socket: WebSocket;
  /** Undefined until its hello has been accepted. */
  role: ConnectionRole | undefined;
  /** Why this side has closed it. */
  refusal: RankwiseError | undefined;

  constructor(id: number, socket: WebSocket) {
    this.id = id;
    this.socket = socket;
  }

  /** Sends a message; one that no longer reaches its peer is dropped, since the close is reported by itself. */
  send(message: Message): void {
    if (this.socket.readyState === this.socket.OPEN) this.socket.send(encodeMessage(message));
  }

  /** Sends a message and waits, for a bounded time, until it has left this process. */
  deliver(message: Message): Promise<void> {
    return new Promise((resolve) => {
      setTimeout(resolve, DELIVERY_TIMEOUT_MS).unref();
      this.socket.send(encodeMessage(message), () => resolve()); // called with an error when it is not open
    });
  }

  /** Closes the connection with the error's code and as much of its message as fits. */
  refuse(error: RankwiseError): void {
    this.refusal ??= error;
    this.socket.close(closeCodeOf(error.code), closeReason(`${error.code}: ${error.message}`));
    setTimeout(() => {
      this.socket.terminate();
    }, CLOSE_TIMEOUT_MS).unref();
  }
}

/** The bytes of a WebSocket message. */
export function bytesOf(data: RawData): Uint8Array {
  if (Array.isArray(data)) return Buffer.concat(data);
  return data instanceof ArrayBuffer ? new Uint8Array(data) : data;
}

function closeCodeOf(code: ErrorCode): number {
  const codes: Partial<Record<ErrorCode, number>> = CLOSE_CODES;
  return codes[code] ?? REFUSED;
}

/** The longest start of a text, in whole characters, that a close frame holds. */
function closeReason(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.byteLength <= CLOSE_REASON_BYTES_MAX) return text;
  let end = CLOSE_REASON_BYTES_MAX;
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return bytes.toString("utf8", 0, end);
}
