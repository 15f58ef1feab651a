/** What a benchmark run measures, and what it finds: the words between `rankwise bench` and the ranks. */
import type { DType } from "../../shared/dtype.ts";
import type { ReduceOp } from "../memory/reduce.ts";

/** Benchmarks of primitives between ranks 0 and 1; every collective of the table is one too. */
export const primitives = ["put_lat", "put_bw", "get_lat", "get_bw", "notify_lat"] as const;
export type Primitive = (typeof primitives)[number];

/** Benchmarks of what moves no payload: they are measured once, whatever the sizes. */
const unsized: readonly string[] = ["barrier", "notify_lat"];

/** Whether a benchmark, by the name of its row, has sizes. */
export function isSized(name: string): boolean {
  return !unsized.includes(name.split(":")[0] ?? name);
}

/** Above this size every n-th element is compared, so that the golden does not take longer than the benchmark. */
export const SAMPLE_BYTES = 16 * 1024 * 1024;

/** Every how many elements one is compared; odd, so that no column of a table of 2^n ones is left out. */
export function sampleStep(bytes: number): number {
  const least = Math.ceil(bytes / SAMPLE_BYTES);
  return least <= 1 ? 1 : least | 1;
}

/** The whole plan of one run. */
export interface BenchPlan {
  /** Names of primitives, or of rows of the collectives table. */
  readonly names: readonly string[];
  readonly sizesBytes: readonly number[];
  readonly dtype: DType;
  readonly op: ReduceOp;
  /** Root of what has one. */
  readonly root: number;
  /** Measured calls; null for as many as fit the time that `measure.ts` gives a size. */
  readonly iterations: number | null;
  /** Calls before; null for as many as a compiler that learns from calls wants, in a bounded time. */
  readonly warmup: number | null;
  readonly check: boolean;
}

/** Times of one operation, in microseconds, the slowest rank's, and how many calls they are from. */
export interface Times {
  /** Calls back to back, and calls before them. */
  readonly calls: number;
  readonly warmupCalls: number;
  /** Back to back: all calls of a batch between two barriers, divided by their number; the median of the batches. */
  readonly timeUs: number;
  /** Single calls, each after a barrier. */
  readonly p50Us: number;
  readonly p99Us: number;
  readonly minUs: number;
}

/** One line of the result. */
export interface BenchResult extends Times {
  readonly name: string;
  /** As nccl-tests counts it: bytes of the whole buffer of one rank. */
  readonly bytes: number;
  readonly count: number;
  readonly dtype: DType;
  /** `none` where nothing is reduced. */
  readonly op: string;
  /** -1 where there is none. */
  readonly root: number;
  /** What the bus bandwidth is to the algorithm bandwidth; null where it means nothing: at one rank, without payload. */
  readonly busFactor: number | null;
  /** Wrong elements over all ranks; null when not checked. */
  readonly wrong: number | null;
  /** Elements that were compared, of all ranks. */
  readonly checked: number;
}
