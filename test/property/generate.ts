/** Random primitive programs whose waits can pass, whatever the order in which frames arrive. */
import fc from "fast-check";
import { NotifyOp, WaitCmp } from "../../rank/primitives.ts";
import type { BlockPlace, CellStep, Program, Step } from "./interpret.ts";

/** Raw material of one step: numbers that are taken modulo what is possible. */
interface Draw {
  readonly kind: "put" | "add" | "putSignal" | "get" | "notify" | "wait" | "fence" | "read" | "pause";
  readonly rank: number;
  readonly peer: number;
  readonly numbers: readonly number[];
}

/** Cells that every rank may add to; behind them stands one for each rank, which only that rank sets. */
const ADD_CELLS = 3;

/** Bits of an INT32 sum. */
const BITS = 30;

const draw: fc.Arbitrary<Draw> = fc.record({
  kind: fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom<Draw["kind"]>("put", "putSignal", "notify") },
    { weight: 3, arbitrary: fc.constantFrom<Draw["kind"]>("wait") },
    { weight: 2, arbitrary: fc.constantFrom<Draw["kind"]>("get", "add", "read") },
    { weight: 1, arbitrary: fc.constantFrom<Draw["kind"]>("fence", "pause") },
  ),
  rank: fc.nat(11),
  peer: fc.nat(11),
  numbers: fc.array(fc.nat(4095), { minLength: 8, maxLength: 8 }),
});

/** Programs of 1 to 4 ranks. */
export const programs: fc.Arbitrary<Program> = fc
  .record({
    nranks: fc.oneof(
      { weight: 1, arbitrary: fc.constant(1) },
      { weight: 9, arbitrary: fc.integer({ min: 2, max: 4 }) },
    ),
    wide: fc.boolean(),
    draws: fc.array(draw, { minLength: 1, maxLength: 40, size: "max" }),
  })
  .map(({ nranks, wide, draws }) => build(nranks, wide ? [3, 700] : [4, 6], draws));

/** Steps from draws. What a wait may expect is known once all other steps are. */
function build(nranks: number, shape: readonly [number, number], draws: readonly Draw[]): Program {
  const made = new Maker(nranks, shape);
  const steps = draws.map((item) => made.step(item));
  for (const [at, item] of draws.entries()) {
    if (item.kind === "wait") steps[at] = waitStep(nranks, steps, at, item);
  }
  return { nranks, shape, cells: ADD_CELLS + nranks, steps: steps.filter((step) => step !== undefined) };
}

class Maker {
  readonly #nranks: number;
  readonly #shape: readonly [number, number];
  #bits = 0;
  /** Last value set, by owner and setter. */
  readonly #set = new Map<string, number>();

  constructor(nranks: number, shape: readonly [number, number]) {
    this.#nranks = nranks;
    this.#shape = shape;
  }

  step({ kind, rank: drawnRank, peer: drawnPeer, numbers }: Draw): Step | undefined {
    const rank = drawnRank % this.#nranks;
    const peer = drawnPeer % this.#nranks;
    const [a = 0, b = 0, c = 0, , , , , h = 0] = numbers;
    switch (kind) {
      case "put":
      case "add":
      case "putSignal": {
        if (kind === "add" && this.#bits === BITS) return undefined;
        return {
          rank,
          kind: "put",
          peer,
          block: this.#block(numbers),
          bit: kind === "add" ? this.#bits++ : null,
          chunks: kind === "put" && h % 4 === 0 ? { chunkRows: 1 + (a % 2), chunkCols: 1 + (b % 400) } : null,
          signal: kind === "putSignal" ? this.#change(rank, peer, numbers) : null,
          awaited: a % 2 === 0,
          inside: b % 2 === 0,
        };
      }
      case "get":
        return { rank, kind, peer, block: this.#block(numbers), sums: h % 3 === 0, chunked: this.#shape[1] < 10 && h % 4 === 1 };
      case "notify":
        return { rank, kind, peer, ...this.#change(rank, peer, numbers) };
      case "fence":
        return { rank, kind, peer: c % 2 === 0 ? null : peer };
      case "read":
        return { rank, kind, sums: c % 3 === 0 };
      case "pause":
        return { rank, kind, turns: 1 + (c % 5) };
      case "wait":
        return undefined; // see `waitStep`
    }
  } // prettier-ignore

  /** A block inside the window; at times an empty one, at times the whole window. */
  #block([, , , d = 0, e = 0, f = 0, g = 0]: readonly number[]): BlockPlace {
    const [height, width] = this.#shape;
    if (d % 5 === 0) return { row: 0, column: 0, rows: height, columns: width };
    const [row, column] = [d % height, e % width];
    return { row, column, rows: f % (height - row + 1), columns: g % (width - column + 1) };
  }

  #change(rank: number, peer: number, [a = 0, b = 0]: readonly number[]): CellStep {
    if (a % 3 > 0) {
      // negative values are the exception, or no wait could pass
      const value = b % 6 === 0 ? -(1 + (b % 3)) : 1 + (b % 4);
      return { cell: a % ADD_CELLS, value, op: NotifyOp.AtomicAdd };
    }
    const key = `${peer} ${rank}`;
    const value = (this.#set.get(key) ?? 0) + 1 + (b % 3);
    this.#set.set(key, value);
    return { cell: ADD_CELLS + rank, value, op: NotifyOp.Set };
  }
}

/** The changes of one owner's cell, in the order of their steps. */
export function changesOf(
  steps: readonly (Step | undefined)[],
  owner: number,
  cell: number,
): { id: number; rank: number; value: number }[] {
  const changes: { id: number; rank: number; value: number }[] = [];
  for (const [id, step] of steps.entries()) {
    if (step?.kind !== "put" && step?.kind !== "notify") continue;
    const change = step.kind === "put" ? step.signal : step;
    if (change !== null && step.peer === owner && change.cell === cell) {
      changes.push({ id, rank: step.rank, value: change.value });
    }
  }
  return changes;
}

/** A wait that must pass once all steps before it have been taken, whatever is under way besides. */
function waitStep(nranks: number, steps: readonly (Step | undefined)[], at: number, item: Draw): Step | undefined {
  const rank = item.rank % nranks;
  const [a = 0, b = 0, c = 0] = item.numbers;
  const adds = a % 2 === 0;
  const cell = adds ? b % ADD_CELLS : ADD_CELLS + (b % nranks);
  const changes = changesOf(steps, rank, cell);
  const before = changes.filter(({ id }) => id < at);
  if (!adds) {
    const last = before.at(-1)?.value;
    if (last === undefined) return undefined;
    const final = changes.at(-1)?.value === last;
    if (final && c % 3 === 0) return { rank, kind: "wait", cell, compare: WaitCmp.Eq, expected: last };
    return { rank, kind: "wait", cell, compare: WaitCmp.Ge, expected: c % 2 === 0 ? last : 1 + (c % last) };
  }
  // every earlier increase will have come, and at worst every decrease of the whole program with them
  let least = 0;
  for (const { value } of before) least += Math.max(0, value);
  for (const { value } of changes) least += Math.min(0, value);
  if (least < 1) return undefined;
  return { rank, kind: "wait", cell, compare: WaitCmp.Ge, expected: c % 2 === 0 ? least : 1 + (c % least) };
}
