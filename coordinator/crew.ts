/**
 * The ranks of one host in one epoch: starts them, tells how they end and when one is stopped, ends them, and leaves
 * no process, socket or file behind.
 */
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { TlsFiles } from "../shared/auth.ts";
import { ENV } from "../shared/config.ts";
import { CLEAR_MS } from "../shared/constants.ts";
import { RankwiseError, toWireError } from "../shared/errors.ts";
import type { MessageOf, ProcessState } from "../shared/messages.ts";
import { type LaunchPlan, launchRank, type RankProcess } from "./launcher.ts";
import type { LineSink } from "./line-sink.ts";
import { RankOutput } from "./output.ts";
import { ProcessWatch } from "./process-state.ts";
import { prepareProgram } from "./programs.ts";
import { checkSocketFolder, fitsSockets, makeSocketFolder, makeTempFolder } from "./temp-folder.ts";
import { livingGroups, terminateGroups } from "./termination.ts";
import { Warden } from "./warden.ts";

type WithoutJob<T> = T extends unknown ? Omit<T, "job" | "epoch"> : never;

/** What a crew reports. */
export type CrewMessage = WithoutJob<MessageOf<"spawned" | "exited" | "rank_stopped" | "supervisor_failed">>;

export interface CrewOptions {
  readonly assign: MessageOf<"assign">;
  /** The coordinator, as this host reaches it. */
  readonly url: string;
  readonly token: string;
  readonly tls: TlsFiles | undefined;
  /** Address for ranks to listen on, and the name to advertise. */
  readonly listen: { readonly bind: string; readonly advertise: string };
  /** Working directory of the ranks. */
  readonly cwd: string;
  readonly tagOutput: boolean;
  readonly logDir: string | undefined;
  /** Where the ranks' output goes. */
  readonly sink: LineSink;
  /** Script that a rank runs, where it is not the installation's own. */
  readonly rankEntry: string | undefined;
  readonly report: (message: CrewMessage) => void;
}

/** How long the output of ended ranks may take to arrive: what left their process group can hold it open. */
const DRAIN_MS = 300;

/** A crew at work, from its construction on. */
export class Crew {
  readonly #options: CrewOptions;
  readonly #hurry = new AbortController();
  /** Processes whose group may have members. */
  readonly #processes = new Map<number, RankProcess>();
  readonly #endings: Promise<void>[] = [];
  readonly #watch: ProcessWatch;
  readonly #starting: Promise<void>;
  #clearing: Promise<boolean> | undefined;
  /** Everything here is removed in the end. */
  readonly #folders: string[] = [];
  #warden: Warden | undefined;
  #output: RankOutput | undefined;

  constructor(options: CrewOptions) {
    this.#options = options;
    this.#watch = new ProcessWatch({
      livenessMs: options.assign.settings.livenessMs,
      processes: () => [...this.#processes].map(([rank, { pid }]) => [rank, pid] as const),
      onStopped: (rank, pid, stoppedMs) => options.report({ type: "rank_stopped", rank, pid, stoppedMs }),
    });
    this.#starting = this.#start().catch((error: unknown) => {
      this.fail(error);
    });
  }

  get epoch(): number {
    return this.#options.assign.epoch;
  }

  get graceMs(): number {
    return this.#options.assign.settings.graceMs;
  }

  /** Reports that this host cannot go on. */
  fail(error: unknown): void {
    // what the platform refuses here is no error of the program's
    const own = error instanceof RankwiseError ? error : new RankwiseError("ERR_INTERNAL", String(error), {}, error);
    this.#options.report({ type: "supervisor_failed", error: toWireError(own) });
  }

  /** What the processes of the ranks are doing. */
  states(): { rank: number; state: ProcessState }[] {
    return this.#watch.states();
  }

  /** Whoever is being ended has no grace any more. */
  hurry(): void {
    this.#hurry.abort();
  }

  get hurried(): boolean {
    return this.#hurry.signal.aborted;
  }

  /** Ends everything that was started here; true when nothing is left. Later calls get the first one's answer. */
  clear(graceMs: number): Promise<boolean> {
    this.#clearing ??= this.#clear(graceMs);
    return this.#clearing;
  }

  async #start(): Promise<void> {
    const { assign, tagOutput, logDir, sink, report } = this.#options;
    const folder = await this.#keep(makeTempFolder("rw-"));
    const transport = this.#transport();
    const shared = transport === "unix" ? process.env[ENV.socketDir] : undefined;
    if (transport === "unix") checkSocketFolder(shared ?? tmpdir(), shared === undefined ? "TMPDIR" : ENV.socketDir);
    const socketDir = shared === undefined ? folder : await this.#keep(makeSocketFolder(shared));
    this.#warden = new Warden(this.#folders, assign.settings.livenessMs);
    this.#output = await RankOutput.open({
      job: assign.job,
      tagged: tagOutput,
      logDir,
      sink,
      append: assign.epoch > 0,
    });
    const programPath = await prepareProgram(assign.program, folder);
    const plan = this.#plan(programPath, socketDir, transport);
    for (const rank of assign.ranks) {
      if (this.#clearing !== undefined) return; // told to end them meanwhile
      const host = plan.transport === "inproc" ? this.#processes.get(0) : undefined;
      if (host !== undefined) {
        report({ type: "spawned", rank, pid: host.pid });
        this.#endings.push(this.#followEnd({ ...host, rank }));
        continue;
      }
      const started = await launchRank(rank, plan);
      this.#processes.set(rank, started);
      this.#warden.watch(this.#groups());
      this.#output.attach(rank, started.streams);
      report({ type: "spawned", rank, pid: started.pid });
      this.#endings.push(this.#followEnd(started));
    }
  }

  /** `auto` is by Unix sockets where all ranks meet in one folder, whose paths are short enough for them. */
  #transport(): LaunchPlan["transport"] {
    const { ranks, settings } = this.#options.assign;
    if (settings.transport !== "auto") return settings.transport;
    const together = process.env[ENV.socketDir] !== undefined || ranks.length === settings.nranks;
    return together && fitsSockets(process.env[ENV.socketDir] ?? tmpdir()) ? "unix" : "tcp";
  }

  #plan(programPath: string, socketDir: string, transport: LaunchPlan["transport"]): LaunchPlan {
    const { assign, url, token, tls, listen, cwd, rankEntry } = this.#options;
    return { assign, programPath, url, token, tls, ...listen, socketDir, transport, cwd, rankEntry };
  }

  async #keep(made: Promise<string>): Promise<string> {
    const folder = await made;
    this.#folders.push(folder);
    return folder;
  }

  async #followEnd({ rank, pid, ended }: RankProcess): Promise<void> {
    const ending = await ended;
    this.#options.report({ type: "exited", rank, pid, ...ending });
    // once its group is empty, its number may come to mean another process
    if ((await livingGroups([pid])).length > 0) return;
    this.#processes.delete(rank);
    this.#warden?.watch(this.#groups());
  }

  async #clear(graceMs: number): Promise<boolean> {
    await Promise.race([this.#starting, sleep(CLEAR_MS)]); // it stops before the next rank
    const { left } = await terminateGroups(this.#groups(), graceMs, this.#hurry.signal);
    this.#watch.stop();
    await Promise.race([Promise.all([...this.#endings, this.#output?.drained()]), sleep(DRAIN_MS)]);
    for (const folder of this.#folders) await rm(folder, { recursive: true, force: true });
    this.#warden?.dismiss();
    return left.length === 0;
  }

  /** Process groups that may have members. */
  #groups(): number[] {
    return [...this.#processes.values()].map(({ pid }) => pid);
  }
}
