/**
 * The one error class, and the table of every code it can carry.
 *
 * A code is stable and survives the wire; match on it, not on the message. `docs/reference/errors.md` is
 * generated from the table.
 */
import { inspect } from "node:util";

/** Every error code with its sentence. */
export const errorTable = {
  // the command line and the rendezvous
  ERR_USAGE: "The command line is wrong: an unknown option, a missing or a contradictory value.",
  ERR_PROGRAM_NOT_FOUND: "The program is neither a built-in name nor a readable file.",
  ERR_PROGRAM_SYNTAX:
    "The program does not parse or imports something that cannot be found; the message names file and line.",
  ERR_PROGRAM_INVALID: "The program has no default export `main(comm)`, or does not declare the mode asked for.",
  ERR_PORT_IN_USE: "The port to listen on is taken by another process.",
  ERR_COORDINATOR_UNREACHABLE: "No coordinator answered at the given address before the join deadline.",
  ERR_COORDINATOR_LOST: "The control link to the coordinator broke, so the rank or its supervisor ended itself.",
  ERR_UNAUTHORIZED: "The job token is missing or wrong (HTTP 401).",
  ERR_TLS: "A certificate was not accepted, or only one end of a connection speaks TLS.",
  ERR_PROTOCOL_VERSION: "The two ends of a connection speak different versions of the protocol.",
  ERR_FOREIGN_JOB: "A connection belongs to another job.",
  ERR_STALE_EPOCH: "A connection or frame belongs to an earlier epoch of this job.",
  ERR_DUPLICATE_RANK: "A second process joined as a rank that has already joined.",
  ERR_BAD_HELLO: "The first message of a connection was not a valid hello.",
  ERR_HELLO_TIMEOUT: "A connection did not say hello in time.",
  ERR_BAD_MESSAGE: "A control message does not have the form that the protocol prescribes.",
  ERR_LIMIT: "A named limit would be exceeded; the message says which one.",
  ERR_JOIN_TIMEOUT: "Not all ranks had joined when the join deadline passed; the message lists the missing ones.",
  ERR_TIMEOUT: "The whole run took longer than `--timeout`.",
  ERR_TEMP_DIR:
    "The temporary folder, or that for sockets, is full or cannot be used; the message says how to name another one.",
  ERR_FILE_WRITE: "A log or a report could not be written; how the job ended is not touched by it.",
  ERR_INTERRUPTED: "The run was ended by a signal to the command: SIGINT, SIGTERM or SIGHUP.",

  // arguments, checked before a byte moves
  ERR_INVALID_ARGUMENT: "An argument has the wrong type or a value outside its range.",
  ERR_PEER_RANGE: "A peer is not an integer in [0, nranks).",
  ERR_OUT_OF_BOUNDS: "A region, offset or cell lies outside its tensor, window or signal.",
  ERR_SHAPE_MISMATCH: "Two shapes that must agree do not.",
  ERR_DTYPE_MISMATCH: "Two dtypes that must agree do not.",
  ERR_SIZE_LIMIT: "A size is not a safe integer, or exceeds the limit named in the message.",
  ERR_NOT_CONTIGUOUS:
    "An array is strided or does not start at a multiple of its element size; only packed row-major views are taken.",
  ERR_NOT_A_WINDOW: "A peer's target must be a window: a private tensor was given.",
  ERR_NOT_A_SIGNAL: "A signal was needed and something else given, or a put was aimed at a signal.",
  ERR_ALIASED_BUFFERS: "Two buffers that must differ share memory.",
  ERR_NAME_IN_USE: "A live window or signal of the group already has this name.",
  ERR_FOREIGN_GROUP: "A window or signal belongs to another group than the one it was used in.",
  ERR_NOT_MEMBER: "The calling rank is not in the list of ranks of the group it asked for.",
  ERR_WINDOW_FREED: "The window or signal has been freed.",
  ERR_QUEUE_FULL: "Too many frames wait on one link: puts and notifies were issued without being awaited.",

  // signals, collectives and data
  ERR_SIGNAL_NOT_CLEAN: "A builtin was given a signal with a nonzero cell last changed by Set; it would pass at once.",
  ERR_NOTIFY_MIXED: "Set and AtomicAdd met on one cell with no satisfied wait in between.",
  ERR_WAIT_TIMEOUT: "A wait passed its deadline; the message names the cell, its value and the value awaited.",
  ERR_UNSUPPORTED: "The platform profile, dtype or queue mode does not support the call; the message says what does.",
  ERR_QUEUE_DEPTH: "A transfer does not fit the submission queue of its peer; the message says which depth would do.",
  ERR_QUEUE_CONFLICT: "Two indexed_all_to_all_v calls in flight on one rank would share submission queues.",
  ERR_BUFFER_CONFLICT:
    "Two calls in flight use the same buffer on different signals and neither was told to run after the other.",
  ERR_MISMATCH: "The ranks of a group disagree about a collective call; the table has a row per rank.",
  ERR_WRONG_DATA: "A checked tensor does not equal its golden.",

  // the group and its links
  ERR_BAD_FRAME: "A peer sent a frame that cannot be decoded or that makes no sense where it came.",
  ERR_FRAME_BOUNDS: "A peer sent a frame that would land outside its window or signal.",
  ERR_FRAME_TOO_LARGE: "A peer sent a frame above the frame limit.",
  ERR_PEER_LOST: "The link to a peer closed without a goodbye.",
  ERR_HOST_LOST: "The supervisor of a host vanished or stopped answering.",
  ERR_RANK_EXITED: "A rank's process exited before it had said goodbye.",
  ERR_RANK_STOPPED: "A rank's process was stopped (SIGSTOP) and did not go on within `--liveness`.",
  ERR_RANK_KILLED: "A rank's process was ended by a signal.",
  ERR_PROGRAM_THREW: "The program threw, in `main` or where nobody catches, what is not an error of Rankwise's own.",
  ERR_GROUP_ENDED: "The group has ended; `cause` carries the first cause.",
  ERR_INTERNAL: "An invariant of Rankwise itself does not hold; please report it.",
} as const;

