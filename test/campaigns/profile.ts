/**
 * Where the time of a call goes, at 64 bytes and 4 MiB for each peer, P = 2: functions of rank 0 by their own time, its
 * system calls for each call, and the bytes that JavaScript copies for each byte of payload. Arguments are rows of the
 * collectives table, or `put` and `get`; all_to_all without any. `--runs` is the number of calls of 64 bytes.
 *
 * Ranks get Node options by `--env NODE_OPTIONS`, which does not take `--cpu-prof`, and all of them would write; so the
 * program starts the profiler itself, behind its warm-up.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { SourceMap, type SourceMapPayload } from "node:module";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { FunctionTime } from "../fixtures/programs/profile.ts";
import { runCli, startCli } from "../helpers/cli.ts";
import { fixtureProgram, rankLines } from "../helpers/run.ts";
import type { Campaign } from "./campaign.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

const SMALL_BYTES = 64;
const LARGE_BYTES = 4 * 1024 * 1024;

/** Calls of LARGE_BYTES for one of SMALL_BYTES. */
const LARGE_PART = 1 / 20;

const FUNCTIONS = 15;
const RUN_MS = 300_000;

export const campaign: Campaign = {
  takes: "rows of the collectives table, put, get",
  runs: 4000,
  async start({ runs, args, say }) {
    const rows = args.length === 0 ? ["all_to_all"] : args;
    for (const row of rows) {
      for (const bytes of row === "barrier" ? [SMALL_BYTES] : [SMALL_BYTES, LARGE_BYTES]) {
        const calls = bytes === SMALL_BYTES ? runs : Math.max(10, Math.ceil(runs * LARGE_PART));
        say(`${row}, ${bytes} bytes, P = 2, ${calls} calls`);
        for (const line of await functions(row, bytes, calls)) say(`  ${line}`);
        for (const line of await systemCalls(row, bytes, calls)) say(`  ${line}`);
      }
    }
    for (const row of new Set([...rows.filter((name) => name !== "barrier"), "put", "get"])) {
      for (const line of await copies(row, Math.max(10, Math.ceil(runs * LARGE_PART)))) say(line);
    }
  },
};

function programArgs(what: string, row: string, bytes: number, calls: number): string[] {
  return ["run", fixtureProgram("profile"), "-n", "2", "--", what, row, String(bytes), String(calls)];
}

/** Functions of rank 0 by their own time. */
async function functions(row: string, bytes: number, calls: number): Promise<string[]> {
  const { exitCode, stderr, text } = await runCli(programArgs("functions", row, bytes, calls), { timeoutMs: RUN_MS });
  if (exitCode !== 0) throw new Error(`the run failed\n${text}`);
  const found = JSON.parse(rankLines(stderr)[0] ?? "") as FunctionTime[];
  const totalMs = found.reduce((sum, { selfMs }) => sum + selfMs, 0);
  const lines = [`own time of rank 0: ${((totalMs * 1000) / calls).toFixed(1)} µs a call on the clock, of which`];
  for (const { selfMs, ...where } of found.slice(0, FUNCTIONS)) {
    const us = ((selfMs * 1000) / calls).toFixed(2).padStart(10);
    lines.push(`${us} µs ${((selfMs / totalMs) * 100).toFixed(1).padStart(5)} %  ${await place(where)}`);
  }
  return lines;
}

const maps = new Map<string, SourceMap | undefined>();

/** A function, and where it stands in the sources. */
async function place({ name, url, line, column }: Omit<FunctionTime, "selfMs">): Promise<string> {
  const shown = name === "" ? "(anonymous)" : name;
  if (!url.startsWith("file:") || !fileURLToPath(url).startsWith(join(root, "dist"))) {
    return url === "" || !url.startsWith("file:") ? `${shown} ${url}`.trim() : `${shown} (program)`;
  }
  const path = fileURLToPath(url);
  if (!maps.has(path)) {
    const text = await readFile(`${path}.map`, "utf8").catch(() => undefined);
    maps.set(path, text === undefined ? undefined : new SourceMap(JSON.parse(text) as SourceMapPayload));
  }
  const entry = maps.get(path)?.findEntry(line, column);
  if (entry === undefined || !("originalSource" in entry)) return `${shown} ${relative(root, path)}:${line + 1}`;
  return `${shown} ${relative(root, join(path, "..", entry.originalSource))}:${entry.originalLine + 1}`;
}

/** System calls of rank 0, all its threads, for each call. */
async function systemCalls(row: string, bytes: number, calls: number): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), "t-"));
  try {
    await using job = await startCli(programArgs("syscalls", row, bytes, calls), { timeoutMs: RUN_MS });
    const [, pid = ""] = await job.says(/"warm":(\d+)/u);
    const file = join(folder, "strace");
    const tracer = spawn("strace", ["-c", "-f", "-p", pid, "-o", file], { stdio: ["ignore", "ignore", "pipe"] });
    const attached = await Promise.race([
      once(tracer.stderr, "data").then(() => undefined),
      once(tracer, "error").then(() => "there is no strace"),
      once(tracer, "exit").then(() => "strace may not trace here"),
    ]);
    process.kill(Number(pid), "SIGUSR2");
    await job.says(/"done":/u);
    if (attached === undefined) {
      tracer.kill("SIGINT");
      await once(tracer, "exit");
    }
    process.kill(Number(pid), "SIGUSR2");
    const { exitCode, text } = await job.ended;
    if (exitCode !== 0) throw new Error(`the run failed\n${text}`);
    return attached === undefined ? perCall(await readFile(file, "utf8"), calls) : [`system calls: ${attached}`];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The table of `strace -c`, for one call. */
function perCall(table: string, calls: number): string[] {
  const rows = table.split("\n").flatMap((line) => {
    const [, , , count, ...rest] = line.trim().split(/\s+/u);
    const name = rest.at(-1);
    return count !== undefined && /^\d+$/u.test(count) && name !== undefined && name !== "total"
      ? [{ name, count: Number(count) }]
      : [];
  });
  const sorted = rows.toSorted((a, b) => b.count - a.count).filter(({ count }) => count * 100 >= calls);
  const total = rows.reduce((sum, { count }) => sum + count, 0);
  const list = sorted.map(({ name, count }) => `${name} ${(count / calls).toFixed(2)}`).join(", ");
  return [`system calls of rank 0 a call, as slow as tracing makes it: ${(total / calls).toFixed(2)}: ${list}`];
}

/** Bytes that JavaScript copies, for each byte that crosses the wire, on each side. */
async function copies(row: string, calls: number): Promise<string[]> {
  const { exitCode, stderr, text } = await runCli(programArgs("copies", row, LARGE_BYTES, calls), {
    timeoutMs: RUN_MS,
  });
  if (exitCode !== 0) throw new Error(`the run failed\n${text}`);
  return [0, 1].map((rank) => {
    const line = new RegExp(`^\\[${rank}\\] (\\{.*\\})$`, "mu").exec(stderr)?.[1] ?? "{}";
    const copied = Object.entries(JSON.parse(line) as Record<string, number>).sort(([, a], [, b]) => b - a);
    const share = (bytes: number): string => (bytes / LARGE_BYTES / calls).toFixed(4);
    const total = copied.reduce((sum, [, bytes]) => sum + bytes, 0);
    const by = copied
      .filter(([, bytes]) => bytes / LARGE_BYTES / calls >= 0.00005)
      .map(([how, bytes]) => `${how} ${share(bytes)}`);
    return `${row}, 4 MiB, rank ${rank}: ${share(total)} bytes copied by JavaScript a byte of payload: ${by.join(", ")}`;
  });
}
