/**
 * The memory model as axioms, against which what the ranks of a program saw is checked.
 *
 * Every step is one or two events, and so is its effect at the owner. Program order, order within a pair, completed
 * fences and satisfied waits say which event must have come before which. A read adds what it shows: the write that it
 * saw came before it, a write that overwrote that one did not. What was seen agrees with the model when all these can
 * stand in one order, that is, when they form no circle.
 */
import { WaitCmp } from "../../rank/primitives.ts";
import { SNAPSHOT_BYTES_MAX } from "../../shared/constants.ts";
import { changesOf } from "./generate.ts";
import { type BlockPlace, ELEMENTS_MAX, type Observations, type Program, type Runs, type Step } from "./interpret.ts";

type PutStep = Extract<Step, { kind: "put" }>;

/** From the first to the last moment at which something took effect; most effects are of one moment. */
interface Span {
  readonly first: number;
  readonly last: number;
}

/** What is wrong with an execution, or undefined when it agrees with the model. */
export function findViolation(program: Program, observed: readonly Observations[]): string | undefined {
  try {
    new Execution(program, observed).check();
    return undefined;
  } catch (error) {
    if (error instanceof Violation) return error.message;
    throw error;
  }
}

class Violation extends Error {}

class Execution {
  readonly #program: Program;
  readonly #observed: readonly Observations[];
  readonly #order = new Order();
  /** When a put or notify took effect at its owner, by step. */
  readonly #applied = new Map<number, Span>();
  readonly #reads: { id: number | string; owner: number; block: BlockPlace; sums: boolean; span: Span; runs: Runs }[] =
    [];

  constructor(program: Program, observed: readonly Observations[]) {
    this.#program = program;
    this.#observed = observed;
    this.#build();
  }

