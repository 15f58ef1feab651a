/** A whole run in this process: a coordinator, and one supervisor that starts all ranks on this host. */
import { randomBytes } from "node:crypto";
import { readTls, type TlsFiles } from "../shared/auth.ts";
import { Coordinator, type CoordinatorOptions, type RunOutcome } from "./coordinator.ts";
import type { LineSink } from "./line-sink.ts";
import { Supervisor } from "./supervisor.ts";

/** A job to run on this host. */
export interface RunOptions extends Omit<CoordinatorOptions, "job" | "token" | "host" | "port" | "tls"> {
  readonly tls?: TlsFiles | undefined;
  /** Made up where there is none. */
  readonly token?: string | undefined;
  readonly cwd: string;
  readonly tagOutput: boolean;
  /** Where the ranks' output goes. */
  readonly sink: LineSink;
  /** Called once, with the coordinator to be told of signals. */
  readonly onStart: (coordinator: Pick<Coordinator, "interrupt" | "waitTable">) => void;
}

/**
 * Runs a job to its end. The outcome comes when no process, socket or file of the ranks is left; the coordinator still
 * listens then, and ends with this process.
 *
 * @throws {ERR_USAGE} when this host has no loopback address to listen on
 */
export async function runJob(options: RunOptions): Promise<RunOutcome> {
  const token = options.token ?? makeToken();
  const tls = options.tls === undefined ? undefined : readTls(options.tls);
  const coordinator = await Coordinator.start({ ...options, tls, job: makeJobId(), token, host: LOOPBACK, port: 0 });
  options.onStart(coordinator);
  const { cwd, tagOutput, logDir, sink, settings } = options;
  await Supervisor.join({
    url: `${tls === undefined ? "ws" : "wss"}://${LOOPBACK}:${coordinator.port}`,
    token,
    tls: options.tls,
    slots: settings.nranks,
    joinTimeoutMs: settings.joinTimeoutMs,
    bind: LOOPBACK,
    advertise: LOOPBACK,
    cwd,
    tagOutput,
    logDir,
    sink,
  });
  return coordinator.outcome;
}

/** A fresh id, unlikely ever to meet another job's. */
export function makeJobId(): string {
  return randomBytes(6).toString("hex");
}

function makeToken(): string {
  return randomBytes(32).toString("base64url");
}

const LOOPBACK = "127.0.0.1";
