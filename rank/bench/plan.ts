/** What a benchmark run measures, and what it finds: the words between `rankwise bench` and the ranks. */
import type { DType } from "../../shared/dtype.ts";
import type { ReduceOp } from "../memory/reduce.ts";

/** Benchmarks of primitives between ranks 0 and 1; every collective of the table is one too. */
export const primitives = ["put_lat", "put_bw", "get_lat", "get_bw", "notify_lat"] as const;
export type Primitive = (typeof primitives)[number];

/** The whole plan of one run. */
export interface BenchPlan {
  /** Names of primitives, or of rows of the collectives table. */
  readonly names: readonly string[];
  readonly sizesBytes: readonly number[];
  readonly dtype: DType;
  readonly op: ReduceOp;
  readonly iterations: number;
  readonly warmup: number;
  readonly check: boolean;
}

/** One line of the result. Times are in microseconds, the slowest rank's. */
export interface BenchResult {
  readonly name: string;
  /** As nccl-tests counts it: bytes of the whole buffer of one rank. */
  readonly bytes: number;
  readonly count: number;
  readonly dtype: DType;
  /** `none` where nothing is reduced. */
  readonly op: string;
  readonly root: number;
  /** Back to back: all calls between two barriers, divided by their number. */
  readonly timeUs: number;
  /** Single calls, each after a barrier. */
  readonly p50Us: number;
  readonly p99Us: number;
  readonly minUs: number;
  /** What the bus bandwidth is to the algorithm bandwidth; null at one rank, where it means nothing. */
  readonly busFactor: number | null;
  /** Wrong elements over all ranks; null when not checked. */
  readonly wrong: number | null;
  /** Elements that were compared, of all ranks. */
  readonly checked: number;
}
