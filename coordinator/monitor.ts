/**
 * Keeps a group alive or ends it as a whole: watches ranks and supervisors, settles the first cause of a failure,
 * and says when everything is over.
 *
 * ```text
 * running ── every rank said goodbye ──▶ ending ── every rank exited, or grace ──▶ clearing ──▶ finished
 *    └───────── a first cause ───────────────┴───────────────────────────────────────▲
 * ```
 *
 * A pure state machine: it does no I/O and reads no clock. Events go in, commands come out.
 */
import { CLEAR_MS, LAST_WORDS_MS, SIGTERM_SETTLE_MS, STALL_NEWS_MS } from "../shared/constants.ts";
import type { Cause } from "../shared/messages.ts";
import {
  exitCodeOf,
  followsFromStall,
  hostLostCause,
  interruptedCause,
  jobCause,
  linkCutCause,
  stalledCause,
  stoppedCause,
  timeoutCause,
} from "./causes.ts";
import { FirstCause } from "./first-cause.ts";
import { type Incident, incidentOf } from "./incidents.ts";
import type { Interrupt, MonitorCommand, MonitorEvent } from "./monitor-events.ts";
import { Roster } from "./roster.ts";

export interface MonitorOptions {
  readonly nranks: number;
  readonly startedAtMs: number;
  readonly timeoutMs: number;
  readonly graceMs: number;
}

/** How a failed run failed. */
export interface GroupFailure {
  readonly cause: Cause;
  readonly exitCode: number;
  readonly atMs: number;
}

/** The monitor of one group in one epoch. */
export class Monitor {
  readonly roster: Roster;
  /** Everything that went wrong, in order of arrival, the cause and its consequences alike. */
  readonly incidents: Incident[] = [];
  readonly #options: MonitorOptions;
  readonly #firstCause: FirstCause;
  #phase: "running" | "ending" | "clearing" | "finished" = "running";
  #phaseSinceMs: number;
  #failure: GroupFailure | null = null;
  #interrupts: { signal: Interrupt; atMs: number }[] = [];
  #killedAtMs: number | undefined;
  /** The latest stall of the coordinator. */
  #stall: { readonly stallMs: number; readonly atMs: number } | undefined;
  /** Time of the latest event: whatever was due until then has been done. */
  #nowMs: number;

  constructor(options: MonitorOptions) {
    this.#options = options;
    this.#phaseSinceMs = options.startedAtMs;
    this.#nowMs = options.startedAtMs;
    this.roster = new Roster(options.nranks);
    this.#firstCause = new FirstCause(this.roster);
  }

  get phase(): "running" | "ending" | "clearing" | "finished" {
    return this.#phase;
  }

  /** The failure, from the moment its cause is settled; null for a good run. */
  get failure(): GroupFailure | null {
    return this.#failure;
  }

  /** Whether somebody has asked for the end. */
  get interrupted(): boolean {
    return this.#interrupts.length > 0;
  }

