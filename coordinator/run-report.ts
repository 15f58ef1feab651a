/** The report of a run, put together from what the coordinator saw and what the ranks said of themselves. */
import { randomUUID } from "node:crypto";
import { realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { platforms, type TransportName } from "../shared/config.ts";
import type { Settings } from "../shared/messages.ts";
import type { EpochReport, RunReport } from "../shared/report.ts";
import { type FailureFacts, reportedConsequences, reportedFailure } from "./failure.ts";
import type { Monitor } from "./monitor.ts";

/** What the monitor does not know of a run. */
export interface RunFacts {
  /** As the command line named it. */
  readonly program: string;
  readonly settings: Settings;
  readonly epoch: number;
  readonly startedAtMs: number;
  readonly finishedAtMs: number;
  /** Addresses of the ranks that joined. */
  readonly addresses: readonly string[];
  /** Failed epochs before this one. */
  readonly epochs: readonly EpochReport[];
}

/** The report of a finished run. */
export function runReport(
  facts: RunFacts,
  { roster }: Pick<Monitor, "roster">,
  failed: FailureFacts | undefined,
): RunReport {
  const { settings } = facts;
  return {
    ok: failed === undefined,
    program: facts.program,
    mode: settings.mode,
    platform: settings.platform,
    lanesMax: settings.lanesMax ?? platforms[settings.platform].lanesMax,
    sqDepth: settings.sqDepth ?? platforms[settings.platform].sqDepth,
    nranks: settings.nranks,
    epoch: facts.epoch,
    transport: transportOf(settings.transport, facts.addresses),
    wallMs: facts.finishedAtMs - facts.startedAtMs,
    exitCode: failed?.failure.exitCode ?? 0,
    failure: failed === undefined ? null : reportedFailure(failed),
    consequences: failed === undefined ? [] : reportedConsequences(failed),
    epochs: [...facts.epochs],
    ranks: roster.ranks.map(({ rank, pid, host, exit, state, process }) => ({
      rank,
      pid,
      host,
      exitCode: exit?.exitCode ?? null,
      signal: exit?.signal ?? null,
      counters: state?.counters ?? null,
      queues: state?.queues ?? [],
      process: failed === undefined ? null : process,
      waits: state?.waits ?? [],
    })),
  };
}

/** Writes a file so that a reader meets the old one or the whole new one. */
export async function writeAtomically(path: string, text: string): Promise<void> {
  // a link keeps pointing where it did, and a pipe or a device is written to, never replaced
  const target = await realpath(path).catch(() => path);
  const found = await stat(target).catch(() => undefined);
  if (found !== undefined && !found.isFile()) {
    await writeFile(target, text);
    return;
  }
  const partial = `${target}.${randomUUID()}.part`;
  try {
    await writeFile(partial, text);
    await rename(partial, target);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}

/** What `auto` has become. */
function transportOf(asked: TransportName, addresses: readonly string[]): TransportName {
  if (asked !== "auto" || addresses.length === 0) return asked;
  return addresses.every((address) => address.startsWith("unix:")) ? "unix" : "tcp";
}
