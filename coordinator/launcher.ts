/** Starts rank processes: each a process group of its own, told by its environment who it is. */
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import type { TlsFiles } from "../shared/auth.ts";
import { ENV } from "../shared/config.ts";
import type { MessageOf } from "../shared/messages.ts";
import { RankwiseError } from "../shared/errors.ts";
import type { Ending } from "./causes.ts";
import { distFolder } from "./installation.ts";
import type { RankStreams } from "./output.ts";

/** What the ranks of one supervisor have in common. */
export interface LaunchPlan {
  readonly assign: MessageOf<"assign">;
  /** Module that ranks import. */
  readonly programPath: string;
  /** The coordinator, as this host reaches it. */
  readonly url: string;
  readonly token: string;
  /** PEM files for links over TCP. */
  readonly tls?: TlsFiles | undefined;
  /** Address to listen on, and the name under which others reach it. */
  readonly bind: string;
  readonly advertise: string;
  /** Folder for Unix sockets. */
  readonly socketDir: string;
  readonly transport: "unix" | "tcp" | "inproc";
  readonly cwd: string;
  /** Script that a rank runs, where it is not the installation's own. */
  readonly rankEntry?: string | undefined;
}

/** A rank process that has been started. */
export interface RankProcess {
  readonly rank: number;
  /** Also the number of its process group. */
  readonly pid: number;
  readonly streams: RankStreams;
  /** Resolves when the process has ended; its output may end later. */
  readonly ended: Promise<Ending>;
}

/**
 * Starts one rank, as the leader of its own process group. With the in-process transport the process of rank 0 hosts
 * all of them.
 *
 * @throws {ERR_INTERNAL} when the platform cannot start a process
 */
export function launchRank(rank: number, plan: LaunchPlan): Promise<RankProcess> {
  const entry = plan.rankEntry ?? join(distFolder(), "rank.js");
  const child = spawn(process.execPath, [entry], {
    cwd: plan.cwd,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...plan.assign.env, ...rankEnvironment(rank, plan) },
  });
  const ended = new Promise<Ending>((resolve) => {
    child.once("exit", (exitCode, signal) => resolve({ exitCode, signal }));
  });
  return started(child, rank, ended);
}

/** The variables that tell a rank who it is: Rankwise's own, and those that other launchers have made usual. */
export function rankEnvironment(rank: number, plan: LaunchPlan): Record<string, string> {
  const { assign, url } = plan;
  const { settings } = assign;
  const { hostname, port } = new URL(url);
  return {
    [ENV.coordinator]: url,
    [ENV.token]: plan.token,
    [ENV.job]: assign.job,
    [ENV.epoch]: String(assign.epoch),
    [ENV.rank]: plan.transport === "inproc" ? assign.ranks.join(",") : String(rank),
    [ENV.nranks]: String(settings.nranks),
    [ENV.program]: plan.programPath,
    [ENV.bind]: plan.bind,
    [ENV.advertise]: plan.advertise,
    [ENV.socketDir]: plan.socketDir,
    [ENV.transport]: plan.transport,
    [ENV.joinTimeoutMs]: String(settings.joinTimeoutMs),
    ...(plan.tls === undefined
      ? {}
      : { [ENV.tlsCert]: plan.tls.cert, [ENV.tlsKey]: plan.tls.key, [ENV.tlsCa]: plan.tls.ca }),
    RANK: String(rank),
    WORLD_SIZE: String(settings.nranks),
    LOCAL_RANK: String(assign.ranks.indexOf(rank)),
    LOCAL_WORLD_SIZE: String(assign.ranks.length),
    MASTER_ADDR: hostname.replace(/^\[(.*)\]$/u, "$1"),
    MASTER_PORT: port === "" ? (url.startsWith("wss") ? "443" : "80") : port,
  };
}

async function started(child: ChildProcess, rank: number, ended: Promise<Ending>): Promise<RankProcess> {
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", (error) => {
      reject(new RankwiseError("ERR_INTERNAL", `rank ${rank} cannot be started: ${error.message}`, { rank }, error));
    });
  });
  const { pid, stdout, stderr } = child;
  if (pid === undefined || stdout === null || stderr === null) {
    throw new RankwiseError("ERR_INTERNAL", `rank ${rank} was started without a pid or its output`, { rank });
  }
  return { rank, pid, streams: { stdout, stderr }, ended };
}
