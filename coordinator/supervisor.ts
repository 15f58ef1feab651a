/**
 * The supervisor of the ranks of one host: joins the coordinator, starts the ranks that it is assigned, tells how they
 * end, ends them when it is told to, and leaves no process, socket or file behind.
 *
 * It decides nothing about the group, except when it has lost its coordinator: then it ends its ranks by itself.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { WebSocket } from "ws";
import { type Deferred, deferred } from "../shared/async.ts";
import { decodeMessage, encodeMessage } from "../shared/codec.ts";
import { ENV } from "../shared/config.ts";
import { CLEAR_MS, DEPARTURE_MS, DEPARTURE_TIMEOUT_MS, GRACE_MS, PROTOCOL_VERSION } from "../shared/constants.ts";
import { isErrorCode, RankwiseError, toWireError } from "../shared/errors.ts";
import type { Message, MessageOf } from "../shared/messages.ts";
import { bytesOf } from "./connection.ts";
import { type Dialled, dialCoordinator } from "./dial.ts";
import { type LaunchPlan, launchRank, type RankProcess } from "./launcher.ts";
import { type LivenessCheck, watchLiveness } from "./liveness.ts";
import type { Interrupt } from "./monitor-events.ts";
import { type LineSink, RankOutput } from "./output.ts";
import { prepareProgram } from "./programs.ts";
import { livingGroups, terminateGroups } from "./termination.ts";
import { Warden } from "./warden.ts";

export interface SupervisorOptions {
  /** `ws://host:port` of the coordinator. */
  readonly url: string;
  readonly token: string;
  /** Most ranks to start here. */
  readonly slots: number;
  /** How long to try to reach the coordinator. */
  readonly joinTimeoutMs: number;
  /** Address for ranks to listen on; by default the one by which this host reaches the coordinator. */
  readonly bind?: string | undefined;
  /** Name under which other hosts reach it; by default `bind`, or this host's name where that is a wildcard. */
  readonly advertise?: string | undefined;
  /** Working directory of the ranks. */
  readonly cwd: string;
  readonly tagOutput: boolean;
  readonly logDir?: string | undefined;
  /** Where the ranks' output goes. */
  readonly sink: LineSink;
  /** Script that a rank runs, where it is not the installation's own. */
  readonly rankEntry?: string | undefined;
}

/** How long the output of ended ranks may take to arrive: what left their process group can hold it open. */
const DRAIN_MS = 300;

/** A supervisor that has joined. */
export class Supervisor {
  /**
   * Resolves with the job's exit code once the coordinator has left; the ranks are gone by then.
   * Rejects with `ERR_COORDINATOR_LOST`, `ERR_INTERRUPTED` or the error by which the coordinator refused it.
   */
  readonly done: Promise<number>;
  readonly #options: SupervisorOptions;
  readonly #done: Deferred<number> = deferred();
  readonly #socket: WebSocket;
  readonly #localAddress: string;
  readonly #hurry = new AbortController();
  /** Processes whose group may have members. */
  readonly #processes = new Map<number, RankProcess>();
  readonly #endings: Promise<void>[] = [];
  #assign: MessageOf<"assign"> | undefined;
  #starting: Promise<void> = Promise.resolve();
  #clearing: Promise<boolean> | undefined;
  #folder: string | undefined;
  #warden: Warden | undefined;
  #output: RankOutput | undefined;
  #liveness: LivenessCheck | undefined;
  #finished: number | undefined;
  #interrupt: Interrupt | undefined;

  private constructor(options: SupervisorOptions, { socket, localAddress }: Dialled) {
    this.#options = options;
    this.#socket = socket;
    this.#localAddress = localAddress;
    this.done = this.#done.promise;
    let reason = "";
    socket.on("error", (error) => {
      reason = error.message; // the close event follows
    });
    socket.on("message", (data) => {
      this.#message(bytesOf(data));
    });
    socket.on("close", (code, text) => {
      void this.#closed(text.toString() || reason || `its connection closed (${code})`);
    });
  }

