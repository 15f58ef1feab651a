/**
 * Notices that this process did not run for a while: what happened meanwhile it hears late, and all at once, and its
 * peers may have given it up.
 */
import { STALL_SHARE } from "../shared/constants.ts";

/** How often it looks, in the time that it takes for a stall. */
const LOOKS = 4;

export interface StallWatchOptions {
  readonly livenessMs: number;
  /** Called when one is over. */
  readonly onStall: (stallMs: number) => void;
  /** A clock that never jumps. */
  readonly now?: () => number;
}

/** A running watch. Its timer keeps no process alive. */
export class StallWatch {
  readonly #options: StallWatchOptions;
  readonly #leastMs: number;
  readonly #now: () => number;
  readonly #timer: NodeJS.Timeout;
  #seenMs: number;

  constructor(options: StallWatchOptions) {
    this.#options = options;
    this.#now = options.now ?? ((): number => performance.now());
    this.#seenMs = this.#now();
    this.#leastMs = options.livenessMs * STALL_SHARE;
    this.#timer = setInterval(() => this.look(), this.#leastMs / LOOKS);
    this.#timer.unref();
  }

  /** Looks now: whoever handles news calls it first, since they may be read before the timer is due. */
  look(): void {
    const nowMs = this.#now();
    const gapMs = nowMs - this.#seenMs;
    this.#seenMs = nowMs;
    if (gapMs >= this.#leastMs) this.#options.onStall(gapMs);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
