/** What the monitor is told, and what it wants done. */
import type { WireError } from "../shared/errors.ts";
import type { Cause, ProcessState, RankState } from "../shared/messages.ts";

/** Signals that interrupt a run. */
export type Interrupt = "SIGINT" | "SIGTERM" | "SIGHUP";

/** What happens to a group. */
export type MonitorEvent = { readonly atMs: number } & (
  | {
      readonly type: "supervisor_joined";
      readonly supervisor: number;
      readonly host: string;
      readonly pid: number;
      readonly ranks: readonly number[];
    }
  | { readonly type: "spawned"; readonly rank: number; readonly pid: number }
  | { readonly type: "rank_joined"; readonly rank: number; readonly pid: number; readonly host: string }
  | {
      readonly type: "rank_failed";
      readonly rank: number;
      readonly error: WireError;
      readonly call: string | null;
      readonly suspect: number | null;
    }
  | { readonly type: "rank_link_closed"; readonly rank: number }
  | {
      readonly type: "rank_exited";
      readonly rank: number;
      readonly exitCode: number | null;
      readonly signal: string | null;
    }
  | { readonly type: "rank_stopped"; readonly rank: number; readonly pid: number; readonly stoppedMs: number }
  | {
      readonly type: "rank_states";
      readonly states: readonly { readonly rank: number; readonly state: ProcessState }[];
    }
  /** Two ranks live, and yet nothing comes from one to the other. */
  | { readonly type: "link_cut"; readonly rank: number; readonly peer: number; readonly silentMs: number }
  /** What a rank is doing, because it was asked. */
  | { readonly type: "state"; readonly rank: number; readonly state: RankState }
  | { readonly type: "goodbye"; readonly rank: number; readonly state: RankState }
  | { readonly type: "last_words"; readonly rank: number; readonly state: RankState }
  | { readonly type: "supervisor_failed"; readonly supervisor: number; readonly error: WireError }
  | { readonly type: "supervisor_lost"; readonly supervisor: number; readonly reason: string }
  | { readonly type: "cleared"; readonly supervisor: number }
  | { readonly type: "rendezvous_failed"; readonly error: WireError }
  /** The coordinator itself did not run for so long, until just now. */
  | { readonly type: "stalled"; readonly stallMs: number }
  | { readonly type: "interrupted"; readonly signal: Interrupt }
  | { readonly type: "tick" }
);

/** What a monitor wants done: `abort` and `end` go to every joined rank, `terminate` to every supervisor left. */
export type MonitorCommand =
  | { readonly type: "abort"; readonly cause: Cause }
  | { readonly type: "end" }
  | { readonly type: "terminate"; readonly graceMs: number }
  | { readonly type: "finished"; readonly exitCode: number };
