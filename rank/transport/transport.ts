import type { RankwiseError } from "../../shared/errors.ts";
import type { FrameHeader } from "../../shared/frame.ts";

/** The bytes behind a header: one piece, or several that leave one after the other. */
export type Payload = Uint8Array | readonly Uint8Array[];

/** Length of a payload in bytes. */
export function payloadBytes(payload: Payload | undefined): number {
  if (payload === undefined) return 0;
  if (payload instanceof Uint8Array) return payload.byteLength;
  return payload.reduce((bytes, piece) => bytes + piece.byteLength, 0);
}

/** A payload's bytes in one piece of their own. */
export function copyPayload(payload: Payload): Uint8Array {
  if (payload instanceof Uint8Array) return payload.slice();
  const copy = new Uint8Array(payloadBytes(payload));
  let position = 0;
  for (const piece of payload) {
    copy.set(piece, position);
    position += piece.byteLength;
  }
  return copy;
}

/**
 * How frames cross from rank to rank.
 *
 * Each ordered pair of ranks has one link that carries everything the one sends to the other, in order. A transport
 * moves frames and nothing else: it knows no window, no signal and no collective.
 */
export interface Transport {
  /** Where peers reach this rank. */
  readonly address: string;
  /** Opens the links to and from every other rank; resolves when all of them stand. Frames may arrive before that. */
  connect(addresses: readonly string[]): Promise<void>;
  /**
   * Queues one frame on the link to a peer, behind everything queued there before.
   *
   * A payload of at most `SNAPSHOT_BYTES_MAX` is copied at the call; a larger one is read until local completion.
   * Returns the promise of local completion, or undefined when it is already reached. `exempt` frames
   * (acknowledgements, credits, get replies) are taken however full the queue is, so that reading a link never
   * depends on the state of a sending queue.
   *
   * @throws {ERR_QUEUE_FULL} when LINK_QUEUE_FRAMES_MAX frames already wait.
   */
  send(peer: number, header: FrameHeader, payload: Payload | undefined, exempt: boolean): Promise<void> | undefined;
  /**
   * How much has come from a peer so far, and how much of what waits for it has left: it changes as long as the links
   * between the two are alive. A transport without it has no links that can break.
   */
  moved?(peer: number): number;
  /** Closes every link and stops listening. Nothing is reported to the sink any more. */
  close(): Promise<void>;
}

/** Where a transport delivers. */
export interface FrameSink {
  /** One frame, whole, in its link's order. The payload is only lent for the time of the call. */
  receive(peer: number, header: FrameHeader, payload: Uint8Array): void;
  /**
   * Memory for the payload of a frame whose bytes are still arriving, or undefined when there is none of that length in
   * one run. What `receive` is given then is that same memory.
   */
  place?(peer: number, header: FrameHeader): Uint8Array | undefined;
  /** The link from a peer has broken, or what came over it was no frame. */
  lost(peer: number, error: RankwiseError): void;
  /** A foreign client, which has no rank, has connected. */
  client(connection: ClientConnection): ClientSink;
}

/** The way back to a foreign client. */
export interface ClientConnection {
  send(header: FrameHeader, payload: Uint8Array | undefined): void;
  close(error: RankwiseError): void;
}

/** Where a client's frames are delivered; what it does wrong closes its own connection only. */
export interface ClientSink {
  receive(header: FrameHeader, payload: Uint8Array): void;
}
