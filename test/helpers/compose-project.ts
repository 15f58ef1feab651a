/**
 * The compose file, run by tests: each run is a project under a name of its own, which takes its containers and networks
 * with it. Containers reach only each other, over the project's network.
 */
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import type { RunReport } from "../../shared/report.ts";
import type { JobRank } from "./cluster.ts";
import { compose, type Engine, type Image } from "./engine.ts";

/** Where the compose file has the coordinator write its report. */
const REPORT_PATH = "/tmp/report.json";

/** How long ranks may take to start, and containers to end, before a test fails. */
const START_MS_MAX = 60_000;
const END_MS_MAX = 60_000;

/** What a job of the compose file is to be. */
export interface JobSettings {
  readonly nranks: number;
  readonly mode?: "hand" | "builtin";
  /** A built-in program, or the path of a file; every container then sees the file's folder. */
  readonly program?: string;
}

/** A container of a project, as it is now. */
export interface Container {
  readonly id: string;
  readonly service: string;
  readonly hostname: string;
  readonly running: boolean;
  readonly exitCode: number;
  /** By the engine's clock; meaningless while it runs. */
  readonly finishedAtMs: number;
}

/** One run of the compose file, under a name of its own. Disposing of it removes its containers and networks. */
export class ComposeProject implements AsyncDisposable {
  readonly #engine: Engine;
  readonly #name = `rankwise-test-${randomBytes(4).toString("hex")}`;
  readonly #nranks: number;
  readonly #variables: Record<string, string>;

  constructor(engine: Engine, image: Image, { nranks, mode, program }: JobSettings) {
    this.#engine = engine;
    this.#nranks = nranks;
    this.#variables = {
      RANKWISE_IMAGE: image.name,
      RANKS: String(nranks),
      MODE: mode ?? "hand",
      ...(program === undefined ? {} : { PROGRAM: `./${basename(program)}`, PROGRAM_DIR: dirname(program) }),
    };
  }

  /** Runs the job in the foreground, as users do: the first container that exits stops all. */
  up(): ReturnType<typeof compose> {
    return this.#compose(["up", "--exit-code-from", "coordinator"], { reject: false });
  }

  /** Starts the job in the background, where the engine stops nothing. */
  async start(): Promise<void> {
    await this.#compose(["up", "--detach"]);
  }

  /** The project's containers, or those of one service. */
  async containers(service?: string): Promise<Container[]> {
    const filters = [`project=${this.#name}`, ...(service === undefined ? [] : [`service=${service}`])];
    const { stdout: ids } = await execa("docker", [
      ...["ps", "--all", "--quiet", "--no-trunc"],
      ...filters.flatMap((filter) => ["--filter", `label=com.docker.compose.${filter}`]),
    ]);
    if (ids === "") return [];
    const inspected = await execa("docker", ["inspect", ...ids.split("\n")], { reject: false });
    const { failed, stdout, stderr } = inspected;
    // the engine lists a container a moment before it knows it, and tells about the others all the same
    if (failed && !stderr.includes("No such object")) throw new Error(`docker inspect: ${stderr}`);
    return (JSON.parse(stdout) as Inspected[]).map(({ Id, Config, State }) => ({
      id: Id,
      service: Config.Labels["com.docker.compose.service"] ?? "",
      hostname: Config.Hostname,
      running: State.Running,
      exitCode: State.ExitCode,
      finishedAtMs: Date.parse(State.FinishedAt),
    }));
  }

  /** The one container of a service; of several, any. */
  async container(service: string): Promise<Container> {
    const [found] = await this.containers(service);
    if (found === undefined) throw new Error(`project ${this.#name} has no container of service ${service}`);
    return found;
  }

  /** What a service's containers have printed, on both streams of each. */
  async outputs(service: string): Promise<{ stdout: string; stderr: string }[]> {
    const containers = await this.containers(service);
    return Promise.all(containers.map(({ id }) => execa("docker", ["logs", id])));
  }

  /** Resolves when every rank has printed something that matches. */
  async everyRankPrints(pattern: RegExp): Promise<void> {
    const untilMs = performance.now() + START_MS_MAX;
    for (;;) {
      const ranks = await this.outputs("rank");
      if (ranks.filter(({ stderr }) => pattern.test(stderr)).length === this.#nranks) return;
      if (performance.now() > untilMs) {
        const printed = [...(await this.outputs("coordinator")), ...ranks].map(({ stderr }) => stderr).join("\n");
        throw new Error(`${String(pattern)} was not printed by all of ${this.#nranks} ranks in time:\n${printed}`);
      }
      await sleep(100);
    }
  }

  /** The job's ranks, as the coordinator's `GET /job` tells them. */
  async job(): Promise<JobRank[]> {
    const { id } = await this.container("coordinator");
    const { stdout } = await execa("docker", ["exec", id, "node", "--input-type=module", "--eval", askForJob]);
    return (JSON.parse(stdout) as { ranks: JobRank[] }).ranks;
  }

  /** Resolves with all containers when none of them runs any more. */
  async ended(): Promise<Container[]> {
    const ids = (await this.containers()).map(({ id }) => id);
    await execa("docker", ["wait", ...ids], { timeout: END_MS_MAX });
    return this.containers();
  }

  async kill({ id }: Container): Promise<void> {
    await execa("docker", ["kill", id]);
  }

  /** Takes a container off the project's network; it runs on. */
  async cutOff({ id }: Container): Promise<void> {
    await execa("docker", ["network", "disconnect", `${this.#name}_default`, id]);
  }

  /** The report that the coordinator has written. */
  async report(): Promise<RunReport> {
    const { id } = await this.container("coordinator");
    const folder = await mkdtemp(join(tmpdir(), "report-"));
    await execa("docker", ["cp", `${id}:${REPORT_PATH}`, folder]);
    const text = await readFile(join(folder, basename(REPORT_PATH)), "utf8");
    await rm(folder, { recursive: true, force: true });
    return JSON.parse(text) as RunReport;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#compose(["down", "--volumes", "--timeout", "1"]);
    const filter = ["--filter", `label=com.docker.compose.project=${this.#name}`];
    const { stdout: networks } = await execa("docker", ["network", "ls", "--quiet", ...filter]);
    const left = [...(await this.containers()).map(({ id }) => id), networks].join(" ").trim();
    if (left !== "") throw new Error(`project ${this.#name} left behind: ${left}`);
  }

  #compose(args: readonly string[], options?: { reject: boolean }): ReturnType<typeof compose> {
    return compose(this.#engine, ["--project-name", this.#name, ...args], this.#variables, options);
  }
}

/** Run inside of the coordinator's container: its port is open to no one else but the ranks. */
const askForJob = `
const headers = { authorization: "Bearer " + process.env.RANKWISE_TOKEN };
const response = await fetch("http://127.0.0.1:7000/job", { headers });
console.log(await response.text());
`;

/** What is read of `docker inspect`. */
interface Inspected {
  Id: string;
  Config: { Hostname: string; Labels: Record<string, string> };
  State: { Running: boolean; ExitCode: number; FinishedAt: string };
}