  check(): void {
    this.#checkCells();
    const reads = this.#reads.map((read) => ({ ...read, contents: expand(read.runs) }));
    for (const { id, owner, block, sums, span, contents } of reads) {
      if (contents.length !== block.rows * block.columns) throw new Violation(`read ${id}: ${contents.length} elements`);
      if (sums) this.#addSumEdges(String(id), owner, block, span, contents);
      else for (const writer of this.#writersSeen(String(id), owner, block, contents)) this.#seenBefore(writer, span);
    }
    // what overwrote what is known only now; it may show that something was overwritten before it was read
    for (;;) {
      this.#order.close();
      let more = false;
      for (const { owner, block, sums, span, contents } of reads) {
        if (!sums && this.#addOverwriteEdges(owner, block, span, contents)) more = true;
      }
      if (!more) return;
    }
  } // prettier-ignore

  #build(): void {
    const { nranks, steps, shape } = this.#program;
    const order = this.#order;
    /** The latest event of each rank's program, and the latest effect of each pair. */
    const last = range(nranks).map(() => order.event("start"));
    const latest = new Map<string, number>();
    const next = (rank: number, name: string): number => {
      const event = order.event(name);
      order.before(last[rank] ?? 0, event);
      return (last[rank] = event);
    };
    /** An effect at a peer: after its issue and after everything issued before to the same peer. */
    const effect = (rank: number, peer: number, issued: number, name: string, moments: 1 | 2): Span => {
      if (rank === peer) return { first: issued, last: issued };
      const pair = `${rank} ${peer}`;
      const first = order.event(name);
      order.before(issued, first);
      order.before(latest.get(pair) ?? issued, first);
      const end = moments === 1 ? first : order.event(`end of ${name}`);
      if (end !== first) order.before(first, end);
      latest.set(pair, end);
      return { first, last: end };
    };
    for (const [id, step] of steps.entries()) {
      const { rank } = step;
      const name = `step ${id} ${step.kind}`;
      const issued = next(rank, name);
      switch (step.kind) {
        case "put":
        case "notify": {
          // a put may be seen in parts until it is complete
          const moments = step.kind === "put" ? 2 : 1;
          this.#applied.set(id, effect(rank, step.peer, issued, `effect of ${name}`, moments));
          break;
        }
        case "get": {
          const bytes = step.block.rows * step.block.columns * 4;
          // nothing is asked for an empty block, so nothing is waited for
          const asked = bytes > 0;
          const served = asked && effect(rank, step.peer, issued, `service of ${name}`, step.chunked ? 2 : 1);
          const done = next(rank, `end of ${name}`);
          if (served) order.before(served.last, done);
          const span =
            served && bytes <= SNAPSHOT_BYTES_MAX ? served : { first: served ? served.first : issued, last: done };
          this.#noteRead(id, rank, step.peer, step.block, step.sums, span);
          break;
        }
        case "wait":
          for (const change of this.#neededBy(id, step)) order.before(this.#at(change).last, issued);
          break;
        case "fence":
          for (const [earlier, other] of steps.slice(0, id).entries()) {
            if (other.rank !== rank || !("peer" in other) || other.kind === "fence") continue;
            if (step.peer !== null && other.peer !== step.peer) continue;
            const applied = this.#applied.get(earlier);
            if (applied !== undefined) order.before(applied.last, issued);
          }
          break;
        case "read": {
          const whole = { row: 0, column: 0, rows: shape[0], columns: shape[1] };
          this.#noteRead(id, rank, rank, whole, step.sums, { first: issued, last: issued });
          break;
        }
        case "pause":
          break;
      }
    }
    const over = order.event("end");
    for (const event of [...last, ...[...this.#applied.values()].map((span) => span.last)]) order.before(event, over);
    const whole = { row: 0, column: 0, rows: shape[0], columns: shape[1] };
    for (const [owner, { values, sums }] of this.#observed.entries()) {
      const span = { first: over, last: over };
      this.#reads.push({ id: `end of rank ${owner}`, owner, block: whole, sums: false, span, runs: values });
      this.#reads.push({ id: `end of rank ${owner}`, owner, block: whole, sums: true, span, runs: sums });
    }
  }

  #noteRead(id: number, rank: number, owner: number, block: BlockPlace, sums: boolean, span: Span): void {
    const runs = this.#observed[rank]?.seen[id];
    if (!Array.isArray(runs)) throw new Violation(`step ${id} of rank ${rank} has seen nothing`);
    this.#reads.push({ id, owner, block, sums, span, runs });
  }

  #at(id: number): Span {
    const span = this.#applied.get(id);
    if (span === undefined) throw new Error(`step ${id} has no effect`);
    return span;
  }

  /** The changes without which a wait could not have been satisfied. */
  #neededBy(id: number, step: Extract<Step, { kind: "wait" }>): number[] {
    const { rank, cell, compare, expected } = step;
    const latched = this.#observed[rank]?.seen[id];
    const holds = compare === WaitCmp.Eq ? latched === expected : typeof latched === "number" && latched >= expected;
    if (!holds) throw new Violation(`step ${id}: wait ${compare} ${expected} was satisfied by ${String(latched)}`);
    const { steps, cells, nranks } = this.#program;
    // effects of later steps are no events yet; a wait that needed one could not have passed in step order
    const changes = changesOf(steps, rank, cell);
    if (cell >= cells - nranks) {
      const first = changes.find(({ value }) => (compare === WaitCmp.Eq ? value === expected : value >= expected));
      return first === undefined ? [] : [first.id];
    }
    return changes.filter((change) => change.id < id && mostWithout(changes, change.id) < expected).map((c) => c.id);
  }

  /** The end of every cell: exact sums, and the last value set. */
  #checkCells(): void {
    const { nranks, cells, steps } = this.#program;
    for (const [owner, { cells: got }] of this.#observed.entries()) {
      for (const cell of range(cells)) {
        const values = changesOf(steps, owner, cell).map(({ value }) => value);
        const expected = cell >= cells - nranks ? (values.at(-1) ?? 0) : values.reduce((a, b) => a + b, 0);
        if (got[cell] !== expected) {
          throw new Violation(`cell ${cell} of rank ${owner} ends as ${String(got[cell])}, not ${expected}`);
        }
      }
    }
  }

  /** The puts whose values a read shows; each value must be one that was put to its place. */
  #writersSeen(id: string, owner: number, block: BlockPlace, contents: Int32Array): Set<number> {
    const writers = new Set<number>();
    for (let i = 0; i < contents.length; i++) {
      const value = contents[i] ?? 0;
      if (value === 0) continue;
      const writer = Math.floor(value / ELEMENTS_MAX) - 1;
      const put = this.#program.steps[writer];
      const here = placeOf(block, i);
      if (put?.kind !== "put" || put.bit !== null || put.peer !== owner || indexIn(put.block, here) !== value % ELEMENTS_MAX) {
        throw new Violation(`read ${id} of rank ${owner}: element [${here.join(", ")}] holds ${value}, which was never put there`);
      }
      writers.add(writer);
    }
    return writers;
  } // prettier-ignore

