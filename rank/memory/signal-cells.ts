/**
 * The INT32 cells of one signal: how a notify changes them and how a change wakes their waiters.
 *
 * A cell remembers the kind of its last change (Set or AtomicAdd), who made it, and whether a wait on it has been
 * satisfied since; Set and AtomicAdd must not meet on one cell without such a wait in between.
 */
import { RankwiseError } from "../../shared/errors.ts";
import { formatShape, offsetOf, type Shape } from "../../shared/shape.ts";
import { type NotifyOp, WaitCmp } from "../primitives.ts";

/** Somebody who waits for a cell. `met` is called at most once, inside the change that satisfied the condition. */
export interface CellWaiter {
  readonly compare: WaitCmp;
  readonly expected: number;
  met(value: number): void;
}

const NEVER = 0;
const SET = 1;
const ADD = 2;

/** Writers that are no rank. */
const CLIENT = -1;
const NOBODY = -2;

export class SignalCells {
  readonly values: Int32Array;
  readonly #name: string;
  readonly #shape: Shape;
  readonly #lastKind: Uint8Array;
  readonly #waitedSince: Uint8Array;
  readonly #lastWriter: Int16Array;
  readonly #waiters = new Map<number, CellWaiter[]>();
  /** Builtin calls that use this signal now. */
  #builtins = 0;

  /** Over the memory of a signal with this name and shape, for messages that tell of it. */
  constructor(values: Int32Array, name: string, shape: Shape) {
    this.values = values;
    this.#name = name;
    this.#shape = shape;
    this.#lastKind = new Uint8Array(values.length);
    this.#waitedSince = new Uint8Array(values.length);
    this.#lastWriter = new Int16Array(values.length).fill(NOBODY);
  }

  /**
   * Changes one cell and wakes the waiters that the change satisfies. AtomicAdd wraps as INT32.
   *
   * @throws {ERR_NOTIFY_MIXED} when Set meets AtomicAdd, before the cell changes.
   */
  apply(cell: number, op: NotifyOp, value: number, writer: number): void {
    this.checkKind(cell, op);
    this.#lastKind[cell] = op === "set" ? SET : ADD;
    this.#waitedSince[cell] = 0;
    this.#lastWriter[cell] = writer;
    this.values[cell] = op === "set" ? value : (this.value(cell) + value) | 0;
    this.#wake(cell);
  }

  /** @throws {ERR_NOTIFY_MIXED} when a change of this kind may not come now. */
  checkKind(cell: number, op: NotifyOp): void {
    const kind = op === "set" ? SET : ADD;
    const last = this.#lastKind[cell] ?? NEVER;
    if (kind === SET && this.#builtins > 0) {
      throw this.#mixed(cell, `a Set arrived at ${this.describe(cell)} while a builtin counts credits there`);
    }
    if (last !== NEVER && last !== kind && this.#waitedSince[cell] === 0) {
      const [now, before] = kind === SET ? ["Set", "AtomicAdd"] : ["AtomicAdd", "Set"];
      throw this.#mixed(
        cell,
        `${now} on ${this.describe(cell)}, last changed by ${before} from ${this.describeWriter(cell)}, with no satisfied wait in between`,
      );
    }
  }

  /** `cell [1, 0] of signal "arrived"`. */
  describe(cell: number): string {
    return `cell ${formatShape(offsetOf(cell, this.#shape))} of signal "${this.#name}"`;
  }

  value(cell: number): number {
    return this.values[cell] ?? 0;
  }

  /** Rank that last changed the cell, or null. */
  lastWriter(cell: number): number | null {
    const writer = this.#lastWriter[cell] ?? NOBODY;
    return writer < 0 ? null : writer;
  }

  /** `rank 3`, `a client` or `nobody`. */
  describeWriter(cell: number): string {
    const writer = this.#lastWriter[cell] ?? NOBODY;
    if (writer === NOBODY) return "nobody";
    return writer === CLIENT ? "a client" : `rank ${writer}`;
  }

  /** Whether the condition holds now; a condition that holds counts as a satisfied wait. */
  test(cell: number, compare: WaitCmp, expected: number): boolean {
    if (!holds(this.value(cell), compare, expected)) return false;
    this.#waitedSince[cell] = 1;
    return true;
  }

  /** Registers a waiter whose condition does not hold yet. */
  wait(cell: number, waiter: CellWaiter): void {
    let waiters = this.#waiters.get(cell);
    if (waiters === undefined) this.#waiters.set(cell, (waiters = []));
    waiters.push(waiter);
  }

  /** Takes back a waiter that gave up. */
  forget(cell: number, waiter: CellWaiter): void {
    const waiters = this.#waiters.get(cell) ?? [];
    const at = waiters.indexOf(waiter);
    if (at >= 0) waiters.splice(at, 1);
  }

  /** A nonzero cell last changed by Set, or undefined: a builtin would take it for credits. */
  uncleanCell(): number | undefined {
    for (let cell = 0; cell < this.values.length; cell++) {
      if (this.values[cell] !== 0 && this.#lastKind[cell] === SET) return cell;
    }
    return undefined;
  }

  enterBuiltin(): void {
    this.#builtins += 1;
  }

  leaveBuiltin(): void {
    this.#builtins -= 1;
  }

  #mixed(cell: number, message: string): RankwiseError {
    return new RankwiseError("ERR_NOTIFY_MIXED", message, {
      window: this.#name,
      offset: offsetOf(cell, this.#shape),
    });
  }

  #wake(cell: number): void {
    const waiters = this.#waiters.get(cell);
    if (waiters === undefined || waiters.length === 0) return;
    const value = this.value(cell);
    // most cells have one waiter, again and again: its list is kept
    const [first] = waiters;
    if (waiters.length === 1 && first !== undefined) {
      if (!holds(value, first.compare, first.expected)) return;
      this.#waitedSince[cell] = 1;
      waiters.length = 0;
      first.met(value);
      return;
    }
    const met = waiters.filter((waiter) => holds(value, waiter.compare, waiter.expected));
    if (met.length === 0) return;
    this.#waitedSince[cell] = 1;
    const left = waiters.filter((waiter) => !met.includes(waiter));
    waiters.splice(0, waiters.length, ...left);
    for (const waiter of met) waiter.met(value);
  }
}

function holds(value: number, compare: WaitCmp, expected: number): boolean {
  return compare === WaitCmp.Eq ? value === expected : value >= expected;
}
