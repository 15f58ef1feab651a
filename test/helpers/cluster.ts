/** A coordinator and supervisors as processes of their own, as they would run on several hosts. */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { CliProcess, type CliResult, Scratch } from "./cli.ts";

export interface ClusterOptions {
  readonly program: string;
  readonly nranks: number;
  /** Ranks that each supervisor offers to start; by default one supervisor for all. */
  readonly supervisors?: readonly number[];
  readonly coordinatorArgs?: readonly string[];
  readonly rankArgs?: readonly string[];
  /** Arguments of the program. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Every process is killed, and the test fails, after this time. */
  readonly timeoutMs?: number;
}

/** A rank, as `GET /job` tells it. */
export interface JobRank {
  readonly rank: number;
  readonly pid: number | null;
  readonly host: string | null;
  readonly address: string | null;
}

/** A cluster. Leaving its scope ends it, and fails when processes, sockets or files are left. */
export interface Cluster extends AsyncDisposable {
  readonly url: string;
  readonly token: string;
  /** Scratch of this cluster; it must be empty at the end. */
  readonly folder: string;
  readonly coordinator: CliProcess;
  readonly supervisors: readonly CliProcess[];
  /** Starts a further supervisor. */
  addSupervisor(ranks: number, env?: Readonly<Record<string, string>>): CliProcess;
  /** What `GET /job` answers. */
  job(): Promise<{ job: string; epoch: number; nranks: number; ranks: JobRank[] }>;
  /** That answer, once every rank has joined. */
  joined(): ReturnType<Cluster["job"]>;
  /** Results of the coordinator and of every supervisor, in this order. */
  ended(): Promise<CliResult[]>;
}

/** Starts a coordinator on a free port, learns the port from its first line, and starts supervisors. */
export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const { program, nranks, coordinatorArgs = [], rankArgs = [], args = [], timeoutMs = 20_000 } = options;
  const scratch = await Scratch.make();
  const token = randomUUID();
  const env = { RANKWISE_TOKEN: token, ...options.env };
  const start = (commandArgs: readonly string[], extra: Readonly<Record<string, string>> = {}): CliProcess =>
    new CliProcess(commandArgs, { env: { ...env, ...extra }, timeoutMs }, scratch, false);

  const coordinator = start([
    "coordinator",
    program,
    ...["-n", String(nranks), ...coordinatorArgs],
    ...(args.length > 0 ? ["--", ...args] : []),
  ]);
  const supervisors: CliProcess[] = [];
  const dispose = async (): Promise<void> => {
    for (const command of [coordinator, ...supervisors]) await command[Symbol.asyncDispose]();
    const results = await Promise.all([coordinator, ...supervisors].map((command) => command.ended));
    await scratch.dispose(results.map(({ text }) => text).join("\n\n"));
  };
  let url: string;
  try {
    [, url = ""] = await coordinator.says(/ranks at (wss?:\/\/\S+)/u);
  } catch (error) {
    await dispose();
    throw error;
  }
  const addSupervisor = (ranks: number, extra: Readonly<Record<string, string>> = {}): CliProcess => {
    const supervisor = start(["rank", "--coordinator", url, "--ranks", String(ranks), ...rankArgs], extra);
    supervisors.push(supervisor);
    return supervisor;
  };
  for (const ranks of options.supervisors ?? [nranks]) addSupervisor(ranks);
  return {
    url,
    token,
    coordinator,
    supervisors,
    addSupervisor,
    folder: scratch.folder,
    job: () => fetchJob(url, token),
    joined: async () => {
      for (;;) {
        const job = await fetchJob(url, token);
        if (job.ranks.every(({ address }) => address !== null)) return job;
        await sleep(20);
      }
    },
    ended: () => Promise.all([coordinator, ...supervisors].map((command) => command.ended)),
    [Symbol.asyncDispose]: dispose,
  };
}

async function fetchJob(url: string, token: string): ReturnType<Cluster["job"]> {
  const response = await fetch(new URL("/job", url.replace(/^ws/u, "http")), {
    headers: { authorization: `Bearer ${token}` },
  });
  if (!response.ok) throw new Error(`GET /job: HTTP ${response.status}`);
  return (await response.json()) as Awaited<ReturnType<Cluster["job"]>>;
}
