import type { Deferred } from "../shared/async.ts";
import type { PendingEntry } from "./pending.ts";

/** A get that waits for its reply, one per frame-sized piece. */
export interface GetPiece {
  readonly bytes: number;
  /** The destination, where it is one run of memory; a transport may read the reply straight into it. */
  readonly memory?: Uint8Array | undefined;
  /** Puts the reply where it belongs. */
  place(payload: Uint8Array): void;
  readonly done: Deferred<void>;
}

/** A get piece that waits until fewer bytes are in flight. */
export interface QueuedGet {
  readonly bytes: number;
  readonly send: () => void;
}

/** A fence: resolves when everything up to `serial` has been applied. */
export interface PendingFence {
  readonly serial: number;
  readonly entry: PendingEntry;
  readonly done: Deferred<void>;
}

const NONE: readonly PendingFence[] = [];

/** What this rank keeps about one peer: the two links' serial numbers and what it waits for. */
export class Peer {
  /** World rank. */
  readonly rank: number;
  /** Serial of the last frame sent to the peer, of the last one it has acknowledged, and of the last one applied from it. */
  sent = 0;
  acked = 0;
  received = 0;
  readonly fences: PendingFence[] = [];
  readonly gets = new Map<number, GetPiece>();
  readonly getQueue: QueuedGet[] = [];
  getBytesInFlight = 0;
  /** Where a block is being read to that the peer stages for a builtin call, and whether that is where it belongs. */
  staging: { readonly memory: Uint8Array; readonly landed: boolean } | undefined;
  /** The peer's main has resolved; its link may close now. */
  saidGoodbye = false;

  readonly #getBytesInFlightMax: number;
  #requests = 0;

  constructor(rank: number, getBytesInFlightMax: number) {
    this.rank = rank;
    this.#getBytesInFlightMax = getBytesInFlightMax;
  }

  /** Number for the next get, in the INT32 range. */
  nextRequest(): number {
    this.#requests = (this.#requests + 1) & 0x7fffffff;
    return this.#requests;
  }

  /** Whether a get of so many bytes may be in flight beside those that are; one alone always may. */
  getFits(bytes: number): boolean {
    return this.getBytesInFlight === 0 || this.getBytesInFlight + bytes <= this.#getBytesInFlightMax;
  }

  /** Sends the queued gets that fit now. */
  sendQueuedGets(): void {
    for (let next = this.getQueue[0]; next !== undefined && this.getFits(next.bytes); next = this.getQueue[0]) {
      this.getQueue.shift();
      next.send();
    }
  }

  nextSerial(): number {
    this.sent = (this.sent + 1) >>> 0;
    return this.sent;
  }

  takeBackSerial(): void {
    this.sent = (this.sent - 1) >>> 0;
  }

  /** Takes an acknowledgement and returns the fences that it completes. */
  acknowledge(serial: number): readonly PendingFence[] {
    if (serialReached(serial, this.acked)) this.acked = serial;
    if (this.fences.length === 0) return NONE;
    const met: PendingFence[] = [];
    while (this.fences[0] !== undefined && serialReached(this.acked, this.fences[0].serial)) {
      const fence = this.fences.shift();
      if (fence !== undefined) met.push(fence);
    }
    return met;
  }
}

/** Whether a serial has reached another, on a circle of 2^32. */
export function serialReached(serial: number, goal: number): boolean {
  return ((serial - goal) | 0) >= 0;
}
