/** A failure as people read it: the first cause, then its consequences, then where each rank was. */
import type { CurrentCall, PendingWait } from "../shared/messages.ts";
import type { Failure } from "../shared/report.ts";
import { describeExit } from "./causes.ts";
import type { Incident } from "./incidents.ts";
import type { GroupFailure } from "./monitor.ts";
import type { RankEntry, Roster } from "./roster.ts";

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
export function reportedFailure({ cause }: GroupFailure, roster: Roster): Failure {
  const exit = cause.rank === null ? null : roster.rank(cause.rank).exit;
  return { ...cause, exitCode: exit?.exitCode ?? null, signal: exit?.signal ?? null };
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
    ...capped(consequences(facts), "consequences").map((text) => row("consequence", text)),
    ...capped(roster.ranks.flatMap(waitsOf), "waits").map((text) => row("waiting", text)),
    ...(cause.code === "ERR_MISMATCH" ? callTable(roster).map((text) => row("calls", text)) : []),
    ...endings(roster).map((text) => row("ended", text)),
  ];
  if (logDir !== undefined && cause.rank !== null) lines.push(row("output", `${logDir}/rank-${cause.rank}.{out,err}`));
  lines.push(row("exit code", String(exitCode)));
  return lines.join("\n");
}

function row(label: string, text: string): string {
  return `  ${label.padEnd(13)}${text}`;
}

function consequences(facts: FailureFacts): string[] {
  const { failure, incidents } = facts;
  return incidents
    .filter((incident) => !isCause(incident, failure))
    .map((incident) => {
      const who = incident.rank === null ? `host ${incident.host ?? "of the coordinator"}` : `rank ${incident.rank}`;
      const [message = ""] = incident.message.split("\n");
      return `${timeOf(facts, incident.atMs)}  ${who}: ${incident.code}${during(incident.call)}: ${message}`;
    });
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

function waitsOf(entry: RankEntry): string[] {
  return (entry.state?.waits ?? []).map((wait) => `rank ${entry.rank}: ${describeWait(wait)}`);
}

function describeWait(wait: PendingWait): string {
  const cell = wait.cell.length === 0 ? "" : ` [${wait.cell.join(", ")}]`;
  const missing = wait.missing.length === 0 ? "" : `, missing ranks ${wait.missing.join(", ")}`;
  const { call, signal, compare, expected, current, ageMs } = wait;
  return `${call} for ${(ageMs / 1000).toFixed(1)} s on "${signal}"${cell}: ${compare} ${expected}, now ${current}${missing}`;
}

function callTable(roster: Roster): string[] {
  return roster.ranks.map(({ rank, state }) => {
    const calls = state?.calls.map(describeCall) ?? ["did not report"];
    return `rank ${rank}: ${calls.length === 0 ? "in no call" : calls.join("; ")}`;
  });
}

function describeCall(call: CurrentCall): string {
  return `${call.op} #${call.seq} of group [${call.group.join(", ")}]: ${call.arguments}`;
}

/** How the ranks ended, alike endings in one row. */
function endings(roster: Roster): string[] {
  const byEnding = new Map<string, number[]>();
  for (const { rank, exit, pid } of roster.ranks) {
    const stubborn = exit !== null && exit.ordered && exit.signal === "SIGKILL";
    const ending = exit === null ? undefined : `${describeExit(exit)}${stubborn ? " after the grace" : ""}`;
    const text = ending ?? (pid === null ? "never started" : "end not seen");
    byEnding.set(text, [...(byEnding.get(text) ?? []), rank]);
  }
  return [...byEnding].map(([text, ranks]) => `rank${ranks.length === 1 ? "" : "s"} ${ranks.join(", ")}: ${text}`);
}

function capped(rows: readonly string[], what: string): string[] {
  if (rows.length <= SUMMARY_ROWS_MAX) return [...rows];
  return [...rows.slice(0, SUMMARY_ROWS_MAX), `… and ${rows.length - SUMMARY_ROWS_MAX} more ${what}`];
}
