/** Runs one rank's part of a primitive program and records everything it saw. Imports nothing but Rankwise. */
import { setImmediate as turn } from "node:timers/promises";
import type { Comm, NotifyOp, Signal, WaitCmp, Window } from "rankwise";

/** A block of a window [rows, columns]. */
export interface BlockPlace {
  readonly row: number;
  readonly column: number;
  readonly rows: number;
  readonly columns: number;
}

/** A change of a cell. */
export interface CellStep {
  readonly cell: number;
  readonly value: number;
  readonly op: NotifyOp;
}

/** What a rank does; `rank` in world ranks. The place of a step in its program is its number. */
export type Step = { readonly rank: number } & (
  | {
      readonly kind: "put";
      readonly peer: number;
      readonly block: BlockPlace;
      /** Into the window of sums, one bit for each step, instead of the window of values. */
      readonly bit: number | null;
      readonly chunks: { readonly chunkRows: number; readonly chunkCols: number } | null;
      readonly signal: CellStep | null;
      /** Local completion is awaited at once, else at the end of the program. */
      readonly awaited: boolean;
      /** The block stands inside a larger source. */
      readonly inside: boolean;
    }
  | { readonly kind: "get"; readonly peer: number; readonly block: BlockPlace; readonly sums: boolean; readonly chunked: boolean }
  | ({ readonly kind: "notify"; readonly peer: number } & CellStep)
  | { readonly kind: "wait"; readonly cell: number; readonly compare: WaitCmp; readonly expected: number }
  | { readonly kind: "fence"; readonly peer: number | null }
  | { readonly kind: "read"; readonly sums: boolean }
  | { readonly kind: "pause"; readonly turns: number }
); // prettier-ignore

/** A program: the steps of all ranks, in an order in which they could be taken one after another. */
export interface Program {
  readonly nranks: number;
  readonly shape: readonly [rows: number, columns: number];
  readonly cells: number;
  readonly steps: readonly Step[];
}

/** Values as runs: `count` values from `value` on, each `stride` more than the one before. */
export type Runs = readonly (readonly [value: number, stride: number, count: number])[];

/** What one rank saw. */
export interface Observations {
  /** Latched values of waits and contents of reads and gets, by step. */
  readonly seen: Record<number, number | Runs>;
  readonly values: Runs;
  readonly sums: Runs;
  readonly cells: number[];
}

/** Puts write their step and the element's place in the block, so that a value out of place names itself. */
export const ELEMENTS_MAX = 4096;

/** Most bytes that are snapshotted. */
const SNAPSHOT_BYTES = 4096;

/** Takes the steps of this rank. Windows and signals are freed at the end, so that programs can follow each other. */
export async function interpret(comm: Comm, program: Program): Promise<Observations> {
  const { shape, cells, steps, nranks } = program;
  const values = await comm.window("values", "int32", shape);
  const sums = await comm.window("sums", "int32", shape);
  const signal = await comm.signal("signal", [cells]);
  const credits = await comm.signal("credits", [nranks, 1]);
  const seen: Record<number, number | Runs> = {};
  const rest: Promise<void>[] = [];
  for (const [id, step] of steps.entries()) {
    if (step.rank !== comm.rank) continue;
    const result = await take(comm, { values, sums, signal, rest }, id, step);
    if (result !== undefined) seen[id] = result;
  }
  await Promise.all(rest);
  await comm.quiet();
  await comm.barrier(credits);
  const observations = {
    seen,
    values: runsOf(values.local.array),
    sums: runsOf(sums.local.array),
    cells: [...signal.local.array],
  };
  await Promise.all([values.free(), sums.free(), signal.free(), credits.free()]);
  return observations;
}

interface Memory {
  readonly values: Window<"int32">;
  readonly sums: Window<"int32">;
  readonly signal: Signal;
  readonly rest: Promise<void>[];
}

async function take(comm: Comm, memory: Memory, id: number, step: Step): Promise<number | Runs | undefined> {
  const { values, sums, signal, rest } = memory;
  switch (step.kind) {
    case "put":
      await put(comm, memory, id, step);
      return undefined;
    case "get": {
      const { row, column, rows, columns } = step.block;
      const target = comm.tensor("int32", [rows, columns]);
      const region = { srcOffset: [row, column], shape: [rows, columns] };
      const chunks = step.chunked ? { chunkRows: 1, chunkCols: 2 } : {};
      await (step.sums ? sums : values).get(step.peer, target, region, chunks);
      return runsOf(target.array);
    }
    case "notify": {
      const done = signal.notify(step.peer, [step.cell], step.value, step.op);
      done.catch(() => undefined);
      rest.push(done);
      return undefined;
    }
    case "wait":
      return await signal.wait([step.cell], step.expected, step.compare);
    case "fence":
      await (step.peer === null ? comm.quiet() : comm.fence(step.peer));
      return undefined;
    case "read":
      return runsOf((step.sums ? sums : values).local.array);
    case "pause":
      for (let i = 0; i < step.turns; i++) await turn();
      return undefined;
  }
}

async function put(comm: Comm, memory: Memory, id: number, step: Extract<Step, { kind: "put" }>): Promise<void> {
  const { block, bit, chunks, inside, peer } = step;
  const { row, column, rows, columns } = block;
  const margin = inside ? 1 : 0;
  const source = comm.tensor("int32", [rows + margin, columns + 2 * margin]);
  for (let i = 0; i < rows * columns; i++) {
    const at = (Math.floor(i / columns) + margin) * (columns + 2 * margin) + (i % columns) + margin;
    source.array[at] = bit === null ? (id + 1) * ELEMENTS_MAX + i : 2 ** bit;
  }
  const region = { dstOffset: [row, column], srcOffset: [margin, margin], shape: [rows, columns] };
  const window = bit === null ? memory.values : memory.sums;
  const { signal } = step;
  const done =
    signal !== null
      ? window.putSignal(peer, source, region, memory.signal, [signal.cell], signal.value, signal.op)
      : window.put(peer, source, region, { ...chunks, ...(bit === null ? {} : { atomic: "add" }) });
  done.catch(() => undefined);
  memory.rest.push(done);
  if (step.awaited) await done;
  // from here on the source is the program's again
  if (step.awaited || rows * columns * 4 <= SNAPSHOT_BYTES) source.array.fill(-1);
}

/** Ascending values and constant ones, in as few runs as they come. */
function runsOf(array: ArrayLike<number>): [number, number, number][] {
  const runs: [number, number, number][] = [];
  let last: [number, number, number] | undefined;
  for (let i = 0; i < array.length; i++) {
    const value = array[i] ?? 0;
    const stride: number = last === undefined ? 0 : value - (last[0] + last[1] * (last[2] - 1));
    if (last !== undefined && ((last[2] === 1 && (stride === 0 || stride === 1)) || stride === last[1])) {
      last[1] = stride;
      last[2] += 1;
    } else {
      runs.push((last = [value, 0, 1]));
    }
  }
  return runs;
}
