/** Timing on every rank of a group, and the slowest rank's word for all of them. */
import type { Comm } from "../comm.ts";
import type { Signal, Window } from "../window.ts";
import type { BenchPlan, Times } from "./plan.ts";

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

/**
 * Where the plan leaves it open: warm-up goes on until there were so many calls, or so much time has passed and a batch
 * was hardly faster than the one before it. Compiled code settles late where ranks share processors.
 */
const WARMUP_CALLS = 40_000;
const WARMUP_MS = 3000;
const WARMUP_MS_MAX = 10_000;
const SETTLED = 0.9;

/** Where the plan leaves it open: calls back to back, and single ones, as many as fit, between these limits. */
const TOGETHER_MS = 700;
const SINGLE_MS = 400;
const CALLS_MIN = 10;

/** Batches that the calls back to back are made in; their median is told. */
const BATCHES = 9;
const CALLS_MAX = 20_000;
const SINGLE_CALLS_MAX = 2000;

/** Makes what `Bench` holds; collective. */
export async function openBench(comm: Comm): Promise<Bench> {
  return {
    comm,
    sync: await comm.signal("bench.sync", [comm.nranks, 1]),
    figures: await comm.window("bench.figures", "float64", [comm.nranks, FIGURES]),
    figuresSignal: await comm.signal("bench.figures.signal", [comm.nranks, 1]),
  };
}

/** What is measured. `settle` ends what calls have left under way. */
export interface Operation {
  readonly call: () => Promise<void>;
  readonly settle?: () => Promise<void>;
}

/**
 * Measures an operation: in batches back to back between two barriers, whose median is the judged figure, and call by
 * call, each after a barrier. Every figure is the slowest rank's, and so is the time by which the number of calls is chosen: all ranks
 * choose the same.
 */
export async function measure(
  bench: Bench,
  { iterations, warmup }: Pick<BenchPlan, "iterations" | "warmup">,
  operation: Operation,
): Promise<Times> {
  const { comm, sync } = bench;
  const { call, settle = (): Promise<void> => Promise.resolve() } = operation;
  const together = async (calls: number): Promise<number> => {
    await comm.barrier(sync);
    const started = performance.now();
    for (let i = 0; i < calls; i++) await call();
    await settle();
    await comm.barrier(sync);
    return performance.now() - started;
  };
  const warm = warmup === null ? await warmUp(bench, together) : await fixedWarmUp(bench, warmup, iterations, together);
  const fitting = (ms: number, most: number): number => {
    if (iterations !== null) return iterations;
    return Math.min(most, Math.max(CALLS_MIN, Math.ceil(ms / Math.max(warm.callMs, 1e-6))));
  };
  const calls = fitting(TOGETHER_MS, CALLS_MAX);
  const batches: number[] = [];
  for (let left = calls; left > 0;) {
    const batch = Math.min(left, Math.ceil(calls / BATCHES));
    batches.push(((await together(batch)) * 1000) / batch);
    left -= batch;
  }
  batches.sort((a, b) => a - b);
  const timeUs = batches[Math.floor(batches.length / 2)] ?? 0;
  const single: number[] = [];
  for (let left = fitting(SINGLE_MS, SINGLE_CALLS_MAX); left > 0; left--) {
    await comm.barrier(sync);
    const before = performance.now();
    await call();
    single.push((performance.now() - before) * 1000);
    await settle();
  }
  single.sort((a, b) => a - b);
  const at = (part: number): number => single[Math.min(single.length - 1, Math.floor(part * single.length))] ?? 0;
  const [time = 0, p50Us = 0, p99Us = 0, minUs = 0] = await slowest(bench, [timeUs, at(0.5), at(0.99), at(0)]);
  return { calls, warmupCalls: warm.calls, timeUs: time, p50Us, p99Us, minUs };
}

interface WarmUp {
  readonly calls: number;
  /** What the last of them took each. */
  readonly callMs: number;
}

/** Calls in batches that double, the same on every rank. */
async function warmUp(bench: Bench, together: (calls: number) => Promise<number>): Promise<WarmUp> {
  let calls = 0;
  let callMs = 0;
  let passedMs = 0;
  let settled = false;
  for (let batch = 1; calls < WARMUP_CALLS && passedMs < (settled ? WARMUP_MS : WARMUP_MS_MAX); batch *= 2) {
    // the next batch may take twice as long as all before it: cut to what is left of the time
    const leftMs = (passedMs < WARMUP_MS ? WARMUP_MS : Math.min(WARMUP_MS_MAX, 2 * passedMs)) - passedMs;
    const fits = callMs === 0 ? batch : Math.max(1, Math.ceil(leftMs / callMs));
    const next = Math.min(batch, fits, WARMUP_CALLS - calls);
    const [ms = 0] = await slowest(bench, [await together(next)]);
    settled = ms / next > SETTLED * callMs;
    calls += next;
    passedMs += ms;
    callMs = ms / next;
  }
  return { calls, callMs };
}

/** As many calls as were asked for. Their time is exchanged where it decides something. */
async function fixedWarmUp(
  bench: Bench,
  calls: number,
  iterations: number | null,
  together: (calls: number) => Promise<number>,
): Promise<WarmUp> {
  const counted = iterations === null ? Math.max(1, calls) : calls;
  const ms = await together(counted);
  const [callMs = 0] = iterations === null ? await slowest(bench, [ms / counted]) : [0];
  return { calls: counted, callMs };
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
