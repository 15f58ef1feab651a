/**
 * Everything this rank waits for: waits on cells, publications, fences, gets, room in a link's queue.
 *
 * Nothing blocks for ever: each entry has a deadline, and all of them settle when the group ends. The same entries
 * are the rows of the wait table that is printed on a timeout.
 */
import type { RankwiseError } from "../shared/errors.ts";
import type { PendingWait } from "../shared/messages.ts";

/** One pending wait. Times are those of `performance.now()`. */
export interface PendingEntry {
  readonly since: number;
  readonly deadline: number;
  /** Its rows of the wait table, without their age. */
  rows(): Omit<PendingWait, "ageMs">[];
  /** Called once, when the deadline has passed. */
  expire(): void;
  /** Called once, when the group ends. */
  reject(error: RankwiseError): void;
}

export class PendingWaits {
  readonly #entries = new Set<PendingEntry>();
  #timer: NodeJS.Timeout | undefined;
  /** The deadline that the timer stands for. One timer serves all entries, so that waiting costs nothing. */
  #armedFor = Number.POSITIVE_INFINITY;
  #ended: RankwiseError | undefined;

  /** Told of every wait that is added, with the time since when it waits. */
  onAdded: ((since: number) => void) | undefined;

  get size(): number {
    return this.#entries.size;
  }

  /** Registers a wait; if the group has ended, it is rejected at once. */
  add(entry: PendingEntry): void {
    if (this.#ended !== undefined) {
      entry.reject(this.#ended);
      return;
    }
    this.#entries.add(entry);
    this.onAdded?.(entry.since);
    if (entry.deadline < this.#armedFor) this.#arm(entry.deadline);
  }

  /** Takes out a wait that was satisfied. */
  delete(entry: PendingEntry): void {
    this.#entries.delete(entry);
  }

  /** Drops the timer when nothing is pending any more, so that a rank that has ended is forgotten. */
  disarm(): void {
    if (this.#entries.size === 0) this.#arm(Number.POSITIVE_INFINITY);
  }

  /** Rejects everything that is pending, and everything that is added later. */
  end(error: RankwiseError): void {
    this.#ended = error;
    clearTimeout(this.#timer);
    for (const entry of [...this.#entries]) {
      this.#entries.delete(entry);
      entry.reject(error);
    }
  }

  /**
   * Whom this rank has been waiting for, for at least so long: world ranks, or "anybody" when a wait does not say (a
   * hand-written wait on a cell may be satisfied by every peer).
   */
  awaited(forMs: number): ReadonlySet<number> | "anybody" {
    const before = performance.now() - forMs;
    const ranks = new Set<number>();
    for (const entry of this.#entries) {
      if (entry.since > before) continue;
      for (const { missing } of entry.rows()) {
        if (missing.length === 0) return "anybody";
        for (const rank of missing) ranks.add(rank);
      }
    }
    return ranks;
  }

  /** The wait table's rows, oldest first. */
  rows(): PendingWait[] {
    const now = performance.now();
    return [...this.#entries].flatMap((entry) => {
      const ageMs = Math.round(now - entry.since);
      return entry.rows().map((row) => ({ ...row, ageMs }));
    });
  }

  #arm(deadline: number): void {
    clearTimeout(this.#timer);
    this.#armedFor = deadline;
    if (!Number.isFinite(deadline)) return;
    this.#timer = setTimeout(
      () => {
        this.#sweep();
      },
      Math.max(1, Math.ceil(deadline - performance.now())),
    );
  }

  #sweep(): void {
    const now = performance.now();
    let next = Number.POSITIVE_INFINITY;
    this.#armedFor = next; // what is added by an expiry arms the timer itself
    for (const entry of [...this.#entries]) {
      if (entry.deadline > now) next = Math.min(next, entry.deadline);
      else if (this.#entries.delete(entry)) entry.expire();
    }
    if (next < this.#armedFor) this.#arm(next);
  }
}
