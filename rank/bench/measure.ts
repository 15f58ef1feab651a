/** Timing on every rank of a group, and the slowest rank's word for all of them. */
import type { Comm } from "../comm.ts";
import type { Signal, Window } from "../window.ts";

/** What one rank needs to measure with the others. */
export interface Bench {
  readonly comm: Comm;
  /** Credits of the barriers around a measurement. */
  readonly sync: Signal;
  /** One row of figures a rank. */
  readonly figures: Window<"float64">;
  readonly figuresSignal: Signal;
}

/** Figures that are exchanged at once. */
const FIGURES = 6;

/** Makes what `Bench` holds; collective. */
export async function openBench(comm: Comm): Promise<Bench> {
  return {
    comm,
    sync: await comm.signal("bench.sync", [comm.nranks, 1]),
    figures: await comm.window("bench.figures", "float64", [comm.nranks, FIGURES]),
    figuresSignal: await comm.signal("bench.figures.signal", [comm.nranks, 1]),
  };
}

/** Times of one operation, in microseconds. */
export interface Times {
  readonly timeUs: number;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly minUs: number;
}

/**
 * Measures an operation: back to back between two barriers, which is the judged figure, and call by call, each after a
 * barrier. Every figure is the slowest rank's.
 */
export async function measure(
  bench: Bench,
  iterations: number,
  warmup: number,
  operation: (iteration: number) => Promise<void>,
  settle: () => Promise<void> = () => Promise.resolve(),
): Promise<Times> {
  const { comm, sync } = bench;
  for (let i = 0; i < warmup; i++) await operation(i);
  await settle();
  await comm.barrier(sync);
  const started = performance.now();
  for (let i = 0; i < iterations; i++) await operation(i);
  await settle();
  await comm.barrier(sync);
  const together = ((performance.now() - started) * 1000) / iterations;
  const single: number[] = [];
  for (let i = 0; i < iterations; i++) {
    await comm.barrier(sync);
    const before = performance.now();
    await operation(i);
    single.push((performance.now() - before) * 1000);
    await settle();
  }
  single.sort((a, b) => a - b);
  const at = (part: number): number => single[Math.min(single.length - 1, Math.floor(part * single.length))] ?? 0;
  const [timeUs = 0, p50Us = 0, p99Us = 0, minUs = 0] = await slowest(bench, [together, at(0.5), at(0.99), at(0)]);
  return { timeUs, p50Us, p99Us, minUs };
}

/** The largest of each figure over all ranks. */
async function slowest(bench: Bench, figures: readonly number[]): Promise<number[]> {
  const rows = await exchange(bench, figures);
  return figures.map((_, column) => Math.max(...rows.map((row) => row[column] ?? 0)));
}

/** The sum of each figure over all ranks. */
export async function total(bench: Bench, figures: readonly number[]): Promise<number[]> {
  const rows = await exchange(bench, figures);
  return figures.map((_, column) => rows.reduce((sum, row) => sum + (row[column] ?? 0), 0));
}

async function exchange({ comm, figures, figuresSignal }: Bench, own: readonly number[]): Promise<number[][]> {
  const mine = comm.tensor("float64", [1, FIGURES]);
  mine.array.set(own);
  await comm.allGather(mine, figures, figuresSignal);
  return Array.from({ length: comm.nranks }, (_, rank) => [
    ...figures.local.array.subarray(rank * FIGURES, (rank + 1) * FIGURES),
  ]);
}
