/**
 * Every limit, size and time of Rankwise, each with a name. Imports nothing.
 *
 * Units stand last in a name: `Bytes`, `Ms`, `Max`.
 */

/** Version of the link and control protocols; both ends of a handshake must agree on it. */
export const PROTOCOL_VERSION = 3;

/** Length of the binary header that starts every data frame. See `frame.ts` for its layout. */
export const FRAME_HEADER_BYTES = 64;

/** Most payload one data frame carries; larger transfers are cut by the rank that sends them. */
export const FRAME_PAYLOAD_BYTES_MAX = 64 * 1024 * 1024;

/** A put of at most this many bytes is snapshotted at the call, and a get reply of at most this many is a snapshot. */
export const SNAPSHOT_BYTES_MAX = 4096;

/** Most bytes a link holds unflushed before further puts and notifies wait for their turn. */
export const LINK_QUEUE_BYTES_MAX = 1024 * 1024;

/** Most frames that may wait for their turn on one link; the caller that exceeds it forgot to await its puts. */
export const LINK_QUEUE_FRAMES_MAX = 65_536;

/** Most payload one rank has requested by get from one peer and not yet received. */
export const GET_IN_FLIGHT_BYTES_MAX = 64 * 1024 * 1024;

/** Largest window. */
export const WINDOW_BYTES_MAX = 4 * 1024 ** 3;

/** Most window memory of one rank, signals included. */
export const RANK_WINDOW_BYTES_MAX = 64 * 1024 ** 3;

/** The arena of a rank: windows and scratch that lie together in one shared WebAssembly memory. The rest has its own. */
export const ARENA_BYTES = 1024 ** 3;

/** Most windows and signals one group may allocate over its life. */
export const ALLOCATIONS_MAX = 65_536;

/** Most dimensions of a shape. */
export const DIMENSIONS_MAX = 8;

/** Longest name of a window or signal. */
export const NAME_LENGTH_MAX = 255;

/** Most ranks of one job. */
export const RANKS_MAX = 1024;

/** Most restarts of one group. */
export const RESTARTS_MAX = 1000;

/** Largest control message and largest handshake message. */
export const CONTROL_MESSAGE_BYTES_MAX = 4 * 1024 * 1024;
export const HELLO_BYTES_MAX = 4096;

/** Time a connection has, from its upgrade, to say hello. */
export const HELLO_TIMEOUT_MS = 5000;

/** Connections that may be open at one listener, of whatever kind. */
export const CONNECTIONS_MAX = 4096;

/** Connections that may stand in the handshake at once at one listener. */
export const HANDSHAKES_MAX = 256;

/** Foreign clients that one rank serves at once. */
export const CLIENTS_MAX = 64;

/** Longest path of a Unix-domain socket; the platform silently cuts longer ones and may reach the wrong rank. */
export const SOCKET_PATH_BYTES_MAX = 103;

/** Signal cells are INT32. */
export const INT32_MIN = -(2 ** 31);
export const INT32_MAX = 2 ** 31 - 1;

/** Most conditions of one deferred wait, as in PyPTO. */
export const DEFERRED_CONDITIONS_MAX = 64;

/** What one round of the allreduce mesh moves from each peer. */
export const MESH_CHUNK_BYTES = 8 * 1024 * 1024;

/** Elements of a tile: what is dealt to one lane at a time, as in PyPTO. */
export const LANE_TILE_ELEMENTS = 256;

/** Submission queues of indexed_all_to_all_v, as on a5: rows of one WRITE entry, WQEBBs of its slot, entries of a doorbell. */
export const SQE_ROWS_MAX = 12;
export const SQE_WQEBBS = 4;
export const DOORBELL_SQES_MAX = 64;

/** Rows of at least this many bytes leave from where they lie; shorter ones are merged by a copy first. */
export const GATHER_COPY_BYTES_MAX = 4096;

/** Staging of a lane for rows that stay on their rank. */
export const SELF_SLOTS = 8;
export const SELF_SLOT_BYTES = 8192;

/** Defaults of the deadlines that the command line sets. */
export const RUN_TIMEOUT_MS = 10 * 60_000;
export const JOIN_TIMEOUT_MS = 60_000;
export const WAIT_TIMEOUT_MS = 5 * 60_000;
export const GRACE_MS = 1000;
export const LIVENESS_MS = 3000;

/** Least `--liveness`: below it a busy machine alone makes everybody silent. */
export const LIVENESS_MS_MIN = 100;

/** Pings that a supervisor may leave unanswered; they are sent so often that one more is `--liveness` of silence. */
export const LIVENESS_MISSES_MAX = 3;

