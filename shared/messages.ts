/**
 * Every control message, as a schema. Control runs over one WebSocket from each rank and each supervisor to the
 * coordinator; messages are msgpack maps with a `type`.
 *
 * ```text
 * supervisor → coordinator   join_supervisor, spawned, exited, rank_stopped, rank_states, supervisor_failed, cleared
 * coordinator → supervisor   assign, ask_state, terminate, finished
 * rank       → coordinator   join_rank, ready, state, link_silent, failed, last_words, goodbye
 * coordinator → rank         start, go, ask_state, abort, end
 * ```
 */
import * as v from "valibot";
import { ALLOCATIONS_MAX, DIMENSIONS_MAX, NAME_LENGTH_MAX, RANKS_MAX, SOCKET_PATH_BYTES_MAX } from "./constants.ts";
import { type DType, isDType } from "./dtype.ts";
import { type ErrorCode, isErrorCode } from "./errors.ts";

const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const rankIndex = v.pipe(count, v.maxValue(RANKS_MAX - 1));
const nranks = v.pipe(count, v.minValue(1), v.maxValue(RANKS_MAX));
const text = v.pipe(v.string(), v.maxLength(65_536));
const shortText = v.pipe(v.string(), v.maxLength(1024));
const ranks = v.pipe(v.array(rankIndex), v.maxLength(RANKS_MAX));
const numbers = v.pipe(v.array(v.number()), v.readonly());
const dtype = v.custom<DType>(isDType, "no dtype");

/** Where a rank listens: `ws://host:port`, `unix:/path` or `inproc:rank`. */
const address = v.pipe(
  v.string(),
  v.maxLength(Math.max(300, SOCKET_PATH_BYTES_MAX + 5)),
  v.regex(/^(wss?:\/\/|unix:|inproc:)/u),
);

const wireError = v.object({
  code: v.custom<ErrorCode>((code) => typeof code === "string" && isErrorCode(code), "no error code"),
  message: text,
  context: v.object({
    rank: v.exactOptional(v.number()),
    peer: v.exactOptional(v.number()),
    window: v.exactOptional(shortText),
    offset: v.exactOptional(v.union([v.number(), numbers])),
    collective: v.exactOptional(shortText),
    group: v.exactOptional(numbers),
    seq: v.exactOptional(v.number()),
    missing: v.exactOptional(numbers),
    argument: v.exactOptional(shortText),
  }),
});

const counters = v.object({
  puts: count,
  gets: count,
  notifies: count,
  waits: count,
  barriers: count,
  /** Counts of all_to_all_v that lay outside [0, M] and were clamped. */
  clampedCounts: count,
  /** Copies of rows that indexed_all_to_all_v kept on their rank, each of one or more consecutive rows. */
  coalescedCopies: count,
  payloadBytesSent: count,
  payloadBytesReceived: count,
  framesSent: count,
  wireBytesSent: count,
});

/** A wait that had not been satisfied, as a row of the wait table. */
const pendingWait = v.object({
  /** The call that waits, e.g. `all_to_all #3` or `signal.wait`. */
  call: shortText,
  group: ranks,
  seq: count,
  lane: count,
  /** Name of the signal or window. */
  signal: shortText,
  /** Offsets of the cell; empty when no cell is awaited. */
  cell: v.array(v.number()),
  compare: shortText,
  expected: v.number(),
  current: v.number(),
  lastWriter: v.nullable(rankIndex),
  /** Ranks that have not arrived. */
  missing: ranks,
  ageMs: v.number(),
});

/** A collective call that a rank is in. */
const currentCall = v.object({
  op: shortText,
  group: ranks,
  groupOrdinal: count,
  seq: count,
  /** The arguments that every rank must agree on, one text. */
  arguments: text,
});

/** The submission queue of one lane to one peer, counted where an entry is encoded or a doorbell is written. */
const queueCounters = v.object({
  peer: rankIndex,
  lane: count,
  /** WRITE entries. */
  sqes: count,
  /** The head: slots of work queue basic blocks, four for an entry. */
  wqebbs: count,
  doorbells: count,
  /** Completions: one for each transfer that was not empty. */
  cqes: count,
  submittedWqeCount: count,
});

