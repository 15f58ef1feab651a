/** Who waits for what, as people read it. */
import type { CurrentCall, PendingWait } from "../shared/messages.ts";
import type { RankEntry, Roster } from "./roster.ts";

/** A row of a table, under its label. */
export function row(label: string, text: string): string {
  return `  ${label.padEnd(13)}${text}`;
}

/** The waits of a rank, one text each. What the missing ranks' processes do stands behind them. */
export function waitsOf(entry: RankEntry, roster: Roster): string[] {
  return waitRows(entry.rank, entry.state?.waits ?? [], roster);
}

function waitRows(rank: number, waits: readonly PendingWait[], roster: Roster): string[] {
  return waits.map((wait) => `rank ${rank}: ${describeWait(wait, roster)}`);
}

/** The calls that a rank is in, as one text. */
export function callsOf({ rank, state, process }: RankEntry): string {
  const silent = `did not report${process === null || process === "unknown" ? "" : `: its process is ${process}`}`;
  const calls = state?.calls.map(describeCall) ?? [silent];
  return `rank ${rank}: ${calls.length === 0 ? "in no call" : calls.join("; ")}`;
}

/** A rank whose process explains why it does not answer. */
export function processOf({ rank, process, state }: RankEntry): string[] {
  const telling = process === "stopped" || (process === "busy" && state === null);
  return telling ? [`rank ${rank}: ${process === "busy" ? "busy: it computes without yielding" : "stopped"}`] : [];
}

/** The picture of a group that still runs: for each rank where it is, then what it waits for. */
export function waitTable(roster: Roster, headline: string, answered: ReadonlySet<number>): string {
  const lines = roster.ranks.flatMap((entry) => {
    const { rank, pid, host, process, link } = entry;
    const place = `rank ${rank}, pid ${pid ?? "unknown"}, on ${host ?? "unknown"}, ${process ?? "unknown"}`;
    if (!answered.has(rank)) {
      return [row("rank", `${place}: ${link === "open" ? "did not answer" : "not connected"}`)];
    }
    const calls = entry.asked?.calls.map(describeCall) ?? [];
    return [
      row("rank", `${place}: ${calls.length === 0 ? "in no builtin call" : calls.join("; ")}`),
      ...waitRows(rank, entry.asked?.waits ?? [], roster).map((text) => row("waiting", text)),
    ];
  });
  return [headline, ...lines].join("\n");
}

function describeWait(wait: PendingWait, roster: Roster): string {
  const { call, signal, cell, compare, expected, current, ageMs } = wait;
  const age = `${call} for ${(ageMs / 1000).toFixed(1)} s`;
  const missing = wait.missing.map((rank) => describeRank(rank, roster));
  if (cell.length > 0) {
    const who = missing.length === 0 ? "" : `, missing ranks ${missing.join(", ")}`;
    return `${age} on "${signal}" [${cell.join(", ")}]: ${compare} ${expected}, now ${current}${who}`;
  }
  const about = signal === "" || call.includes(`"${signal}"`) ? "" : ` about "${signal}"`;
  const from = missing.length === 0 ? "" : ` rank${missing.length === 1 ? "" : "s"} ${missing.join(", ")}`;
  return `${age}${about}: waits for ${article(compare)}${compare}${from}`;
}

/** What is awaited is named as `acknowledgement from`, `reply from`, `publication by`, … */
function article(what: string): string {
  if (/^(?:the|an?|room|local) /u.test(what)) return "";
  return /^[aeiou]/u.test(what) ? "an " : "a ";
}

/** A rank, with what its process does where that explains its absence. */
function describeRank(rank: number, roster: Roster): string {
  const process = roster.ranks[rank]?.process;
  return process === "busy" || process === "stopped" ? `${rank} (${process})` : String(rank);
}

function describeCall(call: CurrentCall): string {
  return `${call.op} #${call.seq} of group [${call.group.join(", ")}]: ${call.arguments}`;
}
