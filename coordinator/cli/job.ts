/** What `run` and `coordinator` do alike: they heed signals, and tell how the job ended. */
import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { RankwiseError } from "../../shared/errors.ts";
import type { RunReport } from "../../shared/report.ts";
import type { RunOutcome } from "../coordinator.ts";
import type { Interrupt } from "../monitor-events.ts";
import { writeAtomically } from "../run-report.ts";
import { usage } from "./options.ts";

/** Calls back for each signal that asks this process to end. */
export function onSignals(interrupt: (signal: Interrupt) => void): void {
  process.on("SIGINT", interrupt);
  process.on("SIGTERM", interrupt);
  process.on("SIGHUP", () => interrupt("SIGTERM")); // the terminal has gone
}

/** Prints the wait table at each SIGUSR2. */
export function onStateAsked(waitTable: () => Promise<string>): void {
  process.on("SIGUSR2", () => {
    void waitTable().then((text) => process.stderr.write(`${text}\n`));
  });
}

/** Prints how an epoch ended that another one follows. */
export function tellRestart(summary: string): void {
  process.stderr.write(`${summary}\nrankwise: the group starts again in a new epoch (--max-restarts)\n`);
}

/** Where relative paths of a command line start: npm runs our own script in our folder, wherever it was called. */
export function callerFolder(env: NodeJS.ProcessEnv): string {
  const { npm_lifecycle_event: script, npm_package_name: owner, INIT_CWD: caller } = env;
  return script === "rankwise" && owner === "rankwise" && caller !== undefined ? caller : process.cwd();
}

/**
 * Checks before a run that its report can be written; returns the file's whole path.
 *
 * @throws {ERR_USAGE}
 */
export async function checkReportFile(file: string | undefined, cwd: string): Promise<string | undefined> {
  if (file === undefined) return undefined;
  const path = resolve(cwd, file);
  const folder = dirname(path);
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory() === true) throw usage(`--json: ${path} is a folder`);
  await access(folder, constants.W_OK).catch(() => {
    throw usage(`--json: cannot write into ${folder}; make the folder first`);
  });
  return path;
}

/** Prints how a job ended and writes its report; returns the exit code. */
export async function conclude({ report, summary }: RunOutcome, reportFile: string | undefined): Promise<number> {
  if (summary !== "") process.stderr.write(`${summary}\n`);
  if (reportFile !== undefined) await writeReport(reportFile, report);
  if (report.ok) process.stdout.write("OK\n");
  return report.exitCode;
}

/** Whoever waits for a report must not take its absence for success. */
async function writeReport(file: string, report: RunReport): Promise<void> {
  try {
    await writeAtomically(file, `${JSON.stringify(report, null, 2)}\n`);
  } catch (error) {
    throw new RankwiseError("ERR_USAGE", `--json: cannot write ${file}: ${(error as Error).message}`, {}, error);
  }
}
