/** The report of a run, as `--json` writes it. */
import type { Mode, Platform, TransportName } from "./config.ts";
import type { ErrorCode } from "./errors.ts";
import type { Counters, PendingWait, ProcessState, QueueCounters } from "./messages.ts";

/** First cause of a failed run. Unknown parts are null. */
export interface Failure {
  rank: number | null;
  pid: number | null;
  host: string | null;
  code: ErrorCode;
  message: string;
  /** The call that the rank was in, e.g. `all_to_all #3`. */
  call: string | null;
  /** When it was noticed, in milliseconds from the start of the coordinator. */
  atMs: number;
  /** Of the rank's process, where it has ended. */
  exitCode: number | null;
  signal: string | null;
  /** Files of the rank's output, where `--log-dir` asked for them. */
  logs: string[];
}

/** Something else that went wrong, in order of arrival. Unknown parts are null. */
export interface Consequence {
  atMs: number;
  rank: number | null;
  pid: number | null;
  host: string | null;
  code: ErrorCode;
  message: string;
  call: string | null;
}

/** An earlier epoch of a group that was restarted. */
export interface EpochReport {
  epoch: number;
  wallMs: number;
  failure: Failure;
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
  /** What its process was doing when the group failed; null after a good run and where nobody could look. */
  process: ProcessState | null;
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
  /** The last one. */
  epoch: number;
  transport: TransportName;
  wallMs: number;
  exitCode: number;
  failure: Failure | null;
  consequences: Consequence[];
  /** Failed epochs before the last one, the first of them first. */
  epochs: EpochReport[];
  ranks: RankReport[];
}