/** A stop of the coordinator or a supervisor so long, as a share of `--liveness`, may have cost it its peers: one ping early. */
export const STALL_SHARE = 0.7;

/** How long after such a stop news of lost peers are taken for its consequences. */
export const STALL_NEWS_MS = 1000;

/** How often a supervisor looks at the state of its ranks: so many times in `--liveness`. */
export const STATE_SAMPLES = 8;

/** Largest chunk that `auto` sends eagerly: above it, the copy at the receiver costs more than a ready round. */
export const EAGER_BYTES_MAX = 128 * 1024;

/** Largest row that `auto` sends through a hub: above it, the hub's copies cost more than the messages saved. */
export const HUB_BYTES_MAX = 4096;

/** Largest data of an allreduce by exchange under `auto`. */
export const ALLREDUCE_EXCHANGE_BYTES_MAX = 256 * 1024;

/** Largest data of an allreduce through a hub under `auto`. */
export const ALLREDUCE_HUB_BYTES_MAX = 512 * 1024;

/** Looks in a row that find a process stopped before it counts as stopped: named well within `--liveness`. */
export const STOPPED_SAMPLES = 6;

/** How often a rank that waits looks at its links: so many times in `--liveness`. */
export const LINK_LOOKS = 10;

/** Looks in a row that find nothing new on a link before it may count as cut: well within `--liveness`. */
export const LINK_CUT_LOOKS = 8;

/** Looks in a row that find nothing new on a link before its silence is reported, and reported again. */
export const LINK_SILENT_LOOKS = 3;

/** Peers that a rank probes at most at one look while it waits for anybody: waiting in a large group stays cheap. */
export const LINK_PROBES_MAX = 2;

/** How long ranks and supervisors have to answer what they are doing. */
export const STATE_ANSWER_MS = 300;

/** How long a rank that has a processor to itself looks for frames before it goes to sleep. */
export const POLL_MS = 0.05;

/** A look for frames that takes longer was interrupted. */
export const POLL_TURN_MS_MAX = 1;

/** How long a rank does not look for frames after that, at least. */
export const POLL_PAUSE_MS_MIN = 1;

/** The same, at most: the pause doubles when the next interruption comes within POLL_CALM_MS of its end. */
export const POLL_PAUSE_MS_MAX = 128;

/** See POLL_PAUSE_MS_MAX. */
export const POLL_CALM_MS = 10;

/** How often pending waits are looked at for their deadline. */
export const WAIT_SWEEP_MS = 50;

/** How long a failing check waits for its peers before it looks at the data again. */
export const RECHECK_MS = 2000;

/** How long the coordinator waits for a child's exit or own report before it believes what peers report about it. */
export const CAUSE_SETTLE_MS = 150;

/** The same, once ranks that all live accuse one another: a link between them broke, and hardly anything can come yet. */
export const CIRCLE_SETTLE_MS = 30;

/** How long ranks have, after the group has failed, to send their counters and pending waits. */
export const LAST_WORDS_MS = 200;

/** How long supervisors have, after the grace, to kill what is left and verify that it is gone. */
export const CLEAR_MS = 1000;

/** How long a supervisor that was told that the job is over waits for the coordinator to leave first, at most. */
export const DEPARTURE_TIMEOUT_MS = 10_000;

/** How much later than the coordinator a supervisor leaves: some engines stop all at the first exit. */
export const DEPARTURE_MS = 300;

/** How long a rank outlives a lost coordinator at most. */
export const ORPHAN_MS = 1500;

/** How long a coordinator that got SIGTERM waits for an earlier cause to show. */
export const SIGTERM_SETTLE_MS = 500;

/** Close codes of a refused or ended WebSocket; 4000–4999 are for applications (RFC 6455, section 7.4.2). */
export const CLOSE_CODES = {
  ERR_BAD_HELLO: 4400,
  ERR_FOREIGN_JOB: 4403,
  ERR_HELLO_TIMEOUT: 4408,
  ERR_DUPLICATE_RANK: 4409,
  ERR_STALE_EPOCH: 4410,
  ERR_PROTOCOL_VERSION: 4426,
  ERR_BAD_FRAME: 4422,
  ERR_LIMIT: 4429,
} as const;

/** Exit codes of the command line (a failing rank's own code comes before `failure`). */
export const EXIT_CODES = {
  ok: 0,
  failure: 1,
  usage: 2,
  rendezvous: 3,
  /** All went well, but a file that was asked for could not be written; EX_IOERR of sysexits(3). */
  fileWrite: 74,
  timeout: 124,
  hungUp: 129,
  interrupted: 130,
  terminated: 143,
} as const;
