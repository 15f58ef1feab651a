/** Settings as people write them: durations, platform profiles, and the environment that carries them to a rank. */
import { RankwiseError } from "./errors.ts";

/** What a platform profile fixes; the figures are those of PyPTO's simulators. */
export interface PlatformProfile {
  /** Most lanes of one launch. */
  readonly lanesMax: number;
  /** Whether indexed_all_to_all_v exists there. */
  readonly indexed: boolean;
  /** WQEBBs that the submission queue to one peer holds. */
  readonly sqDepth: number;
}

/** The platform profiles that `-p` names. */
export const platforms = {
  a2a3sim: { lanesMax: 48, indexed: false, sqDepth: 0 },
  a5sim: { lanesMax: 36, indexed: true, sqDepth: 256 },
} as const satisfies Record<string, PlatformProfile>;

/** Name of a platform profile. */
export type Platform = keyof typeof platforms;

/** The three ways to run a collective. */
export const modes = ["hand", "builtin", "host"] as const;
/** One of the three ways to run a collective. */
export type Mode = (typeof modes)[number];

/** How ranks reach each other. `auto` takes Unix sockets for ranks under one supervisor and TCP for the others. */
export const transports = ["auto", "tcp", "unix", "inproc"] as const;
export type TransportName = (typeof transports)[number];

/** Variables by which a supervisor tells a rank who it is. The token travels only here, never on a command line. */
export const ENV = {
  coordinator: "RANKWISE_COORDINATOR",
  token: "RANKWISE_TOKEN",
  job: "RANKWISE_JOB",
  epoch: "RANKWISE_EPOCH",
  rank: "RANKWISE_RANK",
  nranks: "RANKWISE_NRANKS",
  program: "RANKWISE_PROGRAM",
  /** Address to listen on, and the name under which others reach it. */
  bind: "RANKWISE_BIND",
  advertise: "RANKWISE_ADVERTISE",
  /** Private directory for Unix sockets that ranks of one host share. */
  socketDir: "RANKWISE_SOCKET_DIR",
  /** `unix`, `tcp` or `inproc`, as the supervisor has settled it; with `inproc`, `rank` lists all ranks. */
  transport: "RANKWISE_TRANSPORT",
  joinTimeoutMs: "RANKWISE_JOIN_TIMEOUT_MS",
  /** PEM files, where links are to be wss. */
  tlsCert: "RANKWISE_TLS_CERT",
  tlsKey: "RANKWISE_TLS_KEY",
  tlsCa: "RANKWISE_TLS_CA",
  /** A fault for sabotage runs and drills; see `rank/faults.ts`. */
  testFault: "RANKWISE_TEST_FAULT",
  /** Folder where the ranks of a drill leave what its observer reads. */
  drillDir: "RANKWISE_DRILL_DIR",
} as const;

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/**
 * Milliseconds of a duration like `250ms`, `3s`, `10m`, `1h`, at least `leastMs`; a bare number is seconds.
 *
 * @throws {ERR_USAGE}
 */
export function parseDuration(option: string, value: string, leastMs = 0): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/u.exec(value.trim());
  const ms = match === null ? Number.NaN : Number(match[1]) * (unitMs[match[2] ?? "s"] ?? Number.NaN);
  if (!Number.isFinite(ms) || ms > 2 ** 31 - 1) {
    throw new RankwiseError(
      "ERR_USAGE",
      `${option}: ${JSON.stringify(value)} is no duration of at most 24 days; write 250ms, 3s, 10m or 1h`,
    );
  }
  if (Math.round(ms) < leastMs) {
    throw new RankwiseError("ERR_USAGE", `${option}: ${JSON.stringify(value)} is too short; at least ${leastMs}ms`);
  }
  return Math.round(ms);
}
