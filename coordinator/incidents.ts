/** What went wrong in a run, one row for each event that tells of it. */
import type { ErrorCode } from "../shared/errors.ts";
import { describeExit } from "./causes.ts";
import type { MonitorEvent } from "./monitor-events.ts";
import type { Roster } from "./roster.ts";

/** One thing that went wrong. Unknown parts are null. */
export interface Incident {
  readonly atMs: number;
  readonly rank: number | null;
  readonly pid: number | null;
  readonly host: string | null;
  readonly code: ErrorCode;
  readonly message: string;
  readonly call: string | null;
}

/** The incident that an event is, or undefined. The exits that we ordered and calls that were told to end are none. */
export function incidentOf(event: MonitorEvent, roster: Roster): Incident | undefined {
  const { atMs } = event;
  switch (event.type) {
    case "rank_failed": {
      const { rank, error, call } = event;
      if (error.code === "ERR_GROUP_ENDED") return undefined;
      const { pid, host } = roster.rank(rank);
      return { atMs, rank, pid, host, code: error.code, message: error.message, call };
    }
    case "rank_exited": {
      const { rank, pid, host, exit, goodbye } = roster.rank(event.rank);
      if (exit === null || exit.ordered || (goodbye && exit.exitCode === 0)) return undefined;
      const code = exit.signal === null ? "ERR_RANK_EXITED" : "ERR_RANK_KILLED";
      return { atMs, rank, pid, host, code, message: describeExit(exit), call: null };
    }
    case "rank_stopped": {
      const { rank, host } = roster.rank(event.rank);
      const message = "its process is stopped";
      return { atMs, rank, pid: event.pid, host, code: "ERR_RANK_STOPPED", message, call: null };
    }
    case "link_cut": {
      const { rank, pid, host } = roster.rank(event.peer);
      const message = `nothing comes from it to rank ${event.rank}`;
      return { atMs, rank, pid, host, code: "ERR_PEER_LOST", message, call: null };
    }
    case "supervisor_failed": {
      const { pid, host } = roster.supervisor(event.supervisor);
      return { atMs, rank: null, pid, host, code: event.error.code, message: event.error.message, call: null };
    }
    case "supervisor_lost": {
      const { pid, host } = roster.supervisor(event.supervisor);
      return { atMs, rank: null, pid, host, code: "ERR_HOST_LOST", message: event.reason, call: null };
    }
    case "interrupted":
      return {
        atMs,
        rank: null,
        pid: null,
        host: null,
        code: "ERR_INTERRUPTED",
        message: `the coordinator got ${event.signal}`,
        call: null,
      };
    default:
      return undefined;
  }
}
