/**
 * Tells a cut link from a peer that computes: both are silent to those who wait for them, but only one of them answers
 * the coordinator.
 *
 * A peer of which silence is reported is asked. Once it has answered, and whoever reported has heard nothing since
 * then either, although it went on asking, the link between the two is cut. A peer that computes does not answer; one
 * that answers because it has just come to an end of its work answers its peers in the same turn, and their silence is
 * over.
 */
import { LINK_CUT_LOOKS, LINK_LOOKS } from "../shared/constants.ts";

export class LinkJudge {
  /** When a rank has last answered. */
  readonly #answeredAtMs = new Map<number, number>();
  readonly #periodMs: number;

  constructor(livenessMs: number) {
    this.#periodMs = livenessMs / LINK_LOOKS;
  }

  /** A rank has answered what it is doing. */
  answered(rank: number, atMs: number): void {
    // the first answer within one silence is the one that counts
    const before = this.#answeredAtMs.get(rank);
    if (before === undefined || atMs - before > STALE_LOOKS * this.#periodMs) this.#answeredAtMs.set(rank, atMs);
  }

  /** Whether a silence of `peer` can only be that of the link. */
  isCut(peer: number, silentMs: number, atMs: number): boolean {
    const answeredAtMs = this.#answeredAtMs.get(peer);
    if (answeredAtMs === undefined || silentMs < LINK_CUT_LOOKS * this.#periodMs) return false;
    const sinceMs = atMs - answeredAtMs;
    // its answer lies within the silence, and so do two looks after it
    return sinceMs >= 2 * this.#periodMs && sinceMs <= silentMs - this.#periodMs;
  }

  /** Another epoch begins. */
  clear(): void {
    this.#answeredAtMs.clear();
  }
}

/** After so many looks an answer is one to an older question. */
const STALE_LOOKS = 6;