/** The outcome of one rank's part, which its counters and open calls at the end are. */
const rankState = v.object({
  counters,
  queues: v.array(queueCounters),
  calls: v.array(currentCall),
  waits: v.array(pendingWait),
});

/**
 * What the operating system says of a rank's process: it computes or waits for the disk, it waits, or it was stopped.
 * Unknown where there is no `/proc`.
 */
const processState = v.picklist(["busy", "sleeping", "stopped", "unknown"]);

/** Where the ranks of the job run: on how many hosts, and on how many processors where those are fewest. */
const placement = v.object({ hosts: v.pipe(count, v.minValue(1)), processors: v.pipe(count, v.minValue(1)) });

/** The first cause of a failure. */
const cause = v.object({
  rank: v.nullable(rankIndex),
  pid: v.nullable(count),
  host: v.nullable(shortText),
  code: wireError.entries.code,
  message: text,
  /** The call that the rank was in, or null. */
  call: v.nullable(shortText),
});

const program = v.variant("kind", [
  v.object({ kind: v.literal("builtin"), name: shortText }),
  v.object({ kind: v.literal("file"), path: v.pipe(v.string(), v.maxLength(4096)) }),
]);

const job = {
  job: shortText,
  epoch: count,
};

/** What every rank of the job is told, the same on each. */
const settings = v.object({
  nranks,
  mode: v.picklist(["hand", "builtin", "host"]),
  platform: v.picklist(["a2a3sim", "a5sim"]),
  transport: v.picklist(["auto", "tcp", "unix", "inproc"]),
  args: v.array(text),
  /** Seed of everything that is drawn by chance. */
  seed: count,
  /** Instead of the platform profile's, or null. */
  lanesMax: v.nullable(count),
  sqDepth: v.nullable(count),
  waitTimeoutMs: count,
  joinTimeoutMs: count,
  graceMs: count,
  livenessMs: count,
});

const hello = { version: count };

export const messageSchemas = {
  join_supervisor: v.object({
    ...hello,
    type: v.literal("join_supervisor"),
    /** Ranks that this supervisor can start. */
    slots: nranks,
    host: shortText,
    pid: count,
  }),
  join_rank: v.object({
    ...hello,
    ...job,
    type: v.literal("join_rank"),
    rank: rankIndex,
    host: shortText,
    pid: count,
    address,
    /** Of its host, as far as this rank may use them. */
    processors: v.pipe(count, v.minValue(1)),
  }),

  assign: v.object({
    ...job,
    type: v.literal("assign"),
    /** The ranks to start, ascending. */
    ranks,
    program,
    /** Environment variables for the ranks, over the supervisor's own. */
    env: v.record(v.string(), text),
    settings,
  }),
  spawned: v.object({ ...job, type: v.literal("spawned"), rank: rankIndex, pid: count }),
  exited: v.object({
    ...job,
    type: v.literal("exited"),
    rank: rankIndex,
    pid: count,
    exitCode: v.nullable(v.number()),
    signal: v.nullable(shortText),
  }),
  /** The process of a rank is stopped, and has been for most of `--liveness`. */
  rank_stopped: v.object({ ...job, type: v.literal("rank_stopped"), rank: rankIndex, pid: count, stoppedMs: count }),
  /** What the processes of ranks were doing: the answer to `ask_state`, and sent before they are ended. */
  rank_states: v.object({
    ...job,
    type: v.literal("rank_states"),
    states: v.array(v.object({ rank: rankIndex, state: processState })),
  }),
  /** The supervisor cannot go on: its ranks could not be started, or it was interrupted. */
  supervisor_failed: v.object({ ...job, type: v.literal("supervisor_failed"), error: wireError }),
  /** End all ranks: SIGTERM, grace, SIGKILL, to whole process groups. */
  terminate: v.object({ ...job, type: v.literal("terminate"), graceMs: count }),
  /** No process of this epoch is left on the supervisor's host. */
  cleared: v.object({ ...job, type: v.literal("cleared") }),
  /** The job is over; the supervisor leaves once the coordinator has. */
  finished: v.object({ type: v.literal("finished"), exitCode: count }),

  start: v.object({
    ...job,
    type: v.literal("start"),
    /** Address of each rank, by rank. */
    addresses: v.array(address),
    placement,
    settings,
  }),
  ready: v.object({ ...job, type: v.literal("ready") }),
  go: v.object({ ...job, type: v.literal("go") }),
  /** What are you doing? Ranks answer with `state`, supervisors with `rank_states`. */
  ask_state: v.object({ ...job, type: v.literal("ask_state") }),
  state: v.object({ ...job, type: v.literal("state"), state: rankState }),
  /** Nothing comes from a peer although it was asked; sent again while that is so. A peer that computes is silent, too. */
  link_silent: v.object({ ...job, type: v.literal("link_silent"), peer: rankIndex, silentMs: count }),
  /** Something failed in this rank, or this rank saw it fail. `suspect` is the rank it accuses, if another. */
  failed: v.object({
    ...job,
    type: v.literal("failed"),
    error: wireError,
    call: v.nullable(shortText),
    suspect: v.nullable(rankIndex),
  }),
  /** The group has failed: every pending call rejects with `ERR_GROUP_ENDED` and this cause. */
  abort: v.object({ ...job, type: v.literal("abort"), cause }),
  /** What a rank can still tell after an abort. */
  last_words: v.object({ ...job, type: v.literal("last_words"), state: rankState }),
  /** `main` has resolved and everything sent has been applied. */
  goodbye: v.object({ ...job, type: v.literal("goodbye"), state: rankState }),
  /** Every rank has said goodbye. */
  end: v.object({ ...job, type: v.literal("end") }),
} as const;