  /**
   * Reaches the coordinator and joins.
   *
   * @throws {ERR_COORDINATOR_UNREACHABLE}
   * @throws {ERR_UNAUTHORIZED}
   */
  static async join(options: SupervisorOptions): Promise<Supervisor> {
    const dialled = await dialCoordinator(options.url, options.token, options.joinTimeoutMs);
    const supervisor = new Supervisor(options, dialled);
    const { slots } = options;
    const version = PROTOCOL_VERSION;
    supervisor.#send({ type: "join_supervisor", version, slots, host: hostname(), pid: process.pid });
    return supervisor;
  }

  /** A signal has come: the job is told and the ranks end; a second one kills them at once. */
  interrupt(signal: Interrupt): void {
    if (this.#interrupt !== undefined) {
      this.#hurry.abort();
      return;
    }
    this.#interrupt = signal;
    const error = new RankwiseError("ERR_INTERRUPTED", `the supervisor of host ${hostname()} got ${signal}`);
    if (this.#assign === undefined) {
      void this.#leave(error);
      return;
    }
    this.#fail(error);
    void this.#clear(this.#graceMs).then(() => {
      if (this.#hurry.signal.aborted) this.#done.reject(error);
    });
  }

  #message(bytes: Uint8Array): void {
    this.#liveness?.heard();
    let message: MessageOf<"assign" | "terminate" | "finished">;
    try {
      message = decodeMessage(bytes, ["assign", "terminate", "finished"]);
    } catch (error) {
      void this.#leave(error as RankwiseError);
      return;
    }
    switch (message.type) {
      case "assign":
        this.#assign = message;
        this.#watchCoordinator(message.settings.livenessMs);
        this.#starting = this.#startRanks(message).catch((error: unknown) => this.#fail(error));
        break;
      case "terminate":
        if (message.graceMs === 0) this.#hurry.abort();
        void this.#clear(message.graceMs).then((cleared) => {
          if (cleared) this.#sendOfJob({ type: "cleared" });
        });
        break;
      case "finished":
        this.#finished = message.exitCode;
        setTimeout(() => this.#socket.terminate(), DEPARTURE_TIMEOUT_MS).unref();
        break;
    }
  }

  async #startRanks(assign: MessageOf<"assign">): Promise<void> {
    const { tagOutput, logDir, sink } = this.#options;
    this.#folder = await mkdtemp(join(tmpdir(), "rw-"));
    this.#warden = new Warden(this.#folder);
    this.#output = await RankOutput.open({ job: assign.job, tagged: tagOutput, logDir, sink });
    const programPath = await prepareProgram(assign.program, this.#folder);
    const plan = this.#plan(assign, programPath, this.#folder);
    for (const rank of assign.ranks) {
      if (this.#clearing !== undefined) return; // told to end them meanwhile
      const host = plan.transport === "inproc" ? this.#processes.get(0) : undefined;
      if (host !== undefined) {
        this.#sendOfJob({ type: "spawned", rank, pid: host.pid });
        this.#endings.push(this.#followEnd({ ...host, rank }));
        continue;
      }
      const started = await launchRank(rank, plan);
      this.#processes.set(rank, started);
      this.#warden.watch(this.#groups());
      this.#output.attach(rank, started.streams);
      this.#sendOfJob({ type: "spawned", rank, pid: started.pid });
      this.#endings.push(this.#followEnd(started));
    }
  }

  #plan(assign: MessageOf<"assign">, programPath: string, folder: string): LaunchPlan {
    const { url, token, cwd, rankEntry } = this.#options;
    const shared = process.env[ENV.socketDir];
    const together = shared !== undefined || assign.ranks.length === assign.settings.nranks;
    const { transport } = assign.settings;
    return {
      assign,
      programPath,
      url,
      token,
      ...listenAddress(this.#options, this.#localAddress),
      socketDir: shared ?? folder,
      transport: transport === "auto" ? (together ? "unix" : "tcp") : transport,
      cwd,
      rankEntry,
    };
  }

  async #followEnd({ rank, pid, ended }: RankProcess): Promise<void> {
    const ending = await ended;
    this.#sendOfJob({ type: "exited", rank, pid, ...ending });
    // once its group is empty, its number may come to mean another process
    if ((await livingGroups([pid])).length > 0) return;
    this.#processes.delete(rank);
    this.#warden?.watch(this.#groups());
  }

  /** Ends everything that was started here; true when nothing is left. Later calls get the first one's answer. */
  #clear(graceMs: number): Promise<boolean> {
    this.#clearing ??= this.#clearOnce(graceMs);
    return this.#clearing;
  }

  async #clearOnce(graceMs: number): Promise<boolean> {
    await Promise.race([this.#starting, sleep(CLEAR_MS)]); // it stops before the next rank
    const { left } = await terminateGroups(this.#groups(), graceMs, this.#hurry.signal);
    await Promise.race([Promise.all([...this.#endings, this.#output?.drained()]), sleep(DRAIN_MS)]);
    if (this.#folder !== undefined) await rm(this.#folder, { recursive: true, force: true });
    this.#warden?.dismiss();
    return left.length === 0;
  }

  /** Process groups that may have members. */
  #groups(): number[] {
    return [...this.#processes.values()].map(({ pid }) => pid);
  }

  #watchCoordinator(livenessMs: number): void {
    const socket = this.#socket;
    const check = watchLiveness(
      livenessMs,
      () => {
        if (socket.readyState === socket.OPEN) socket.ping();
      },
      () => socket.terminate(),
    );
    socket.on("pong", check.heard);
    this.#liveness = check;
  }

  async #closed(reason: string): Promise<void> {
    if (this.#finished !== undefined) {
      this.#liveness?.stop();
      await sleep(DEPARTURE_MS);
      this.#done.resolve(this.#finished);
      return;
    }
    await this.#leave(refusalIn(reason) ?? this.#lost(reason));
  }

  /** Ends the ranks without being told to, and then itself. */
  async #leave(error: RankwiseError): Promise<void> {
    this.#liveness?.stop();
    await this.#clear(this.#graceMs);
    this.#socket.terminate();
    this.#done.reject(error);
  }

  #lost(reason: string): RankwiseError {
    if (this.#interrupt !== undefined) return new RankwiseError("ERR_INTERRUPTED", `got ${this.#interrupt}`);
    return new RankwiseError("ERR_COORDINATOR_LOST", `the coordinator at ${this.#options.url} is lost: ${reason}`);
  }

  #fail(error: unknown): void {
    // what the platform refuses here is no error of the program's
    const own = error instanceof RankwiseError ? error : new RankwiseError("ERR_INTERNAL", String(error), {}, error);
    this.#sendOfJob({ type: "supervisor_failed", error: toWireError(own) });
  }

  get #graceMs(): number {
    return this.#assign?.settings.graceMs ?? GRACE_MS;
  }

  #sendOfJob(message: OfJob): void {
    if (this.#assign === undefined) return;
    const { job, epoch } = this.#assign;
    this.#send({ ...message, job, epoch });
  }

  #send(message: Message): void {
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.send(encodeMessage(message));
  }
}

type WithoutJob<T> = T extends unknown ? Omit<T, "job" | "epoch"> : never;

/** Messages that name their job, without it. */
type OfJob = WithoutJob<MessageOf<"spawned" | "exited" | "supervisor_failed" | "cleared">>;

/** The address for ranks to bind and the name to advertise. A wildcard is never advertised. */
export function listenAddress(
  { bind, advertise }: Pick<SupervisorOptions, "bind" | "advertise">,
  localAddress: string,
): { bind: string; advertise: string } {
  const bound = bind ?? localAddress;
  const isWildcard = bound === "0.0.0.0" || bound === "::";
  return { bind: bound, advertise: advertise ?? (isWildcard ? hostname() : bound) };
}

/** The error that a close reason `ERR_…: message` carries. */
function refusalIn(reason: string): RankwiseError | undefined {
  const match = /^(ERR_[A-Z_]+): (.*)$/su.exec(reason);
  const [, code = "", message = ""] = match ?? [];
  return isErrorCode(code) ? new RankwiseError(code, message) : undefined;
}
