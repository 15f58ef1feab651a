/** Ends process groups and proves that they are gone. */
import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { CLEAR_MS } from "../shared/constants.ts";

/** How often a group that is about to end is looked at. */
const POLL_MS = 20;

/** What an ending found. */
export interface Termination {
  /** Groups of which something still runs; empty unless a process cannot be killed. */
  readonly left: readonly number[];
}

/**
 * Ends process groups: SIGTERM, after `graceMs` SIGKILL to what is left. Resolves as soon as nothing of them runs,
 * grandchildren included, and `CLEAR_MS` after the grace at the latest. `hurry` ends the grace early.
 */
export async function terminateGroups(
  groups: readonly number[],
  graceMs: number,
  hurry?: AbortSignal,
): Promise<Termination> {
  let left = await livingGroups(groups);
  const startMs = performance.now();
  if (graceMs > 0) for (const group of left) signalGroup(group, "SIGTERM");
  while (left.length > 0 && performance.now() < startMs + graceMs && hurry?.aborted !== true) {
    await sleep(POLL_MS);
    left = await livingGroups(left);
  }
  const killMs = performance.now();
  while (left.length > 0 && performance.now() < killMs + CLEAR_MS) {
    for (const group of left) signalGroup(group, "SIGKILL"); // again and again: a group may have forked meanwhile
    await sleep(POLL_MS);
    left = await livingGroups(left);
  }
  return { left };
}

/**
 * Those of the groups of which a process runs. One that has ended and was never waited for does not count: where the
 * first process of a container reaps no orphans, these stay for ever, and signals still find them.
 */
export async function livingGroups(groups: readonly number[]): Promise<number[]> {
  const found = groups.filter((group) => signalGroup(group, 0));
  if (found.length === 0) return [];
  const running = await groupsOfRunningProcesses();
  return running === undefined ? found : found.filter((group) => running.has(group));
}

/** Sends a signal to every process of a group; false when there is none. */
export function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(-group, signal);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

/** Process groups with a member that is no zombie; undefined where there is no `/proc`. */
async function groupsOfRunningProcesses(): Promise<Set<number> | undefined> {
  const entries = await readdir("/proc").catch(() => undefined);
  if (entries === undefined) return undefined;
  const groups = new Set<number>();
  for (const entry of entries) {
    if (!/^\d+$/u.test(entry)) continue;
    const stat = await readFile(`/proc/${entry}/stat`, "utf8").catch(() => "");
    // pid (name) state ppid pgrp …; the name may hold anything, so read from its last parenthesis
    const [state, , pgrp] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (pgrp !== undefined && state !== "Z" && state !== "X") groups.add(Number(pgrp));
  }
  return groups;
}