  /** When a `tick` is due next; undefined when only an event can change anything. */
  get deadlineMs(): number | undefined {
    const least = Math.min(...this.#deadlinesMs().filter((time) => time > this.#nowMs));
    return least === Infinity ? undefined : least;
  }

  handle(event: MonitorEvent): MonitorCommand[] {
    if (this.#phase === "finished") return [];
    this.#nowMs = event.atMs;
    this.#record(event);
    const incident = incidentOf(event, this.roster);
    if (incident !== undefined) this.incidents.push(incident);
    const commands: MonitorCommand[] = [];
    // each phase may already be complete when it begins
    for (let phase: string | undefined; phase !== this.#phase;) {
      phase = this.#phase;
      commands.push(...this.#advance(event.atMs));
    }
    if (event.type === "interrupted" && this.#interrupts.length > 1) commands.push(...this.#kill(event.atMs));
    return commands;
  }

  #record(event: MonitorEvent): void {
    const { roster } = this;
    const { atMs } = event;
    switch (event.type) {
      case "supervisor_joined":
        roster.addSupervisor(event.supervisor, event.host, event.pid, event.ranks);
        break;
      case "spawned":
        roster.rank(event.rank).pid = event.pid;
        break;
      case "rank_joined":
        Object.assign(roster.rank(event.rank), { link: "open", pid: event.pid, host: event.host });
        break;
      case "rank_stopped": {
        const entry = roster.rank(event.rank);
        entry.process = "stopped";
        if (this.#phase === "clearing") break;
        this.#firstCause.addStopped(stoppedCause(entry, event.pid, event.stoppedMs), event.rank, atMs);
        break;
      }
      case "link_cut":
        if (this.#phase !== "running") break;
        this.#firstCause.addCertain(linkCutCause(roster.rank(event.peer), event.rank, event.silentMs), atMs);
        break;
      case "rank_states":
        for (const { rank, state } of event.states) roster.rank(rank).process = state;
        break;
      case "state":
        roster.rank(event.rank).asked = event.state;
        break;
      case "goodbye":
        Object.assign(roster.rank(event.rank), { goodbye: true, state: event.state });
        break;
      case "last_words":
        roster.rank(event.rank).state = event.state;
        break;
      case "rank_failed":
        // after the end links may close in any order
        if (event.error.code === "ERR_PEER_LOST" && this.#phase !== "running") break;
        this.#firstCause.addReport(event);
        break;
      case "rank_link_closed": {
        const entry = roster.rank(event.rank);
        entry.link = "closed";
        if (!entry.goodbye && this.#phase === "running") this.#firstCause.addClosedLink(event.rank, atMs);
        break;
      }
      case "rank_exited":
        this.#recordExit(event);
        break;
      case "supervisor_failed":
        this.#firstCause.addCertain(jobCause(event.error, roster.supervisor(event.supervisor).host), atMs);
        break;
      case "supervisor_lost": {
        const supervisor = roster.supervisor(event.supervisor);
        if (supervisor.status !== "present") break;
        supervisor.status = "lost";
        this.#firstCause.addLostHost(hostLostCause(supervisor, event.reason), supervisor.ranks, atMs);
        break;
      }
      case "cleared": {
        const supervisor = roster.supervisor(event.supervisor);
        if (supervisor.status === "present") supervisor.status = "cleared";
        break;
      }
      case "rendezvous_failed":
        this.#firstCause.addCertain(jobCause(event.error, null), atMs);
        break;
      case "stalled":
        this.#stall = event;
        break;
      case "interrupted":
        this.#interrupts.push({ signal: event.signal, atMs });
        break;
      case "tick":
        break;
    }
  }

  #recordExit(event: Extract<MonitorEvent, { type: "rank_exited" }>): void {
    const entry = this.roster.rank(event.rank);
    const ordered = this.#phase === "clearing";
    const hurried = this.#killedAtMs !== undefined && this.#killedAtMs < this.#phaseSinceMs + this.#options.graceMs;
    entry.exit = { exitCode: event.exitCode, signal: event.signal, atMs: event.atMs, ordered, hurried };
    const good = entry.goodbye && event.exitCode === 0;
    if (!good && !ordered) this.#firstCause.addExit(event.rank, event.atMs);
  }

  #advance(atMs: number): MonitorCommand[] {
    switch (this.#phase) {
      case "running":
        return this.#failed(atMs) ?? (this.roster.ranks.every((rank) => rank.goodbye) ? this.#end(atMs) : []);
      case "ending":
        return this.#failed(atMs) ?? this.#ended(atMs);
      case "clearing":
        return this.#clearing(atMs);
      case "finished":
        return [];
    }
  }

  /** Ends the group when there is a reason to. */
  #failed(atMs: number): MonitorCommand[] | undefined {
    const cause = this.#causeOf(atMs);
    if (cause === undefined) return undefined;
    this.#fail(cause, atMs);
    this.#enter("clearing", atMs);
    return [
      { type: "abort", cause },
      { type: "terminate", graceMs: this.#options.graceMs },
    ];
  }

  #causeOf(atMs: number): Cause | undefined {
    const { startedAtMs, timeoutMs } = this.#options;
    const settled = this.#firstCause.settled(atMs);
    if (settled !== undefined) return this.#stallBehind(settled, atMs) ?? settled;
    const [first, second] = this.#interrupts;
    if (first !== undefined && (first.signal === "SIGINT" || second !== undefined || atMs >= this.#sigtermDeadlineMs)) {
      return interruptedCause(first.signal);
    }
    return this.#phase === "running" && atMs >= startedAtMs + timeoutMs ? timeoutCause(timeoutMs) : undefined;
  }

  /** A coordinator that was stopped itself names no rank for what followed from that. */
  #stallBehind(cause: Cause, atMs: number): Cause | undefined {
    const stall = this.#stall;
    const exit = cause.rank === null ? null : this.roster.rank(cause.rank).exit;
    const recent = stall !== undefined && atMs < stall.atMs + STALL_NEWS_MS;
    return recent && followsFromStall(cause, exit) ? stalledCause(stall.stallMs) : undefined;
  }

  #fail(cause: Cause, atMs: number): void {
    const exit = cause.rank === null ? null : this.roster.rank(cause.rank).exit;
    const exitCode = exitCodeOf(cause, exit, this.#interrupts[0]?.signal);
    this.#failure = { cause, exitCode, atMs };
  }

  #end(atMs: number): MonitorCommand[] {
    this.#enter("ending", atMs);
    return [{ type: "end" }];
  }

  #ended(atMs: number): MonitorCommand[] {
    const over = this.roster.ranks.every((entry) => this.roster.isOver(entry));
    if (!over && atMs < this.#phaseSinceMs + this.#options.graceMs) return [];
    this.#enter("clearing", atMs);
    return [{ type: "terminate", graceMs: this.#options.graceMs }];
  }

  #clearing(atMs: number): MonitorCommand[] {
    const late = atMs >= this.#clearDeadlineMs;
    const supervisors = [...this.roster.supervisors.values()];
    const uncleared = supervisors.filter((supervisor) => supervisor.status === "present");
    if (!late && (uncleared.length > 0 || this.#strangersRun() || this.#lastWordsDue(atMs))) return [];
    if (this.#failure === null) {
      const [host] = uncleared;
      const cause =
        this.#firstCause.settled(atMs + CLEAR_MS) ??
        (host === undefined ? undefined : hostLostCause(host, "it did not confirm that its processes are gone"));
      if (cause !== undefined) this.#fail(cause, atMs);
    }
    this.#enter("finished", atMs);
    return [{ type: "finished", exitCode: this.#failure?.exitCode ?? 0 }];
  }

  /** Whether a rank that no supervisor answers for still holds its link. */
  #strangersRun(): boolean {
    return this.roster.ranks.some((entry) => entry.supervisor === null && entry.link === "open");
  }

  #lastWordsDue(atMs: number): boolean {
    if (this.#failure === null || atMs >= this.#lastWordsDeadlineMs) return false;
    return this.roster.ranks.some((entry) => entry.link === "open" && entry.state === null);
  }

  #kill(atMs: number): MonitorCommand[] {
    if (this.#phase === "finished" || this.#killedAtMs !== undefined) return [];
    this.#killedAtMs = atMs;
    return [{ type: "terminate", graceMs: 0 }];
  }

  #deadlinesMs(): number[] {
    const { startedAtMs, timeoutMs, graceMs } = this.#options;
    const causeMs = this.#firstCause.deadlineMs ?? Infinity;
    switch (this.#phase) {
      case "running":
        return [startedAtMs + timeoutMs, causeMs, this.#sigtermDeadlineMs];
      case "ending":
        return [this.#phaseSinceMs + graceMs, causeMs, this.#sigtermDeadlineMs];
      case "clearing":
        return [this.#lastWordsDeadlineMs, this.#clearDeadlineMs];
      case "finished":
        return [];
    }
  }

  #enter(phase: "ending" | "clearing" | "finished", atMs: number): void {
    this.#phase = phase;
    this.#phaseSinceMs = atMs;
  }

  get #sigtermDeadlineMs(): number {
    const [first] = this.#interrupts;
    return first === undefined ? Infinity : first.atMs + SIGTERM_SETTLE_MS;
  }

  get #lastWordsDeadlineMs(): number {
    return this.#phaseSinceMs + LAST_WORDS_MS;
  }

  get #clearDeadlineMs(): number {
    if (this.#killedAtMs !== undefined) return this.#killedAtMs + CLEAR_MS / 2;
    return this.#phaseSinceMs + this.#options.graceMs + CLEAR_MS;
  }
}
