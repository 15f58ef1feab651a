/**
 * How a job grows with its ranks, 2 to 32 on this machine: from the command to the first barrier on the clock and in
 * processor time of all its processes, memory and sockets of a rank, and calls back to back. `--runs` starts are measured
 * for each number of ranks, medians. Targets are judged in words, for the machine may have other work.
 */
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import type { BenchResult } from "../../rank/bench/plan.ts";
import type { FirstBarrier } from "../fixtures/programs/first-barrier.ts";
import { runCli, startCli } from "../helpers/cli.ts";
import { fixtureProgram } from "../helpers/run.ts";
import { median } from "../peers/table.ts";
import type { Campaign } from "./campaign.ts";

const RANKS = [2, 3, 4, 6, 8, 12, 16, 24, 32];

/** What eight ranks may take to their first barrier, all processes together, and each in memory beside its windows. */
const TARGET = { nranks: 8, cpuMs: 3000, rssMib: 80 };

const CHUNK_BYTES = 1024;

/** Hundredths of a second: the unit of /proc/PID/stat (USER_HZ). */
const TICK_MS = 10;

/** One start. */
interface Start {
  readonly wallMs: number;
  readonly cpuMs: number;
  /** Of the largest rank. */
  readonly rssMib: number;
  readonly pssMib: number;
  readonly sockets: number;
}

export const campaign: Campaign = {
  runs: 3,
  async start({ runs, say }) {
    if (process.platform !== "linux") throw new Error("processes are looked at through /proc: this needs Linux");
    say(`load ${loadavg()[0]?.toFixed(1) ?? "?"} on ${cpus().length} processors; medians of ${runs} starts`);
    say("     to the first barrier          of a rank                    back to back, µs");
    say("  P    ms   CPU ms   a rank   RSS MiB  PSS MiB  sockets     barrier  all_to_all 1 KiB");
    const lines: { readonly nranks: number; readonly start: Start; readonly times: readonly number[] }[] = [];
    for (const nranks of RANKS) {
      const starts: Start[] = [];
      for (let run = 0; run < runs; run++) starts.push(await firstBarrier(nranks));
      const start = medians(starts);
      const times = await backToBack(nranks);
      lines.push({ nranks, start, times });
      say(
        [
          ...[column(nranks, 3), column(start.wallMs, 6), column(start.cpuMs, 9), column(start.cpuMs / nranks, 9)],
          ...[column(start.rssMib, 10), column(start.pssMib, 9), column(start.sockets, 9)],
          ...times.map((us) => column(us, 12)),
        ].join(""),
      );
    }
    const [few, many] = [lines.find(({ nranks }) => nranks === 8), lines.at(-1)];
    if (few === undefined || many === undefined) return;
    const grown = (of: (line: (typeof lines)[number]) => number): string =>
      (Math.log(of(many) / of(few)) / Math.log(many.nranks / few.nranks)).toFixed(1);
    say(
      `from ${few.nranks} to ${many.nranks} ranks: wall P^${grown(({ start }) => start.wallMs)},` +
        ` CPU P^${grown(({ start }) => start.cpuMs)}, barrier P^${grown(({ times }) => times[0] ?? 1)},` +
        ` all_to_all P^${grown(({ times }) => times[1] ?? 1)}`,
    );
    const met = (value: number, most: number): string =>
      `${Math.round(value)} of ${most}: ${value <= most ? "met" : "missed"}`;
    say(
      `${TARGET.nranks} ranks: CPU ms ${met(few.start.cpuMs, TARGET.cpuMs)}; RSS MiB ${met(few.start.rssMib, TARGET.rssMib)}`,
    );
  },
};

/** Starts a job and looks at it when its last rank has passed the first barrier. */
async function firstBarrier(nranks: number): Promise<Start> {
  const mark = `scale-${process.pid}-${nranks}-${performance.now()}`;
  const startedMs = Date.now();
  await using job = await startCli(["run", fixtureProgram("first-barrier"), "-n", String(nranks)], {
    env: { RANKWISE_SCALE_MARK: mark },
    timeoutMs: 120_000,
  });
  const told: FirstBarrier[] = [];
  for (let rank = 0; rank < nranks; rank++) {
    const [, line = ""] = await job.says(new RegExp(`^\\[${rank}\\] (\\{.*\\})$`, "mu"));
    told.push(JSON.parse(line) as FirstBarrier);
  }
  const cpuMs = await processorMs(`RANKWISE_SCALE_MARK=${mark}`);
  const { exitCode, text } = await job.ended;
  if (exitCode !== 0) throw new Error(`the job failed\n${text}`);
  const most = (of: (line: FirstBarrier) => number): number => Math.max(...told.map(of));
  return {
    wallMs: most(({ atMs }) => atMs) - startedMs,
    cpuMs,
    rssMib: most(({ rssKib }) => rssKib) / 1024,
    pssMib: most(({ pssKib }) => pssKib) / 1024,
    sockets: most(({ sockets }) => sockets),
  };
}

/** Processor time of all processes with a mark, and of children that they have waited for. */
async function processorMs(mark: string): Promise<number> {
  let ticks = 0;
  for (const entry of (await readdir("/proc")).filter((name) => /^\d+$/u.test(name))) {
    const read = (name: string): Promise<string> => readFile(`/proc/${entry}/${name}`, "utf8").catch(() => "");
    if (!(await read("environ")).includes(mark)) continue;
    const stat = await read("stat");
    // the name in parentheses may hold spaces; utime, stime, cutime and cstime are fields 14 to 17
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    for (const field of fields.slice(11, 15)) ticks += Number(field);
  }
  return ticks * TICK_MS;
}

/** Microseconds of a barrier, and of an all_to_all. */
async function backToBack(nranks: number): Promise<number[]> {
  const folder = await mkdtemp(join(tmpdir(), "t-"));
  try {
    const file = join(folder, "bench.json");
    const size = String(CHUNK_BYTES * nranks);
    const args = ["bench", "barrier", "all_to_all", "-n", String(nranks), "-b", size, "-e", size, "-J", file];
    const { exitCode, text } = await runCli(args, { timeoutMs: 300_000 });
    if (exitCode !== 0) throw new Error(`the benchmark failed\n${text}`);
    const { results } = JSON.parse(await readFile(file, "utf8")) as { results: BenchResult[] };
    return results.map(({ timeUs }) => timeUs);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function medians(starts: readonly Start[]): Start {
  const of = (what: keyof Start): number => median(starts.map((start) => start[what]));
  return {
    wallMs: of("wallMs"),
    cpuMs: of("cpuMs"),
    rssMib: of("rssMib"),
    pssMib: of("pssMib"),
    sockets: of("sockets"),
  };
}

function column(value: number, width: number): string {
  return (
    value < 100 ? value.toFixed(value < 10 && !Number.isInteger(value) ? 1 : 0) : String(Math.round(value))
  ).padStart(width);
}