  #seenBefore(writer: number, span: Span): void {
    this.#order.before(this.#at(writer).first, span.last);
  }

  /** Every bit of a sum tells whether its put came before the read. */
  #addSumEdges(id: string, owner: number, block: BlockPlace, span: Span, contents: Int32Array): void {
    const adds = this.#putsTo(owner, (put) => put.bit !== null);
    for (let i = 0; i < contents.length; i++) {
      let rest = contents[i] ?? 0;
      const here = placeOf(block, i);
      for (const { id: add, put } of adds) {
        if (indexIn(put.block, here) === undefined) continue;
        const bit = 2 ** (put.bit ?? 0);
        if ((rest & bit) === 0) this.#order.before(span.first, this.#at(add).last);
        else this.#order.before(this.#at(add).first, span.last);
        rest &= ~bit;
      }
      if (rest !== 0) throw new Violation(`read ${id} of rank ${owner}: sum ${String(contents[i])} has bits of nobody`);
    }
  }

  /** A read that shows one put, or none, came before every put that overwrites that one. */
  #addOverwriteEdges(owner: number, block: BlockPlace, span: Span, contents: Int32Array): boolean {
    const puts = this.#putsTo(owner, (put) => put.bit === null);
    const known = new Set<string>();
    let more = false;
    for (let i = 0; i < contents.length; i++) {
      const writer = Math.floor((contents[i] ?? 0) / ELEMENTS_MAX) - 1;
      const here = placeOf(block, i);
      for (const { id, put } of puts) {
        if (id === writer || known.has(`${writer} ${id}`) || indexIn(put.block, here) === undefined) continue;
        known.add(`${writer} ${id}`);
        if (writer >= 0 && !this.#order.isBefore(this.#at(writer).last, this.#at(id).first)) continue;
        if (this.#order.before(span.first, this.#at(id).last)) more = true;
      }
    }
    return more;
  }

  #putsTo(owner: number, wanted: (put: PutStep) => boolean): { id: number; put: PutStep }[] {
    return [...this.#program.steps.entries()].flatMap(([id, put]) =>
      put.kind === "put" && put.peer === owner && wanted(put) ? [{ id, put }] : [],
    );
  }
}

/** Events and which must come before which. */
class Order {
  readonly #names: string[] = [];
  readonly #after: Set<number>[] = [];
  #reach: Uint32Array[] = [];

  event(name: string): number {
    this.#after.push(new Set());
    return this.#names.push(name) - 1;
  }

  /** Whether this is new. An event that is to come before itself stands for one moment, and does not. */
  before(earlier: number, later: number): boolean {
    const after = this.#after[earlier];
    if (earlier === later || after === undefined || after.has(later)) return false;
    after.add(later);
    return true;
  }

  isBefore(earlier: number, later: number): boolean {
    return earlier === later || (((this.#reach[earlier]?.[later >>> 5] ?? 0) >>> (later & 31)) & 1) === 1;
  }

  /** Draws all conclusions. @throws {Violation} naming a circle. */
  close(): void {
    const count = this.#names.length;
    const words = Math.ceil(count / 32);
    const open = this.#after.map((after) => after.size);
    const inverse: number[][] = this.#names.map(() => []);
    for (const [event, after] of this.#after.entries()) for (const later of after) inverse[later]?.push(event);
    this.#reach = this.#names.map(() => new Uint32Array(words));
    const ready = open.flatMap((size, event) => (size === 0 ? [event] : []));
    let done = 0;
    for (let event = ready.pop(); event !== undefined; event = ready.pop()) {
      done += 1;
      const own = this.#reach[event] ?? new Uint32Array();
      for (const later of this.#after[event] ?? []) {
        own[later >>> 5] = (own[later >>> 5] ?? 0) | (1 << (later & 31));
        const theirs = this.#reach[later] ?? new Uint32Array();
        for (let word = 0; word < words; word++) own[word] = (own[word] ?? 0) | (theirs[word] ?? 0);
      }
      for (const earlier of inverse[event] ?? []) if (--open[earlier]! === 0) ready.push(earlier);
    }
    if (done < count) throw new Violation(`no order explains it: ${this.#circle(open).join(" → ")}`);
  }

  #circle(open: readonly number[]): string[] {
    const path: number[] = [];
    let event = open.findIndex((size) => size > 0);
    while (!path.includes(event)) {
      path.push(event);
      event = [...(this.#after[event] ?? [])].find((later) => (open[later] ?? 0) > 0) ?? event;
    }
    return [...path.slice(path.indexOf(event)), event].map((member) => this.#names[member] ?? "");
  }
}

/** The largest value that a cell can have had without one change: of each rank any first part of what it issued. */
function mostWithout(changes: readonly { id: number; rank: number; value: number }[], missing: number): number {
  const most = new Map<number, number>();
  const sums = new Map<number, number>();
  const stopped = new Set<number>();
  for (const { id, rank, value } of changes) {
    if (id === missing) stopped.add(rank);
    if (stopped.has(rank)) continue;
    const sum = (sums.get(rank) ?? 0) + value;
    sums.set(rank, sum);
    most.set(rank, Math.max(most.get(rank) ?? 0, sum));
  }
  return [...most.values()].reduce((a, b) => a + b, 0);
}

function placeOf(block: BlockPlace, i: number): [row: number, column: number] {
  return [block.row + Math.floor(i / block.columns), block.column + (i % block.columns)];
}

/** Place of a window's element among those of a block, or undefined outside of it. */
function indexIn(block: BlockPlace, [row, column]: readonly [number, number]): number | undefined {
  const [down, right] = [row - block.row, column - block.column];
  if (down < 0 || right < 0 || down >= block.rows || right >= block.columns) return undefined;
  return down * block.columns + right;
}

function expand(runs: Runs): Int32Array {
  const values: number[] = [];
  for (const [value, stride, count] of runs) for (let i = 0; i < count; i++) values.push(value + i * stride);
  return Int32Array.from(values);
}

function range(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i);
}