/** A stable error code, `ERR_…`. */
export type ErrorCode = keyof typeof errorTable;

/** What an error is about, as far as it is known. All numbers are ranks, indices or bytes. */
export interface ErrorContext {
  readonly rank?: number;
  readonly peer?: number;
  readonly window?: string;
  readonly offset?: number | readonly number[];
  readonly collective?: string;
  readonly group?: readonly number[];
  readonly seq?: number;
  /** Ranks that had not arrived. */
  readonly missing?: readonly number[];
  readonly argument?: string;
}

/** The form in which an error crosses a process border. */
export interface WireError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly context: ErrorContext;
}

/**
 * The one error class of Rankwise.
 *
 * `code` is stable; `message` says what was expected, what was got, where, and what to do; `context` carries the
 * same facts typed; `cause`, where present, is the first cause.
 *
 * @example
 * ```ts
 * import { RankwiseError } from "rankwise";
 *
 * export function lostPeer(error: unknown): number | undefined {
 *   return error instanceof RankwiseError && error.code === "ERR_PEER_LOST" ? error.context.peer : undefined;
 * }
 * ```
 */
export class RankwiseError extends Error {
  override readonly name = "RankwiseError";
  readonly code: ErrorCode;
  readonly context: ErrorContext;

  constructor(code: ErrorCode, message: string, context: ErrorContext = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.context = context;
  }
}

/** Longest message that crosses a process border; a longer one is cut. */
const WIRE_MESSAGE_LENGTH_MAX = 60_000;

/** The wire form of any thrown value; one that is not a `RankwiseError` becomes `ERR_PROGRAM_THREW`. */
export function toWireError(error: unknown): WireError {
  if (error instanceof RankwiseError) {
    return { code: error.code, message: cut(error.message), context: wireContext(error.context) };
  }
  const message = textOf(error);
  return { code: "ERR_PROGRAM_THREW", message: cut(message), context: {} };
}

/** Longest text of a context that crosses a process border. */
const WIRE_CONTEXT_LENGTH_MAX = 1000;

/** A context without what its reader's schema would refuse: numbers that are none, and endless texts. */
function wireContext(context: ErrorContext): ErrorContext {
  const entries = Object.entries(context as Record<string, unknown>).flatMap(([key, value]): [string, unknown][] => {
    if (typeof value === "string") return [[key, value.slice(0, WIRE_CONTEXT_LENGTH_MAX)]];
    const numbers: unknown[] = Array.isArray(value) ? value : [value];
    return numbers.every((number) => Number.isFinite(number)) ? [[key, value]] : [];
  });
  return Object.fromEntries(entries);
}

function cut(message: string): string {
  return message.length <= WIRE_MESSAGE_LENGTH_MAX ? message : `${message.slice(0, WIRE_MESSAGE_LENGTH_MAX)} …`;
}

/** What was thrown, as people look for it; it need not be an error, nor even have a text. */
function textOf(thrown: unknown): string {
  try {
    if (thrown instanceof Error) {
      const { stack, message }: { stack?: unknown; message: unknown } = thrown; // a program may have set them
      return String(stack ?? message);
    }
    return `thrown was ${inspect(thrown)}, which is no Error and so tells no place; throw new Error(…)`;
  } catch {
    return `thrown was a value of type ${typeof thrown} without a text`;
  }
}

/** The error that a wire form describes. */
export function fromWireError(wire: WireError): RankwiseError {
  return new RankwiseError(wire.code, wire.message, wire.context);
}

/** Whether a string is one of the codes of the table. */
export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(errorTable, code);
}
