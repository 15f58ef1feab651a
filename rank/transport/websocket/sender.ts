import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { deferred } from "../../../shared/async.ts";
import { SNAPSHOT_BYTES_MAX } from "../../../shared/constants.ts";
import { RankwiseError } from "../../../shared/errors.ts";
import type { FrameHeader } from "../../../shared/frame.ts";
import type { Counters } from "../../../shared/messages.ts";
import type { Limits } from "../../limits.ts";
import { type Payload, payloadBytes } from "../transport.ts";
import { frameHead } from "./wire.ts";

interface QueuedFrame {
  readonly head: Buffer;
  /** Pieces of payload behind the head, read until they are flushed. */
  readonly rest: readonly Uint8Array[];
  readonly bytes: number;
  readonly written: (() => void) | undefined;
}

const settled = Promise.resolve();

/**
 * A run of code up to the microtask that its first frame has queued: what a program sends before its next await, or what
 * serving a frame sends. What a link sends in it after its first frame is held, and leaves when the run ends.
 */
export class Turn {
  #number = 0;
  #open = false;
  readonly #held: LinkSender[] = [];

  /** Number of the turn that is under way. */
  get number(): number {
    if (!this.#open) {
      this.#open = true;
      void settled.then(this.#end);
    }
    return this.#number;
  }

  /** Lets a link send what it holds when the turn ends. */
  hold(link: LinkSender): void {
    this.#held.push(link);
  }

  readonly #end = (): void => {
    this.#open = false;
    this.#number += 1;
    for (const link of this.#held.splice(0)) link.release();
  };
}

/**
 * The sending end of one link: the server side of a WebSocket, whose raw socket it writes.
 *
 * Each frame leaves whole, header and payload in one vectored write, so that a pong of `ws` never lands inside it.
 * While more than LINK_QUEUE_BYTES_MAX bytes stand unflushed, further frames wait in one FIFO.
 *
 * The first frame of a turn leaves at once; those that follow it without an await in between leave together, in one
 * vectored write. A program that awaits what it sends keeps nothing back by computing.
 */
export class LinkSender {
  readonly #socket: Duplex;
  readonly #peer: number;
  readonly #counters: Counters;
  readonly #limits: Limits;
  readonly #queue: QueuedFrame[] = [];
  readonly #turn: Turn;
  /** The turn in which a frame was written last, and whether further ones of it are held together. */
  #writtenIn = -1;
  #corked = false;

  constructor(socket: Duplex, peer: number, counters: Counters, limits: Limits, turn = new Turn()) {
    this.#socket = socket;
    this.#peer = peer;
    this.#counters = counters;
    this.#limits = limits;
    this.#turn = turn;
  }

  /** Bytes that have left, as long as more are waiting; else 0. */
  get moved(): number {
    const { writableLength } = this.#socket;
    return writableLength > 0 && this.#socket instanceof Socket ? this.#socket.bytesWritten - writableLength : 0;
  }

  /** See `Transport.send`. */
  send(header: FrameHeader, payload: Payload | undefined, exempt: boolean): Promise<void> | undefined {
    if (!exempt && this.#queue.length >= this.#limits.linkQueueFrames) {
      throw new RankwiseError(
        "ERR_QUEUE_FULL",
        `link to rank ${this.#peer}: LINK_QUEUE_FRAMES_MAX ${this.#limits.linkQueueFrames} frames wait already; await puts and notifies`,
        { peer: this.#peer },
      );
    }
    const bytes = payloadBytes(payload);
    const small = bytes <= SNAPSHOT_BYTES_MAX;
    const head = frameHead(header, bytes, small ? payload : undefined);
    const rest = small || payload === undefined ? [] : payload instanceof Uint8Array ? [payload] : payload;
    const room = this.#queue.length === 0 && this.#socket.writableLength <= this.#limits.linkQueueBytes;
    if (room && small) {
      this.#write({ head, rest, bytes: head.byteLength, written: undefined });
      return undefined;
    }
    const done = deferred<void>();
    const frame = { head, rest, bytes: head.byteLength + (small ? 0 : bytes), written: done.resolve };
    if (room) this.#write(frame);
    else this.#queue.push(frame);
    return done.promise;
  }

  /** One vectored write. What was copied into the head is complete when it is taken, the rest when it is flushed. */
  #write({ head, rest, bytes, written }: QueuedFrame): void {
    const socket = this.#socket;
    this.#counters.framesSent += 1;
    this.#counters.wireBytesSent += bytes;
    this.#gather();
    const last = rest.at(-1);
    if (last === undefined) {
      socket.write(head, this.#pump);
      written?.();
      return;
    }
    socket.cork();
    socket.write(head);
    for (const piece of rest.slice(0, -1)) socket.write(piece);
    socket.write(last, (error) => {
      // a broken socket ends the link, and with it the group; who waits is told by that
      if (error) return;
      written?.();
      this.#pump();
    });
    socket.uncork();
  }

  /** Lets the first frame of a turn go, and holds the next ones together. */
  #gather(): void {
    const turn = this.#turn.number;
    if (this.#writtenIn !== turn) {
      this.#writtenIn = turn;
    } else if (!this.#corked) {
      this.#corked = true;
      this.#socket.cork();
      this.#turn.hold(this);
    }
  }

  /** The turn is over: what was held leaves. */
  release(): void {
    this.#corked = false;
    this.#socket.uncork();
  }

  readonly #pump = (): void => {
    while (this.#socket.writableLength <= this.#limits.linkQueueBytes) {
      const next = this.#queue.shift();
      if (next === undefined) return;
      this.#write(next);
    }
  };
}
