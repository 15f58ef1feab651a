/**
 * Picks the first cause of a failure out of reports that arrive in any order over many connections.
 *
 * When a rank dies, its peers see closed links and say so; their reports may overtake the news of the death itself.
 * So what one rank says about another is *hearsay*: it is believed only when the accused has shown nothing of its own
 * for `CAUSE_SETTLE_MS`. What a rank says about itself, an exit that its supervisor saw, and a lost host are
 * first-hand. Accusations form chains (0 accuses 1, 1 accuses 2, 2 was killed): the cause is at a chain's end. Where a
 * chain runs in a circle and all of it lives, a link broke that has no better witness: the first to tell is believed.
 *
 * Pure: no I/O, no clock.
 */
import { CAUSE_SETTLE_MS, CIRCLE_SETTLE_MS } from "../shared/constants.ts";
import type { WireError } from "../shared/errors.ts";
import type { Cause } from "../shared/messages.ts";
import { describeExit, exitCause } from "./causes.ts";
import type { Roster } from "./roster.ts";

/** What a rank reported about itself or about another. */
export interface RankReportedFailure {
  readonly rank: number;
  readonly error: WireError;
  readonly call: string | null;
  readonly suspect: number | null;
  readonly atMs: number;
}

/** The reports of one run so far, and what they prove. It reads exits and hosts from the roster. */
export class FirstCause {
  readonly #roster: Roster;
  /** What set the question of the cause, in order of arrival; the earliest decides. */
  readonly #openings: Opening[] = [];
  /** First report of each rank. */
  readonly #reports = new Map<number, RankReportedFailure>();
  readonly #lostHosts = new Map<number, Cause>();
  readonly #stopped = new Map<number, Cause>();

  constructor(roster: Roster) {
    this.#roster = roster;
  }

  /** When `settled` will have an answer at the latest; undefined while nothing has failed. */
  get deadlineMs(): number | undefined {
    const [first] = this.#openings;
    if (first === undefined) return undefined;
    const circleMs = first.rank === null ? undefined : this.#circleClosedMs(first.rank);
    return Math.min(first.atMs + CAUSE_SETTLE_MS, circleMs === undefined ? Infinity : circleMs + CIRCLE_SETTLE_MS);
  }

  /** A rank has reported a failure. Reports of a group that has ended prove nothing. */
  addReport(report: RankReportedFailure): void {
    if (report.error.code === "ERR_GROUP_ENDED") return;
    if (!this.#reports.has(report.rank)) this.#reports.set(report.rank, report);
    this.#open({ atMs: report.atMs, rank: report.rank, believed: () => this.#fromReport(report) });
  }

  /** A rank's process has ended when it should not have; the roster holds the record. */
  addExit(rank: number, atMs: number): void {
    this.#open({ atMs, rank, believed: () => exitCause(this.#roster.rank(rank)) });
  }

  /** A rank's control link has closed before its goodbye. */
  addClosedLink(rank: number, atMs: number): void {
    const { pid, host } = this.#roster.rank(rank);
    const message = `rank ${rank} closed its control link without a goodbye, and its process is not known to have ended`;
    this.#open({ atMs, rank, believed: () => ({ rank, pid, host, code: "ERR_PEER_LOST", message, call: null }) });
  }

  /** A rank's process is stopped, as its supervisor has seen. */
  addStopped(cause: Cause, rank: number, atMs: number): void {
    this.#stopped.set(rank, cause);
    this.#open({ atMs, rank, believed: () => cause });
  }

  /** A host is lost with all its ranks. */
  addLostHost(cause: Cause, ranks: readonly number[], atMs: number): void {
    for (const rank of ranks) this.#lostHosts.set(rank, cause);
    this.addCertain(cause, atMs);
  }

  /** Something is certain and concerns no rank. */
  addCertain(cause: Cause, atMs: number): void {
    this.#open({ atMs, rank: null, believed: () => cause });
  }

  /**
   * The first cause, once it is certain or the time to learn better is over; undefined until then.
   * It does not change afterwards as long as nothing is added.
   */
  settled(atMs: number): Cause | undefined {
    const [first] = this.#openings;
    if (first === undefined) return undefined;
    if (first.rank === null) return first.believed();
    const expired = atMs >= (this.deadlineMs ?? Infinity);
    return this.#trace(first.rank, new Set(), expired) ?? (expired ? first.believed() : undefined);
  }

  #open(opening: Opening): void {
    this.#openings.push(opening);
  }

  /** First-hand evidence at the end of the chain of accusations that starts with this rank. */
  #trace(rank: number, visited: Set<number>, expired: boolean): Cause | undefined {
    visited.add(rank);
    const report = this.#reports.get(rank);
    if (report !== undefined) {
      const accused = accusedBy(report);
      if (accused === null) return this.#fromReport(report);
      const inCircle = visited.has(accused);
      const found = inCircle ? undefined : this.#trace(accused, visited, expired);
      // an end that follows an accusation proves nothing as long as the accused may prove more
      if (found !== undefined || (!inCircle && !expired)) return found;
    }
    const lost = this.#stopped.get(rank) ?? this.#lostHosts.get(rank);
    if (lost !== undefined) return lost;
    // While its link is open, the rank's own word on why it exits may still be under way.
    const entry = this.#roster.rank(rank);
    return entry.exit !== null && (entry.link !== "open" || expired) ? exitCause(entry) : undefined;
  }

  /** When the last accusation of a circle was made that starts with this rank, if all its ranks live; else undefined. */
  #circleClosedMs(start: number): number | undefined {
    const visited = new Set<number>();
    let closedMs = 0;
    for (let rank = start; !visited.has(rank);) {
      visited.add(rank);
      const report = this.#reports.get(rank);
      const accused = report === undefined ? null : accusedBy(report);
      const { exit, link } = this.#roster.rank(rank);
      if (report === undefined || accused === null || exit !== null || link !== "open") return undefined;
      closedMs = Math.max(closedMs, report.atMs);
      rank = accused;
    }
    return closedMs;
  }

  /** The cause that a report names: its sender, or the peer that sent a bad frame or was lost. */
  #fromReport(report: RankReportedFailure): Cause {
    const { error, call, rank } = report;
    const accused = report.suspect !== null && blamesPeer.has(error.code) ? report.suspect : rank;
    const { pid, host, exit } = this.#roster.rank(accused);
    const ended = accused !== rank && exit !== null ? `; rank ${accused} ${describeExit(exit)}` : "";
    const message = accused === rank ? error.message : `${error.message} (reported by rank ${rank})${ended}`;
    return { rank: accused, pid, host, code: error.code, message, call: accused === rank ? call : null };
  }
}

interface Opening {
  readonly atMs: number;
  /** Where the chain of accusations starts; null when the cause is certain. */
  readonly rank: number | null;
  /** The cause when nothing better has shown in time. */
  readonly believed: () => Cause;
}

/** Codes by which a rank reports what a peer did. */
const blamesPeer: ReadonlySet<string> = new Set([
  "ERR_PEER_LOST",
  "ERR_BAD_FRAME",
  "ERR_FRAME_BOUNDS",
  "ERR_FRAME_TOO_LARGE",
]);

/** The rank that a report accuses on hearsay. A bad frame is no hearsay: its receiver has seen it. */
function accusedBy(report: RankReportedFailure): number | null {
  if (report.error.code !== "ERR_PEER_LOST") return null;
  return report.suspect === report.rank ? null : report.suspect;
}