/** Type name of a control message. */
export type MessageType = keyof typeof messageSchemas;

/** A control message, by its type name. */
export type MessageOf<T extends MessageType> = v.InferOutput<(typeof messageSchemas)[T]>;

/** Any control message. */
export type Message = { [T in MessageType]: MessageOf<T> }[MessageType];

export type Settings = v.InferOutput<typeof settings>;
export type Program = v.InferOutput<typeof program>;
export type Counters = v.InferOutput<typeof counters>;
export type PendingWait = v.InferOutput<typeof pendingWait>;
export type CurrentCall = v.InferOutput<typeof currentCall>;
export type QueueCounters = v.InferOutput<typeof queueCounters>;
export type RankState = v.InferOutput<typeof rankState>;
export type ProcessState = v.InferOutput<typeof processState>;
export type Cause = v.InferOutput<typeof cause>;

/** First message on a link, from the side that dialled. A `peer` receives on this link; a `client` writes and has no rank. */
export const linkHelloSchema = v.variant("role", [
  v.object({ ...hello, ...job, role: v.literal("peer"), rank: rankIndex }),
  v.object({ ...hello, job: shortText, role: v.literal("client") }),
]);
export type LinkHello = v.InferOutput<typeof linkHelloSchema>;

/** Payload of a publish frame: the allocation that every rank of the group must agree on. */
export const publicationSchema = v.object({
  members: ranks,
  groupOrdinal: count,
  kind: v.picklist(["window", "signal"]),
  name: v.pipe(v.string(), v.minLength(1), v.maxLength(NAME_LENGTH_MAX)),
  ordinal: v.pipe(count, v.maxValue(ALLOCATIONS_MAX - 1)),
  dtype,
  shape: v.pipe(v.array(count), v.maxLength(DIMENSIONS_MAX)),
});
export type Publication = v.InferOutput<typeof publicationSchema>;

/** Counters of a rank that has done nothing. */
export function zeroCounters(): Counters {
  return {
    puts: 0,
    gets: 0,
    notifies: 0,
    waits: 0,
    barriers: 0,
    clampedCounts: 0,
    coalescedCopies: 0,
    payloadBytesSent: 0,
    payloadBytesReceived: 0,
    framesSent: 0,
    wireBytesSent: 0,
  };
}
