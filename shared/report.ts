/** The report of a run, as `--json` writes it. */
import type { Mode, Platform, TransportName } from "./config.ts";
import type { ErrorCode } from "./errors.ts";
import type { Counters, PendingWait, QueueCounters } from "./messages.ts";

/** First cause of a failed run. Unknown parts are null. */
export interface Failure {
  rank: number | null;
  pid: number | null;
  host: string | null;
  code: ErrorCode;
  message: string;
  /** The call that the rank was in, e.g. `all_to_all #3`. */
  call: string | null;
  /** Of the rank's process, where it has ended. */
  exitCode: number | null;
  signal: string | null;
}

/** One rank's row. */
export interface RankReport {
  rank: number;
  pid: number | null;
  host: string | null;
  exitCode: number | null;
  signal: string | null;
  /** Counted where a frame is written or applied; null for a rank that could not report. */
  counters: Counters | null;
  /** Submission queues of indexed_all_to_all_v, by peer and lane. */
  queues: QueueCounters[];
  /** Waits that were pending when the group failed; empty after a good run. */
  waits: PendingWait[];
}

/** The whole report. */
export interface RunReport {
  ok: boolean;
  /** As the command line named it. */
  program: string;
  mode: Mode;
  platform: Platform;
  /** The platform's limits as they were in force. */
  lanesMax: number;
  sqDepth: number;
  nranks: number;
  epoch: number;
  transport: TransportName;
  wallMs: number;
  exitCode: number;
  failure: Failure | null;
  ranks: RankReport[];
}
