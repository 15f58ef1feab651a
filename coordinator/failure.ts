/** A failure as people read it: the first cause, then its consequences, then where each rank was. */
import type { Consequence, Failure } from "../shared/report.ts";
import { describeExit } from "./causes.ts";
import type { Incident } from "./incidents.ts";
import type { GroupFailure } from "./monitor.ts";
import type { Roster } from "./roster.ts";
import { callsOf, processOf, row, waitsOf } from "./wait-table.ts";

/** Most rows of one kind that a summary prints. */
const SUMMARY_ROWS_MAX = 20;

/** What a summary is made of. */
export interface FailureFacts {
  readonly failure: GroupFailure;
  readonly incidents: readonly Incident[];
  readonly roster: Roster;
  readonly startedAtMs: number;
  /** Folder of the ranks' output, where one was asked for. */
  readonly logDir: string | undefined;
}

/** The first cause as the report holds it. */
export function reportedFailure(facts: FailureFacts): Failure {
  const { failure, roster, startedAtMs, logDir } = facts;
  const { cause } = failure;
  const exit = cause.rank === null ? null : roster.rank(cause.rank).exit;
  return {
    ...cause,
    atMs: causeTimeMs(facts) - startedAtMs,
    exitCode: exit?.exitCode ?? null,
    signal: exit?.signal ?? null,
    logs: logDir === undefined || cause.rank === null ? [] : logsOf(logDir, cause.rank),
  };
}

/** What followed from the first cause, as the report holds it. */
export function reportedConsequences(facts: FailureFacts): Consequence[] {
  return consequences(facts).map((incident) => ({ ...incident, atMs: incident.atMs - facts.startedAtMs }));
}

/** The text that a failed run prints: one line that says it all, then indented rows. Ends without a newline. */
export function failureSummary(facts: FailureFacts): string {
  const { failure, roster, logDir } = facts;
  const { cause, exitCode } = failure;
  const [headline = "", ...details] = cause.message.split("\n");
  const told = `rankwise: ${cause.code}: ${headline}`;
  if (roster.ranks.every(({ pid }) => pid === null)) return [told, ...details].join("\n"); // nothing had been started
  const lines = [
    told,
    row("first cause", `${timeOf(facts, causeTimeMs(facts))}  ${place(cause)}${during(cause.call)}`),
    ...capped(details, "lines").map((line) => `      ${line}`),
    ...capped(
      consequences(facts).map((incident) => describeIncident(incident, facts)),
      "consequences",
    ).map((text) => row("consequence", text)),
    // ranks that disagree wait for each other in vain: what they are in says more
    ...(cause.code === "ERR_MISMATCH"
      ? roster.ranks.map((entry) => row("calls", callsOf(entry)))
      : capped(
          roster.ranks.flatMap((entry) => waitsOf(entry, roster)),
          "waits",
        ).map((text) => row("waiting", text))),
    ...roster.ranks.flatMap(processOf).map((text) => row("process", text)),
    ...endings(roster).map((text) => row("ended", text)),
  ];
  if (logDir !== undefined && cause.rank !== null) lines.push(row("output", logsOf(logDir, cause.rank).join(" ")));
  lines.push(row("exit code", String(exitCode)));
  return lines.join("\n");
}

function logsOf(logDir: string, rank: number): string[] {
  return ["out", "err"].map((stream) => `${logDir}/rank-${rank}.${stream}`);
}

function consequences({ failure, incidents }: FailureFacts): Incident[] {
  return incidents.filter((incident) => !isCause(incident, failure));
}

function describeIncident(incident: Incident, facts: FailureFacts): string {
  const who = incident.rank === null ? `host ${incident.host ?? "of the coordinator"}` : `rank ${incident.rank}`;
  const [message = ""] = incident.message.split("\n");
  return `${timeOf(facts, incident.atMs)}  ${who}: ${incident.code}${during(incident.call)}: ${message}`;
}

function isCause(incident: Incident, { cause }: GroupFailure): boolean {
  return incident.rank === cause.rank && incident.code === cause.code;
}

function causeTimeMs({ failure, incidents }: FailureFacts): number {
  return incidents.find((incident) => isCause(incident, failure))?.atMs ?? failure.atMs;
}

function timeOf({ startedAtMs }: FailureFacts, atMs: number): string {
  return `+${((atMs - startedAtMs) / 1000).toFixed(3)} s`;
}

function place({ rank, pid, host }: { rank: number | null; pid: number | null; host: string | null }): string {
  const parts = [
    rank === null ? "" : `rank ${rank}`,
    pid === null ? "" : `pid ${pid}`,
    host === null ? "" : `on ${host}`,
  ];
  return parts.filter((part) => part !== "").join(", ") || "the coordinator";
}

function during(call: string | null): string {
  return call === null ? "" : ` in ${call}`;
}

/** How the ranks ended, alike endings in one row. */
function endings(roster: Roster): string[] {
  const byEnding = new Map<string, number[]>();
  for (const { rank, exit, pid } of roster.ranks) {
    const stubborn = exit !== null && exit.ordered && exit.signal === "SIGKILL";
    const when = stubborn ? (exit.hurried ? " at the second signal" : " after the grace") : "";
    const ending = exit === null ? undefined : `${describeExit(exit)}${when}`;
    const text = ending ?? (pid === null ? "never started" : "end not seen");
    byEnding.set(text, [...(byEnding.get(text) ?? []), rank]);
  }
  return [...byEnding].map(([text, ranks]) => `rank${ranks.length === 1 ? "" : "s"} ${ranks.join(", ")}: ${text}`);
}

function capped(rows: readonly string[], what: string): string[] {
  if (rows.length <= SUMMARY_ROWS_MAX) return [...rows];
  return [...rows.slice(0, SUMMARY_ROWS_MAX), `… and ${rows.length - SUMMARY_ROWS_MAX} more ${what}`];
}
