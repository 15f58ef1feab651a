/**
 * The coordinator of one job: feeds what the control server hears into the rendezvous and the monitor, and carries
 * out what these command. All decisions are theirs.
 */
import type { Tls } from "../shared/auth.ts";
import { deferred, delay } from "../shared/async.ts";
import { decodeMessage } from "../shared/codec.ts";
import { STATE_ANSWER_MS } from "../shared/constants.ts";
import { type RankwiseError, toWireError } from "../shared/errors.ts";
import type { MessageOf, MessageType, Program, Settings } from "../shared/messages.ts";
import type { EpochReport, RunReport } from "../shared/report.ts";
import type { ControlConnection } from "./connection.ts";
import { isRestartable } from "./causes.ts";
import { type FailureFacts, failureSummary, reportedFailure } from "./failure.ts";
import { LinkJudge } from "./link-judge.ts";
import { Monitor } from "./monitor.ts";
import type { Interrupt, MonitorCommand, MonitorEvent } from "./monitor-events.ts";
import { Places } from "./places.ts";
import { Rendezvous, type RendezvousCommand, type RendezvousEvent } from "./rendezvous.ts";
import { runReport } from "./run-report.ts";
import { type ControlHello, ControlServer } from "./server.ts";
import { StallWatch } from "./stall-watch.ts";
import { Switchboard } from "./switchboard.ts";
import { waitTable } from "./wait-table.ts";

export interface CoordinatorOptions {
  readonly job: string;
  readonly token: string;
  /** Address to bind, and the port; 0 takes any free one. */
  readonly host: string;
  readonly port: number;
  readonly tls?: Tls | undefined;
  readonly program: Program;
  /** The program as the command line named it. */
  readonly programName: string;
  /** Environment variables for all ranks. */
  readonly env: Readonly<Record<string, string>>;
  readonly settings: Settings;
  readonly timeoutMs: number;
  /** Folder of the ranks' output, to be named in a failure's summary. */
  readonly logDir?: string | undefined;
  /** How often the group may be started again after a failure. */
  readonly maxRestarts?: number | undefined;
  /** A failed epoch is over and the next one begins; `summary` tells of the failure. */
  readonly onRestart?: ((summary: string) => void) | undefined;
}

/** How a run ended. */
export interface RunOutcome {
  readonly report: RunReport;
  /** What to print of a failure; empty for a good run. */
  readonly summary: string;
}

/** A running coordinator. */
export class Coordinator {
  /** Resolves when nothing of the job runs any more. Does not reject. */
  readonly outcome: Promise<RunOutcome>;
  readonly #options: CoordinatorOptions;
  readonly #outcome = deferred<RunOutcome>();
  readonly #startedAtMs = nowMs();
  readonly #switchboard = new Switchboard();
  readonly #places = new Places();
  readonly #epochs: EpochReport[] = [];
  /** Ranks that have answered what they are doing. */
  readonly #answered = new Set<number>();
  readonly #links: LinkJudge;
  readonly #stalls: StallWatch;
  #rendezvous: Rendezvous;
  #monitor: Monitor;
  #epochStartedAtMs = this.#startedAtMs;
  #server!: ControlServer;
  #timer: NodeJS.Timeout | undefined;

