/** `rankwise check`: conformance of every collective, on real ranks, against goldens that share no code with it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { type Command, Option } from "commander";
import { collectives } from "../../rank/collectives/table.ts";
import { conformanceMatrix } from "../../rank/collectives/matrix.ts";
import type { ConformanceResult } from "../../rank/conformance.ts";
import { RANKS_MAX } from "../../shared/constants.ts";
import { distFolder } from "../installation.ts";
import { makeTempFolder } from "../temp-folder.ts";
import type { CliContext } from "./context.ts";
import { jobTimeout, parseCount, usage } from "./options.ts";

interface Options {
  readonly nranks: readonly number[];
  readonly quick: boolean;
  readonly transport: string;
  readonly timeout: string;
}

/** Adds the command. */
export function addCheckCommand(cli: Command, context: CliContext): void {
  cli
    .command("check [collectives...]")
    .description("run every collective, dtype, op, mode and length against its golden; ends in `N passed, N failed`")
    .addOption(
      new Option("-n, --nranks <counts>", "numbers of ranks, e.g. 1,2,3,4,7,8")
        .argParser((text) => text.split(",").map((count) => parseCount("-n", count, 1, RANKS_MAX)))
        .default([1, 2, 3, 4, 7, 8], "1,2,3,4,7,8"),
    )
    .option("--quick", "short lengths and one dtype of each kind", false)
    .addOption(
      new Option("--transport <name>", "how ranks reach each other")
        .choices(["auto", "tcp", "unix", "inproc"])
        .default("auto"),
    )
    .addOption(jobTimeout("longest time for each number of ranks"))
    .action(async (names: string[], options: Options) => {
      context.exitCode = await check(names, options);
    });
}

async function check(names: readonly string[], options: Options): Promise<number> {
  const known = collectives.map(({ name }) => name);
  const unknown = names.find((name) => !known.some((row) => row === name || row.startsWith(`${name}:`)));
  if (unknown !== undefined) throw usage(`no collective ${unknown}; known: ${known.join(", ")}`);
  let passed = 0;
  let failed = 0;
  for (const nranks of options.nranks) {
    const outcome = await checkRanks(nranks, names, options);
    for (const line of outcome.lines) process.stdout.write(`# ${line}\n`);
    passed += outcome.passed;
    failed += outcome.failed;
  }
  process.stdout.write(`${passed} passed, ${failed} failed\n`);
  return failed === 0 ? 0 : 1;
}

interface Outcome {
  readonly passed: number;
  readonly failed: number;
  readonly lines: readonly string[];
}

/** One job that runs all cells for one number of ranks. */
async function checkRanks(nranks: number, names: readonly string[], options: Options): Promise<Outcome> {
  const folder = await makeTempFolder("rankwise-check-");
  try {
    const { transport, timeout, quick } = options;
    const program = [...(quick ? ["--quick"] : []), ...names];
    const job = ["run", "conformance", "-n", String(nranks), "--transport", transport, "--timeout", timeout, "--"];
    const child = spawn(process.execPath, [join(distFolder(), "cli.js"), ...job, ...program], {
      stdio: ["ignore", "ignore", "inherit"],
      env: { ...process.env, RANKWISE_CONFORMANCE_DIR: folder },
    });
    const [exitCode] = (await once(child, "exit")) as [number | null];
    return summarize(nranks, names, quick, exitCode, await readResults(folder, nranks));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function summarize(
  nranks: number,
  names: readonly string[],
  quick: boolean,
  exitCode: number | null,
  results: readonly (ConformanceResult | undefined)[],
): Outcome {
  const { cells, skipped } = conformanceMatrix(nranks, names, quick);
  const differences = new Map(results.flatMap((result) => Object.entries(result?.differences ?? {})));
  // a cell has passed when every rank has run it and none has found a difference
  const completed = Math.min(...results.map((result) => result?.cells ?? 0));
  const passed = Math.max(0, completed - differences.size);
  const lines = [`${nranks} ranks: ${cells.length} cells, ${cells.length - passed} failed`];
  for (const [reason, count] of skipped) lines.push(`  ${count} skipped: ${reason}`);
  for (const [cell, difference] of differences) lines.push(`  FAILED ${cell}: ${difference}`);
  if (exitCode !== 0) lines.push(`  the job ended with ${exitCode ?? "a signal"} after ${completed} cells`);
  return { passed, failed: cells.length - passed, lines };
}

async function readResults(folder: string, nranks: number): Promise<(ConformanceResult | undefined)[]> {
  const files = Array.from({ length: nranks }, (_, rank) => join(folder, `rank-${rank}.json`));
  return Promise.all(
    files.map(async (file) => {
      const text = await readFile(file, "utf8").catch(() => undefined);
      return text === undefined ? undefined : (JSON.parse(text) as ConformanceResult);
    }),
  );
}
