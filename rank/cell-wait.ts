import { type Deferred, deferred } from "../shared/async.ts";
import { RankwiseError } from "../shared/errors.ts";
import { offsetOf } from "../shared/shape.ts";
import type { PendingWait } from "../shared/messages.ts";
import type { CallContext } from "./group.ts";
import type { Allocation } from "./memory/registry.ts";
import type { CellWaiter, SignalCells } from "./memory/signal-cells.ts";
import type { PendingEntry, PendingWaits } from "./pending.ts";
import type { WaitCmp } from "./primitives.ts";

/** What a cell is awaited to be. */
export interface CellCondition {
  readonly cell: number;
  readonly compare: WaitCmp;
  readonly expected: number;
  /** Index in the group of the one member that changes the cell, where that is known. */
  readonly source?: number;
}

/**
 * A wait on one cell whose condition does not hold yet: a waiter of the cell and an entry of the pending waits.
 * It settles once: met, expired, or rejected because the group ended.
 */
export class CellWait implements CellWaiter, PendingEntry {
  readonly compare: WaitCmp;
  readonly expected: number;
  readonly since = performance.now();
  readonly deadline: number;
  readonly #ctx: CallContext;
  readonly #signal: Allocation;
  readonly #cells: SignalCells;
  readonly #cell: number;
  readonly #source: number | undefined;
  readonly #pending: PendingWaits;
  readonly #done: Deferred<number> = deferred<number>();
  readonly #onExpired: ((error: RankwiseError) => void) | undefined;

  constructor(
    ctx: CallContext,
    signal: Allocation,
    cells: SignalCells,
    condition: CellCondition,
    timeoutMs: number,
    pending: PendingWaits,
    onExpired?: (error: RankwiseError) => void,
  ) {
    this.#ctx = ctx;
    this.#signal = signal;
    this.#cells = cells;
    this.#cell = condition.cell;
    this.#source = condition.source;
    this.compare = condition.compare;
    this.expected = condition.expected;
    this.deadline = this.since + timeoutMs;
    this.#pending = pending;
    this.#onExpired = onExpired;
    cells.wait(condition.cell, this);
    pending.add(this);
  }

  get promise(): Promise<number> {
    return this.#done.promise;
  }

  met(value: number): void {
    this.#pending.delete(this);
    this.#done.resolve(value);
  }

  expire(): void {
    const error = this.#timeout();
    this.reject(error);
    this.#onExpired?.(error);
  }

  reject(error: RankwiseError): void {
    this.#cells.forget(this.#cell, this);
    this.#done.reject(error);
  }

  row(): Omit<PendingWait, "ageMs"> {
    const { group, lane, seq, label } = this.#ctx;
    const source = this.#source;
    return {
      call: label,
      group: [...group.members],
      seq,
      lane,
      signal: this.#signal.name,
      cell: this.#offset(),
      compare: this.compare,
      expected: this.expected,
      current: this.#cells.value(this.#cell),
      lastWriter: this.#cells.lastWriter(this.#cell),
      missing: source === undefined ? [] : [group.world(source)],
    };
  }

  #timeout(): RankwiseError {
    const { label, group } = this.#ctx;
    const waitedMs = Math.round(performance.now() - this.since);
    const { missing } = this.row();
    const who = missing.length === 0 ? "" : `, missing rank ${missing.join(", ")}`;
    return new RankwiseError(
      "ERR_WAIT_TIMEOUT",
      `${label}: waited ${waitedMs} ms for ${this.#cells.describe(this.#cell)} to be ${this.compare} ${this.expected}; ` +
        `it holds ${this.#cells.value(this.#cell)}, last changed by ${this.#cells.describeWriter(this.#cell)}${who}. ` +
        "Either the notify was not sent, or it went to another cell; a legitimate longer wait needs --wait-timeout or timeoutMs",
      {
        rank: group.world(group.rank),
        window: this.#signal.name,
        offset: this.#offset(),
        group: group.members,
        seq: this.#ctx.seq,
        ...(missing.length === 0 ? {} : { missing }),
      },
    );
  }

  /** The cell as offsets in the signal's shape. */
  #offset(): number[] {
    return offsetOf(this.#cell, this.#signal.shape);
  }
}