  private constructor(options: CoordinatorOptions) {
    this.#options = options;
    this.outcome = this.#outcome.promise;
    const { livenessMs } = options.settings;
    this.#links = new LinkJudge(livenessMs);
    this.#stalls = new StallWatch({
      livenessMs,
      onStall: (stallMs) => this.#watch({ type: "stalled", stallMs, atMs: nowMs() }),
    });
    this.#rendezvous = this.#makeRendezvous();
    this.#monitor = this.#makeMonitor();
  }

  /**
   * Listens and waits for supervisors; all else happens by itself.
   *
   * @throws {ERR_PORT_IN_USE}
   * @throws {ERR_USAGE} when the host cannot be bound
   */
  static async start(options: CoordinatorOptions): Promise<Coordinator> {
    const coordinator = new Coordinator(options);
    coordinator.#server = await ControlServer.listen({
      ...options,
      onHello: (connection, hello) => coordinator.#hello(connection, hello),
      onMessage: (connection, bytes) => coordinator.#message(connection, bytes),
      onClose: (connection, reason) => coordinator.#closed(connection, reason),
      describeJob: () => coordinator.#describeJob(),
    });
    coordinator.#schedule();
    return coordinator;
  }

  /** The port that it listens on. */
  get port(): number {
    return this.#server.port;
  }

  /** A signal has come; a second one ends everything at once. */
  interrupt(signal: Interrupt): void {
    this.#watch({ type: "interrupted", signal, atMs: nowMs() });
  }

  /** What every rank is doing right now, asked from all of them; those that do not answer are told by their process. */
  async waitTable(): Promise<string> {
    this.#answered.clear();
    const question = { type: "ask_state", ...this.#job } as const;
    this.#switchboard.tellRanks(question);
    this.#switchboard.tellSupervisors(question);
    await delay(STATE_ANSWER_MS);
    const { job, programName, settings } = this.#options;
    const seconds = ((nowMs() - this.#startedAtMs) / 1000).toFixed(1);
    const headline = `rankwise: job ${job}, epoch ${this.#epoch}, ${programName} on ${settings.nranks} ranks, after ${seconds} s`;
    return waitTable(this.#monitor.roster, headline, this.#answered);
  }

  /** Ends every connection. A command leaves without it: its peers go only after it has. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#stalls.stop();
    this.#switchboard.close();
    await this.#server.close();
  }

  #hello(connection: ControlConnection, hello: ControlHello): void {
    this.#switchboard.greet(connection, hello);
    if (hello.type === "join_supervisor") {
      const { version, slots } = hello;
      this.#meet({ type: "supervisor_joins", connection: connection.id, version, slots });
    } else {
      const { version, job, epoch, rank, address } = hello;
      this.#meet({ type: "rank_joins", connection: connection.id, version, job, epoch, rank, address });
    }
  }

  #message(connection: ControlConnection, bytes: Uint8Array): void {
    const { role } = connection;
    if (role === undefined || connection.refusal !== undefined) return;
    if (role.kind === "rank") {
      const message = decodeOr(bytes, fromRank, (error) => {
        connection.refuse(error);
        this.#rankFailed(role.rank, error);
      });
      if (message !== undefined) this.#rankMessage(role.rank, message);
    } else {
      const message = decodeOr(bytes, fromSupervisor, (error) => connection.refuse(error));
      if (message !== undefined) this.#supervisorMessage(connection.id, message);
    }
  }

  #rankMessage(rank: number, message: MessageOf<(typeof fromRank)[number]>): void {
    const atMs = nowMs();
    switch (message.type) {
      case "ready":
        this.#meet({ type: "rank_ready", rank });
        break;
      case "failed": {
        const { error, call, suspect } = message;
        const accused = suspect ?? error.context.peer ?? null;
        // a rank outside of the job is no suspect
        const known = accused !== null && this.#isRank(accused) ? accused : null;
        this.#watch({ type: "rank_failed", rank, error, call, suspect: known, atMs });
        break;
      }
      case "state":
        this.#answered.add(rank);
        this.#links.answered(rank, atMs);
        this.#watch({ type: "state", rank, state: message.state, atMs });
        break;
      case "link_silent": {
        const { peer, silentMs } = message;
        if (!this.#isRank(peer)) break;
        if (this.#links.isCut(peer, silentMs, atMs)) this.#watch({ type: "link_cut", rank, peer, silentMs, atMs });
        else this.#switchboard.tellRank(peer, { type: "ask_state", ...this.#job });
        break;
      }
      case "goodbye":
      case "last_words":
        this.#watch({ type: message.type, rank, state: message.state, atMs });
        break;
    }
  }

  #supervisorMessage(supervisor: number, message: MessageOf<(typeof fromSupervisor)[number]>): void {
    this.#switchboard.heard(supervisor);
    if (message.epoch !== this.#epoch || !this.#monitor.roster.supervisors.has(supervisor)) return; // an old story
    const atMs = nowMs();
    switch (message.type) {
      case "spawned":
        if (this.#owns(supervisor, message.rank)) {
          this.#watch({ type: "spawned", rank: message.rank, pid: message.pid, atMs });
        }
        break;
      case "exited":
        if (this.#owns(supervisor, message.rank)) {
          const { rank, exitCode, signal } = message;
          this.#watch({ type: "rank_exited", rank, exitCode, signal, atMs });
        }
        break;
      case "rank_stopped":
        if (this.#owns(supervisor, message.rank)) {
          const { rank, pid, stoppedMs } = message;
          this.#watch({ type: "rank_stopped", rank, pid, stoppedMs, atMs });
        }
        break;
      case "rank_states": {
        const states = message.states.filter(({ rank }) => this.#owns(supervisor, rank));
        this.#watch({ type: "rank_states", states, atMs });
        break;
      }
      case "supervisor_failed":
        this.#watch({ type: "supervisor_failed", supervisor, error: message.error, atMs });
        break;
      case "cleared":
        this.#watch({ type: "cleared", supervisor, atMs });
        break;
    }
  }

  #isRank(value: number): boolean {
    return Number.isInteger(value) && value >= 0 && value < this.#options.settings.nranks;
  }

  #owns(supervisor: number, rank: number): boolean {
    return this.#monitor.roster.supervisor(supervisor).ranks.includes(rank);
  }

  #closed(connection: ControlConnection, reason: string): void {
    this.#switchboard.forget(connection);
    const { role } = connection;
    const atMs = nowMs();
    if (role?.kind === "rank") {
      this.#watch({ type: "rank_link_closed", rank: role.rank, atMs });
    } else if (role?.kind === "supervisor" && this.#monitor.roster.supervisors.has(connection.id)) {
      this.#watch({ type: "supervisor_lost", supervisor: connection.id, reason, atMs });
    }
  }

  #rankFailed(rank: number, error: RankwiseError): void {
    const report = { rank, error: toWireError(error), call: null, suspect: null };
    this.#watch({ type: "rank_failed", ...report, atMs: nowMs() });
  }

  #meet(event: RendezvousEvent): void {
    for (const command of this.#rendezvous.handle(event)) this.#arrange(command);
    this.#schedule();
  }

  #arrange(command: RendezvousCommand): void {
    const { program, env, settings } = this.#options;
    switch (command.type) {
      case "assign": {
        const { connection: supervisor, ranks } = command;
        const { host, pid } = this.#switchboard.hello(supervisor, "join_supervisor");
        this.#admitSupervisor(supervisor);
        this.#watch({ type: "supervisor_joined", supervisor, host, pid, ranks, atMs: nowMs() });
        this.#switchboard.connection(supervisor).send({
          type: "assign",
          ...this.#job,
          ranks: [...ranks],
          program,
          env: { ...env },
          settings,
        });
        break;
      }
      case "admit": {
        const { connection, rank } = command;
        const hello = this.#switchboard.hello(connection, "join_rank");
        this.#switchboard.admitRank(connection, rank);
        this.#places.add(rank, hello);
        this.#watch({ type: "rank_joined", rank, host: hello.host, pid: hello.pid, atMs: nowMs() });
        break;
      }
      case "refuse": {
        const refused = this.#switchboard.connection(command.connection);
        refused.refuse(command.error);
        this.#switchboard.forget(refused);
        break;
      }
      case "start":
        this.#switchboard.tellRanks({
          type: "start",
          ...this.#job,
          addresses: [...command.addresses],
          placement: this.#places.placement,
          settings,
        });
        break;
      case "go":
        this.#switchboard.tellRanks({ type: "go", ...this.#job });
        break;
      case "fail":
        this.#watch({ type: "rendezvous_failed", error: toWireError(command.error), atMs: nowMs() });
        break;
    }
  }

  #admitSupervisor(supervisor: number): void {
    const { livenessMs } = this.#options.settings;
    this.#switchboard.admitSupervisor(supervisor, livenessMs, () => {
      const reason = `it did not answer for ${livenessMs / 1000} s (--liveness)`;
      if (!this.#monitor.roster.supervisors.has(supervisor)) return;
      this.#watch({ type: "supervisor_lost", supervisor, reason, atMs: nowMs() });
    });
  }

  #watch(event: MonitorEvent): void {
    this.#stalls.look(); // a stall comes before whatever it has brought about
    for (const command of this.#monitor.handle(event)) this.#carryOut(command);
    this.#schedule();
  }

  #carryOut(command: MonitorCommand): void {
    switch (command.type) {
      case "abort":
        this.#rendezvous.handle({ type: "closed" });
        this.#switchboard.tellRanks({ type: "abort", ...this.#job, cause: command.cause });
        break;
      case "end":
        this.#switchboard.tellRanks({ type: "end", ...this.#job });
        break;
      case "terminate":
        this.#switchboard.tellSupervisors({ type: "terminate", ...this.#job, graceMs: command.graceMs });
        break;
      case "finished":
        this.#rendezvous.handle({ type: "closed" });
        if (this.#mayRestart()) this.#restart();
        else void this.#finish(command.exitCode);
        break;
    }
  }

  async #finish(exitCode: number): Promise<void> {
    const { programName: program, settings } = this.#options;
    const facts = {
      program,
      settings,
      epoch: this.#epoch,
      startedAtMs: this.#startedAtMs,
      finishedAtMs: nowMs(),
      addresses: this.#places.addresses,
      epochs: this.#epochs,
    };
    const failed = this.#failureFacts();
    const report = runReport(facts, this.#monitor, failed);
    const summary = failed === undefined ? "" : failureSummary(failed);
    // whoever waits for the outcome may leave at once, so the supervisors hear of it before
    await this.#switchboard.deliverToSupervisors({ type: "finished", exitCode });
    this.#outcome.resolve({ report, summary });
  }

  #failureFacts(): FailureFacts | undefined {
    const { failure, incidents, roster } = this.#monitor;
    const { logDir } = this.#options;
    return failure === null ? undefined : { failure, incidents, roster, startedAtMs: this.#startedAtMs, logDir };
  }

  #mayRestart(): boolean {
    const { failure, interrupted } = this.#monitor;
    if (failure === null || interrupted || !isRestartable(failure.cause)) return false;
    const { maxRestarts = 0, timeoutMs } = this.#options;
    return this.#epochs.length < maxRestarts && nowMs() < this.#startedAtMs + timeoutMs;
  }

  /** Everything of the failed epoch is gone: the supervisors that are left get the ranks of the next one. */
  #restart(): void {
    const facts = this.#failureFacts();
    if (facts === undefined) return;
    const atMs = nowMs();
    const summary = failureSummary(facts);
    this.#epochs.push({
      epoch: this.#epoch,
      wallMs: atMs - this.#epochStartedAtMs,
      failure: reportedFailure(facts),
    });
    this.#switchboard.dropRanks();
    this.#places.clear();
    this.#links.clear();
    this.#epochStartedAtMs = atMs;
    this.#rendezvous = this.#makeRendezvous();
    this.#monitor = this.#makeMonitor();
    this.#options.onRestart?.(summary);
    for (const supervisor of this.#switchboard.supervisors) {
      const { version, slots } = this.#switchboard.hello(supervisor, "join_supervisor");
      this.#meet({ type: "supervisor_joins", connection: supervisor, version, slots });
    }
  }

  #makeRendezvous(): Rendezvous {
    const { nranks, joinTimeoutMs } = this.#options.settings;
    return new Rendezvous({ ...this.#job, nranks, joinTimeoutMs, startedAtMs: this.#epochStartedAtMs });
  }

  #makeMonitor(): Monitor {
    const { settings, timeoutMs } = this.#options;
    const { nranks, graceMs } = settings;
    return new Monitor({ nranks, startedAtMs: this.#startedAtMs, timeoutMs, graceMs });
  }

  /** Number of the epoch that runs: so many have failed before it. */
  get #epoch(): number {
    return this.#epochs.length;
  }

  get #job(): { readonly job: string; readonly epoch: number } {
    return { job: this.#options.job, epoch: this.#epoch };
  }

  /** Sets the one timer to whatever is due next. */
  #schedule(): void {
    clearTimeout(this.#timer);
    const dueMs = Math.min(this.#rendezvous.deadlineMs ?? Infinity, this.#monitor.deadlineMs ?? Infinity);
    if (dueMs === Infinity || this.#monitor.phase === "finished") return;
    this.#timer = setTimeout(() => this.#tick(), Math.min(Math.max(dueMs - nowMs(), 0), TIMER_MS_MAX));
  }

  #tick(): void {
    const atMs = nowMs();
    this.#meet({ type: "tick", atMs });
    this.#watch({ type: "tick", atMs });
  }

  #describeJob(): unknown {
    const { job, settings } = this.#options;
    const ranks = this.#monitor.roster.ranks.map(({ rank, pid, host }) => {
      return { rank, pid, host, address: this.#places.address(rank) };
    });
    return { job, epoch: this.#epoch, nranks: settings.nranks, ranks };
  }
}

/** Longest time that a timer takes. */
const TIMER_MS_MAX = 2 ** 31 - 1;

const fromRank = ["ready", "state", "link_silent", "failed", "last_words", "goodbye"] as const satisfies MessageType[];
const fromSupervisor = [
  "spawned",
  "exited",
  "rank_stopped",
  "rank_states",
  "supervisor_failed",
  "cleared",
] as const satisfies MessageType[];

/** The message, or undefined once `refuse` has been told what is wrong with it. */
function decodeOr<T extends MessageType>(
  bytes: Uint8Array,
  expected: readonly T[],
  refuse: (error: RankwiseError) => void,
): MessageOf<T> | undefined {
  try {
    return decodeMessage(bytes, expected);
  } catch (error) {
    refuse(error as RankwiseError);
    return undefined;
  }
}

/** A clock that never jumps. */
function nowMs(): number {
  return Math.round(performance.now());
}
