import { type Deferred, deferred } from "../shared/async.ts";
import { RankwiseError } from "../shared/errors.ts";
import { takeOut } from "./list.ts";
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

/** What a wait on cells is made of. */
export interface CellWaitParts {
  readonly ctx: CallContext;
  readonly signal: Allocation;
  readonly cells: SignalCells;
  readonly timeoutMs: number;
  readonly pending: PendingWaits;
  /** Told of the error when the deadline passes. */
  readonly onExpired?: ((error: RankwiseError) => void) | undefined;
}

/** One cell of a wait: a waiter of that cell. */
class AwaitedCell implements CellWaiter {
  readonly condition: CellCondition;
  readonly compare: WaitCmp;
  readonly expected: number;
  readonly #wait: CellWait;

  constructor(condition: CellCondition, wait: CellWait) {
    this.condition = condition;
    this.compare = condition.compare;
    this.expected = condition.expected;
    this.#wait = wait;
  }

  met(value: number): void {
    this.#wait.met(this, value);
  }
}

/**
 * A wait on cells of one signal whose conditions do not hold yet: a waiter of each cell, and one entry of the pending
 * waits. It settles once: all met, with the latched value of the last one, or expired, or rejected because the group ended.
 */
export class CellWait implements PendingEntry {
  readonly since = performance.now();
  readonly deadline: number;
  readonly #parts: CellWaitParts;
  /** The cells whose condition has not held yet. */
  readonly #missing: AwaitedCell[] = [];
  readonly #done: Deferred<number> = deferred<number>();

  constructor(parts: CellWaitParts, conditions: readonly CellCondition[]) {
    this.#parts = parts;
    this.deadline = this.since + parts.timeoutMs;
    for (const condition of conditions) {
      const awaited = new AwaitedCell(condition, this);
      this.#missing.push(awaited);
      parts.cells.wait(condition.cell, awaited);
    }
    parts.pending.add(this);
  }

  get promise(): Promise<number> {
    return this.#done.promise;
  }

  /** One cell's condition holds. */
  met(awaited: AwaitedCell, value: number): void {
    const missing = this.#missing;
    takeOut(missing, awaited);
    if (missing.length > 0) return;
    this.#parts.pending.delete(this);
    this.#done.resolve(value);
  }

  expire(): void {
    const error = this.#timeout();
    this.reject(error);
    this.#parts.onExpired?.(error);
  }

  reject(error: RankwiseError): void {
    for (const awaited of this.#missing) this.#parts.cells.forget(awaited.condition.cell, awaited);
    this.#done.reject(error);
  }

  /** A row for each cell that is still awaited. */
  rows(): Omit<PendingWait, "ageMs">[] {
    const { ctx, signal, cells } = this.#parts;
    return this.#missing.map(({ condition: { cell, compare, expected, source } }) => ({
      call: ctx.label,
      group: [...ctx.group.members],
      seq: ctx.seq,
      lane: ctx.lane,
      signal: signal.name,
      cell: offsetOf(cell, signal.shape),
      compare,
      expected,
      current: cells.value(cell),
      lastWriter: cells.lastWriter(cell),
      missing: source === undefined ? [] : [ctx.group.world(source)],
    }));
  }

  #timeout(): RankwiseError {
    const { ctx, signal, cells } = this.#parts;
    const { label, group, seq } = ctx;
    const waitedMs = Math.round(performance.now() - this.since);
    const rows = this.rows();
    const missing = rows.flatMap((row) => row.missing);
    const who = missing.length === 0 ? "" : `, missing rank ${missing.join(", ")}`;
    const { cell, compare, expected } = this.#missing[0]?.condition ?? { cell: 0, compare: "", expected: 0 };
    return new RankwiseError(
      "ERR_WAIT_TIMEOUT",
      `${label}: waited ${waitedMs} ms for ${cells.describe(cell)} to be ${compare} ${expected}; ` +
        `it holds ${cells.value(cell)}, last changed by ${cells.describeWriter(cell)}${who}. ` +
        "Either the notify was not sent, or it went to another cell; a legitimate longer wait needs --wait-timeout or timeoutMs",
      {
        rank: group.world(group.rank),
        window: signal.name,
        offset: offsetOf(cell, signal.shape),
        group: group.members,
        seq,
        ...(missing.length === 0 ? {} : { missing }),
      },
    );
  }
}
