/**
 * The in-process transport: all ranks in one process, deliveries in an order drawn from a seed.
 *
 * Within an ordered pair of ranks nothing is ever reordered; everything else is: which link delivers next, how long a
 * link starves, and when a large put reaches local completion. The order depends on the seed and the programs alone,
 * so a seed that fails fails again.
 */
import { deferred } from "../../shared/async.ts";
import { FRAME_HEADER_BYTES, SNAPSHOT_BYTES_MAX } from "../../shared/constants.ts";
import { RankwiseError } from "../../shared/errors.ts";
import { decodeHeader, encodeHeader, type FrameHeader } from "../../shared/frame.ts";
import type { Counters } from "../../shared/messages.ts";
import { Random } from "../../shared/random.ts";
import { defaultLimits, type Limits } from "../limits.ts";
import { copyPayload, type FrameSink, type Payload, payloadBytes, type Transport } from "./transport.ts";

interface QueuedFrame {
  readonly header: Uint8Array;
  /** The caller's own bytes until local completion, a copy from then on. */
  payload: Payload;
  /** Settles local completion; undefined once that is reached. */
  complete: (() => void) | undefined;
}

interface Link {
  readonly from: number;
  readonly to: number;
  readonly queue: QueuedFrame[];
  /** How likely this link is to be drawn: some links of a seed are slow. */
  readonly weight: number;
}

/** Where all ranks of one simulated job meet. */
export class InprocNetwork {
  readonly nranks: number;
  readonly #random: Random;
  readonly #links: Link[] = [];
  readonly #sinks = new Map<number, FrameSink>();
  readonly #busy = new Set<Link>();
  #scheduled = false;

  constructor(nranks: number, seed: number) {
    this.nranks = nranks;
    this.#random = new Random(seed);
    for (let from = 0; from < nranks; from++) {
      for (let to = 0; to < nranks; to++) {
        // one link in four is about twenty times slower than the others
        const weight = this.#random.below(4) === 0 ? 0.05 : 1;
        this.#links.push({ from, to, queue: [], weight });
      }
    }
  }

  /** The transport of one rank. */
  attach(rank: number, sink: FrameSink, counters: Counters, limits: Limits = defaultLimits): Transport {
    this.#sinks.set(rank, sink);
    return {
      address: `inproc:${rank}`,
      connect: () => Promise.resolve(),
      send: (peer, header, payload, exempt) => {
        const { linkQueueFrames } = limits;
        return this.#send(rank, peer, header, payload, { exempt, linkQueueFrames }, counters);
      },
      close: () => Promise.resolve(),
    };
  }

  #send(
    from: number,
    to: number,
    header: FrameHeader,
    payload: Payload | undefined,
    { exempt, linkQueueFrames }: { exempt: boolean; linkQueueFrames: number },
    counters: Counters,
  ): Promise<void> | undefined {
    const link = this.#links[from * this.nranks + to];
    if (link === undefined) throw new RankwiseError("ERR_INTERNAL", `no link from rank ${from} to rank ${to}`);
    if (!exempt && link.queue.length >= linkQueueFrames) {
      throw new RankwiseError(
        "ERR_QUEUE_FULL",
        `link to rank ${to}: LINK_QUEUE_FRAMES_MAX ${linkQueueFrames} frames wait already; await puts and notifies`,
        { peer: to },
      );
    }
    const bytes = new Uint8Array(FRAME_HEADER_BYTES);
    encodeHeader(header, new DataView(bytes.buffer), 0);
    counters.framesSent += 1;
    counters.wireBytesSent += FRAME_HEADER_BYTES + payloadBytes(payload);
    const small = payload === undefined || payloadBytes(payload) <= SNAPSHOT_BYTES_MAX;
    // whoever awaits what it sends is slowed down long before the queue is full
    const done = small && link.queue.length < linkQueueFrames / 2 ? undefined : deferred<void>();
    link.queue.push({
      header: bytes,
      payload: small ? copyPayload(payload ?? []) : payload,
      complete: done?.resolve,
    });
    this.#busy.add(link);
    this.#schedule();
    return done?.promise;
  }

  /** One step per turn of the event loop, so that every consequence of a delivery has run before the next one. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#step();
      if (this.#busy.size > 0) this.#schedule();
    });
  }

  #step(): void {
    const link = this.#draw();
    const frame = link?.queue[0];
    if (link === undefined || frame === undefined) return;
    if (frame.complete !== undefined) {
      // local completion and delivery are two steps, as they are on a socket
      frame.payload = copyPayload(frame.payload);
      frame.complete();
      frame.complete = undefined;
      return;
    }
    link.queue.shift();
    if (link.queue.length === 0) this.#busy.delete(link);
    const whole = copyPayload([frame.header, copyPayload(frame.payload)]);
    const sink = this.#sinks.get(link.to);
    try {
      sink?.receive(link.from, decodeHeader(whole), whole.subarray(FRAME_HEADER_BYTES));
    } catch (error) {
      if (!(error instanceof RankwiseError)) throw error;
      sink?.lost(link.from, error);
    }
  }

  #draw(): Link | undefined {
    let total = 0;
    for (const link of this.#busy) total += link.weight;
    let ticket = this.#random.next() * total;
    for (const link of this.#busy) {
      ticket -= link.weight;
      if (ticket < 0) return link;
    }
    return [...this.#busy].at(-1);
  }
}
