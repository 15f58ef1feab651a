/** `rankwise run` with its report. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { RunReport } from "../../shared/report.ts";
import { type CliOptions, type CliResult, runCli } from "./cli.ts";

/** A run that has ended, and the report that it wrote. */
export interface ReportedRun extends CliResult {
  readonly report: RunReport;
}

/** Runs `rankwise run ARGS --json FILE` to its end, checks that nothing is left, and reads the report. */
export async function runReported(args: readonly string[], options: CliOptions = {}): Promise<ReportedRun> {
  const folder = await mkdtemp(join(tmpdir(), "report-"));
  try {
    const file = join(folder, "report.json");
    const result = await runCli(["run", "--json", file, ...args], options);
    const text = await readFile(file, "utf8").catch((error: unknown) => {
      throw new Error(`the run wrote no report\n${result.text}`, { cause: error });
    });
    return { ...result, report: JSON.parse(text) as RunReport };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** A program of `test/fixtures/programs`, as a path for the command line. */
export function fixtureProgram(name: string): string {
  return fileURLToPath(new URL(`../fixtures/programs/${name}.ts`, import.meta.url));
}

/** Lines that ranks printed, without their `[rank] ` prefix, in the order of their text. */
export function rankLines(stderr: string): string[] {
  const lines = stderr.split("\n").flatMap((line) => /^\[\d+\] (.*)$/u.exec(line)?.[1] ?? []);
  return lines.sort();
}
