/** What `run` and `coordinator` do alike: files, the wait table, and to tell how the job ended. */
import { constants } from "node:fs";
import { access, mkdir, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { withDeadline } from "../../shared/async.ts";
import { EXIT_CODES } from "../../shared/constants.ts";
import type { RunOutcome } from "../coordinator.ts";
import { writeAtomically } from "../run-report.ts";
import { usage } from "./options.ts";

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

/** Longest time until a folder is made. */
const MAKE_FOLDER_MS = 2000;

/**
 * Makes the folder of `--log-dir` before a run; returns its whole path.
 *
 * @throws {ERR_USAGE} when it cannot be made or written
 */
export async function makeLogDir(folder: string | undefined, cwd: string): Promise<string | undefined> {
  if (folder === undefined) return undefined;
  const path = resolve(cwd, folder);
  try {
    // below /proc it tries for ever
    const late = (): Error => new Error(`it is not there after ${MAKE_FOLDER_MS} ms`);
    await withDeadline(mkdir(path, { recursive: true }), MAKE_FOLDER_MS, late);
    await access(path, constants.W_OK);
  } catch (error) {
    throw usage(`--log-dir: cannot write into ${path}: ${(error as Error).message}`);
  }
  return path;
}

/** Prints how a job ended and writes its report; returns the exit code. */
export async function conclude({ report, summary }: RunOutcome, reportFile: string | undefined): Promise<number> {
  if (summary !== "") process.stderr.write(`${summary}\n`);
  const exitCode = await writeResults(reportFile, report, report.exitCode);
  if (report.ok) process.stdout.write("OK\n");
  return exitCode;
}

/**
 * Writes the file of `--json`, if any; returns the exit code. What was found stands whatever becomes of the file, but
 * whoever waits for it must not take its absence for success.
 */
export async function writeResults(file: string | undefined, results: unknown, exitCode: number): Promise<number> {
  try {
    if (file !== undefined) await writeAtomically(file, `${JSON.stringify(results, null, 2)}\n`);
    return exitCode;
  } catch (error) {
    process.stderr.write(`rankwise: ERR_FILE_WRITE: --json: cannot write ${file}: ${(error as Error).message}\n`);
    return exitCode === EXIT_CODES.ok ? EXIT_CODES.fileWrite : exitCode;
  }
}
