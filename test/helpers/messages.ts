/** One valid control message of each type, with every optional part filled in. */
import { PROTOCOL_VERSION } from "../../shared/constants.ts";
import {
  type Cause,
  type MessageOf,
  type MessageType,
  type RankState,
  type Settings,
  zeroCounters,
} from "../../shared/messages.ts";

const job = { job: "job-1", epoch: 2 };

const settings: Settings = {
  nranks: 4,
  mode: "builtin",
  platform: "a5sim",
  transport: "unix",
  args: ["--size", "64"],
  seed: 9,
  waitTimeoutMs: 300_000,
  joinTimeoutMs: 60_000,
  graceMs: 1000,
  livenessMs: 3000,
  lanesMax: null,
  sqDepth: null,
};

const error = {
  code: "ERR_OUT_OF_BOUNDS",
  message: "put: rows [3, 5) exceed the window",
  context: {
    rank: 1,
    peer: 2,
    window: "data",
    offset: [3, 0],
    collective: "all_to_all",
    group: [0, 1, 2, 3],
    seq: 7,
    missing: [3],
    argument: "dstOffset",
  },
} as const;

const cause: Cause = {
  rank: 1,
  pid: 4711,
  host: "node-a",
  code: "ERR_RANK_KILLED",
  message: "rank 1 was ended by SIGKILL",
  call: "all_to_all #3",
};

const state: RankState = {
  counters: {
    ...zeroCounters(),
    puts: 1,
    payloadBytesSent: 2 ** 40,
    wireBytesSent: Number.MAX_SAFE_INTEGER,
  },
  queues: [{ peer: 1, lane: 0, sqes: 2, wqebbs: 8, doorbells: 1, cqes: 1, submittedWqeCount: 1 }],
  calls: [{ op: "all_to_all", group: [0, 1, 2, 3], groupOrdinal: 0, seq: 3, arguments: 'data "d" float32 [4, 64]' }],
  waits: [
    {
      call: "signal.wait",
      group: [0, 1, 2, 3],
      seq: 0,
      lane: 0,
      signal: "arrived",
      cell: [2, 0],
      compare: "ge",
      expected: -1,
      current: -2,
      lastWriter: null,
      missing: [2],
      ageMs: 12,
    },
  ],
};

export const sampleMessages: { readonly [T in MessageType]: MessageOf<T> } = {
  join_supervisor: { type: "join_supervisor", version: PROTOCOL_VERSION, slots: 4, host: "node-a", pid: 1 },
  join_rank: {
    type: "join_rank",
    version: PROTOCOL_VERSION,
    ...job,
    rank: 3,
    host: "node-a",
    pid: 2,
    address: "ws://[::1]:4000",
    processors: 4,
  },
  assign: {
    type: "assign",
    ...job,
    ranks: [0, 2],
    program: { kind: "file", path: "/opt/programs/ring.mjs" },
    env: { RANKWISE_SEED: "9", EMPTY: "" },
    settings,
  },
  spawned: { type: "spawned", ...job, rank: 0, pid: 3 },
  exited: { type: "exited", ...job, rank: 0, pid: 3, exitCode: null, signal: "SIGKILL" },
  rank_stopped: { type: "rank_stopped", ...job, rank: 2, pid: 4711, stoppedMs: 2250 },
  rank_states: {
    type: "rank_states",
    ...job,
    states: [
      { rank: 0, state: "sleeping" },
      { rank: 2, state: "busy" },
    ],
  },
  supervisor_failed: { type: "supervisor_failed", ...job, error: { ...error, context: { ...error.context } } },
  terminate: { type: "terminate", ...job, graceMs: 1000 },
  cleared: { type: "cleared", ...job },
  finished: { type: "finished", exitCode: 137 },
  start: {
    type: "start",
    ...job,
    addresses: ["ws://127.0.0.1:4000", "unix:/run/r/0", "wss://h:1"],
    placement: { hosts: 2, processors: 4 },
    settings,
  },
  ready: { type: "ready", ...job },
  go: { type: "go", ...job },
  ask_state: { type: "ask_state", ...job },
  state: { type: "state", ...job, state },
  link_silent: { type: "link_silent", ...job, peer: 2, silentMs: 900 },
  failed: { type: "failed", ...job, error: error, call: "put", suspect: 2 },
  abort: { type: "abort", ...job, cause },
  last_words: { type: "last_words", ...job, state },
  goodbye: { type: "goodbye", ...job, state },
  end: { type: "end", ...job },
};
