/** Causes of a failure, worded, and the exit code that each stands for. */
import { constants } from "node:os";
import { EXIT_CODES } from "../shared/constants.ts";
import type { ErrorCode, WireError } from "../shared/errors.ts";
import type { Cause } from "../shared/messages.ts";
import type { RankEntry, SupervisorEntry } from "./roster.ts";

/** How a process ended. */
export interface Ending {
  readonly exitCode: number | null;
  readonly signal: string | null;
}

/** `exited with 7` or `was killed by SIGKILL`. */
export function describeExit(exit: Ending): string {
  return exit.signal === null ? `exited with ${exit.exitCode ?? "an unknown code"}` : `was killed by ${exit.signal}`;
}

/** The cause that the end of a rank's process is. */
export function exitCause(entry: RankEntry): Cause {
  const { rank, pid, host, goodbye } = entry;
  const exit = entry.exit ?? { exitCode: null, signal: null };
  const when = goodbye ? "after its goodbye, while the group still ran" : "before its goodbye";
  const code = exit.signal === null ? "ERR_RANK_EXITED" : "ERR_RANK_KILLED";
  return { rank, pid, host, code, message: `rank ${rank} ${describeExit(exit)} ${when}`, call: null };
}

/** The cause that a stopped process is. */
export function stoppedCause({ rank, host }: RankEntry, pid: number, stoppedMs: number): Cause {
  const message = `rank ${rank} (pid ${pid}) is stopped, and has been for ${(stoppedMs / 1000).toFixed(1)} s (--liveness); SIGCONT would let it go on`;
  return { rank, pid, host, code: "ERR_RANK_STOPPED", message, call: null };
}

/** The cause that a link is over which nothing comes any more, though both its ends live. */
export function linkCutCause({ rank: peer, pid, host }: RankEntry, rank: number, silentMs: number): Cause {
  const message = `nothing has come from rank ${peer} to rank ${rank} for ${(silentMs / 1000).toFixed(1)} s, though both answer the coordinator: the link between them is cut`;
  return { rank: peer, pid, host, code: "ERR_PEER_LOST", message, call: null };
}

/** The cause that the loss of a host is, naming its ranks. */
export function hostLostCause(supervisor: SupervisorEntry, reason: string): Cause {
  const { host, pid, ranks } = supervisor;
  const named = `rank${ranks.length === 1 ? "" : "s"} ${ranks.join(", ")}`;
  const message = `the supervisor of host ${host} (${named}) is lost: ${reason}`;
  return { rank: null, pid, host, code: "ERR_HOST_LOST", message, call: null };
}

/** The cause that a stop of the coordinator is that made its ranks give it up. */
export function stalledCause(stallMs: number): Cause {
  const message = `the coordinator was stopped for ${(stallMs / 1000).toFixed(1)} s, so its ranks heard nothing of it for --liveness and ended themselves`;
  return jobCause({ code: "ERR_COORDINATOR_LOST", message, context: {} }, null);
}

/** Whether a cause is what a stalled coordinator sees of ranks that have given it up; `exit` is how the rank ended. */
export function followsFromStall({ code }: Pick<Cause, "code">, exit: Ending | null): boolean {
  if (code === "ERR_RANK_EXITED") return exit?.exitCode === EXIT_CODES.failure;
  if (code === "ERR_RANK_KILLED") return exit?.signal === "SIGKILL";
  return code === "ERR_PEER_LOST" || code === "ERR_HOST_LOST" || code === "ERR_COORDINATOR_LOST";
}

/** An error of the job or of a host's supervisor as a cause. */
export function jobCause(error: WireError, host: string | null): Cause {
  return { rank: null, pid: null, host, code: error.code, message: error.message, call: null };
}

/** The cause that a signal to the coordinator is. */
export function interruptedCause(signal: string): Cause {
  return jobCause({ code: "ERR_INTERRUPTED", message: `the coordinator got ${signal}`, context: {} }, null);
}

/** The cause that the end of `--timeout` is. */
export function timeoutCause(timeoutMs: number): Cause {
  const message = `the run took longer than ${timeoutMs / 1000} s (--timeout)`;
  return jobCause({ code: "ERR_TIMEOUT", message, context: {} }, null);
}

/**
 * The exit code of the command line for a cause: that of the error's kind, or the rank's own.
 * `exit` is how the rank ended, where it has; `interrupt` the signal that the coordinator got, if any.
 */
export function exitCodeOf(
  cause: Pick<Cause, "code"> & Partial<Pick<Cause, "rank">>,
  exit: Ending | null,
  interrupt?: string,
): number {
  // a limit that a rank's program ran into is that rank's failure; one that kept somebody out is the rendezvous's
  if (cause.code === "ERR_LIMIT" && typeof cause.rank === "number") return EXIT_CODES.failure;
  if (cause.code === "ERR_RANK_KILLED") return 128 + signalNumber(exit?.signal);
  if (cause.code === "ERR_RANK_EXITED") return exit?.exitCode || EXIT_CODES.failure;
  if (cause.code === "ERR_INTERRUPTED") {
    return interrupt === undefined ? EXIT_CODES.terminated : 128 + signalNumber(interrupt);
  }
  return exitCodes[cause.code] ?? EXIT_CODES.failure;
}

/** Whether a group that failed for this cause may be started again: a rank or its host failed, nothing else. */
export function isRestartable({ code }: Pick<Cause, "code">): boolean {
  return code !== "ERR_INTERRUPTED" && exitCodes[code] === undefined;
}

/** Exit codes of errors that are no rank's own failure; every other is `EXIT_CODES.failure`. */
const exitCodes: Partial<Record<ErrorCode, number>> = {
  ERR_USAGE: EXIT_CODES.usage,
  ERR_PROGRAM_NOT_FOUND: EXIT_CODES.usage,
  ERR_PROGRAM_SYNTAX: EXIT_CODES.usage,
  ERR_PROGRAM_INVALID: EXIT_CODES.usage,
  ERR_PORT_IN_USE: EXIT_CODES.rendezvous,
  ERR_COORDINATOR_UNREACHABLE: EXIT_CODES.rendezvous,
  ERR_UNAUTHORIZED: EXIT_CODES.rendezvous,
  ERR_TLS: EXIT_CODES.rendezvous,
  ERR_PROTOCOL_VERSION: EXIT_CODES.rendezvous,
  ERR_FOREIGN_JOB: EXIT_CODES.rendezvous,
  ERR_STALE_EPOCH: EXIT_CODES.rendezvous,
  ERR_DUPLICATE_RANK: EXIT_CODES.rendezvous,
  ERR_BAD_HELLO: EXIT_CODES.rendezvous,
  ERR_HELLO_TIMEOUT: EXIT_CODES.rendezvous,
  ERR_LIMIT: EXIT_CODES.rendezvous,
  ERR_JOIN_TIMEOUT: EXIT_CODES.rendezvous,
  ERR_TEMP_DIR: EXIT_CODES.rendezvous,
  ERR_FILE_WRITE: EXIT_CODES.fileWrite,
  ERR_TIMEOUT: EXIT_CODES.timeout,
};

function signalNumber(signal: string | null | undefined): number {
  const numbers: Readonly<Record<string, number>> = constants.signals;
  return (signal === null || signal === undefined ? undefined : numbers[signal]) ?? 0;
}
