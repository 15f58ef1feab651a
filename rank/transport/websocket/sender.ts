import type { Duplex } from "node:stream";
import { deferred } from "../../../shared/async.ts";
import { SNAPSHOT_BYTES_MAX } from "../../../shared/constants.ts";
import { RankwiseError } from "../../../shared/errors.ts";
import type { FrameHeader } from "../../../shared/frame.ts";
import type { Counters } from "../../../shared/messages.ts";
import type { Limits } from "../../limits.ts";
import { frameHead } from "./wire.ts";

interface QueuedFrame {
  readonly head: Buffer;
  readonly rest: Uint8Array | undefined;
  readonly written: () => void;
}

/**
 * The sending end of one link: the server side of a WebSocket, whose raw socket it writes.
 *
 * Each frame leaves whole, header and payload in one vectored write, so that a pong of `ws` never lands inside it.
 * While more than LINK_QUEUE_BYTES_MAX bytes stand unflushed, further frames wait in one FIFO.
 */
export class LinkSender {
  readonly #socket: Duplex;
  readonly #peer: number;
  readonly #counters: Counters;
  readonly #limits: Limits;
  readonly #queue: QueuedFrame[] = [];

  constructor(socket: Duplex, peer: number, counters: Counters, limits: Limits) {
    this.#socket = socket;
    this.#peer = peer;
    this.#counters = counters;
    this.#limits = limits;
  }

  /** See `Transport.send`. */
  send(header: FrameHeader, payload: Uint8Array | undefined, exempt: boolean): Promise<void> | undefined {
    const bytes = payload?.byteLength ?? 0;
    const small = bytes <= SNAPSHOT_BYTES_MAX;
    if (!exempt && this.#queue.length >= this.#limits.linkQueueFrames) {
      throw new RankwiseError(
        "ERR_QUEUE_FULL",
        `link to rank ${this.#peer}: LINK_QUEUE_FRAMES_MAX ${this.#limits.linkQueueFrames} frames wait already; await puts and notifies`,
        { peer: this.#peer },
      );
    }
    const head = frameHead(header, bytes, small ? payload : undefined);
    const rest = small ? undefined : payload;
    const room = this.#queue.length === 0 && this.#socket.writableLength <= this.#limits.linkQueueBytes;
    if (room && rest === undefined) {
      this.#write(head, rest, this.#pump);
      return undefined;
    }
    const done = deferred<void>();
    if (room) this.#write(head, rest, done.resolve);
    else this.#queue.push({ head, rest, written: done.resolve });
    return done.promise;
  }

  /** Resolves when nothing stands unsent. */
  get idle(): boolean {
    return this.#queue.length === 0 && this.#socket.writableLength === 0;
  }

  #write(head: Buffer, rest: Uint8Array | undefined, flushed: () => void): void {
    const socket = this.#socket;
    this.#counters.framesSent += 1;
    this.#counters.wireBytesSent += head.byteLength + (rest?.byteLength ?? 0);
    if (rest === undefined) {
      socket.write(head, this.#pump);
      if (flushed !== this.#pump) flushed();
      return;
    }
    socket.cork();
    socket.write(head);
    socket.write(rest, (error) => {
      // a broken socket ends the link, and with it the group; who waits is told by that
      if (error) return;
      flushed();
      this.#pump();
    });
    socket.uncork();
  }

  readonly #pump = (): void => {
    while (this.#socket.writableLength <= this.#limits.linkQueueBytes) {
      const next = this.#queue.shift();
      if (next === undefined) return;
      this.#write(next.head, next.rest, next.written);
    }
  };
}
