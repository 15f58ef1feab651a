/** `rankwise run`: all ranks on this host. */
import type { Command } from "commander";
import { findProgram } from "../programs.ts";
import { runJob } from "../runner.ts";
import type { CliContext } from "./context.ts";
import { callerFolder, checkReportFile, conclude, makeLogDir, onStateAsked, tellRestart } from "./job.ts";
import {
  addJobOptions,
  addOutputOptions,
  addTlsOptions,
  type JobOptions,
  readToken,
  settingsOf,
  tlsFiles,
  type TlsOptions,
} from "./options.ts";
import { onSignals } from "./signals.ts";

interface Options extends JobOptions, TlsOptions {
  readonly tagOutput: boolean;
  readonly logDir?: string;
}

/** Adds the command. */
export function addRunCommand(cli: Command, context: CliContext): void {
  const command = cli
    .command("run <program>")
    .description("run a program, built-in or a file, as processes of this host; prints OK when every rank is done")
    .usage("<program> (-n 4 | -d 0,1,2,3) [options] [-- program arguments]");
  addTlsOptions(addOutputOptions(addJobOptions(command))).action(async (name: string, options: Options) => {
    context.exitCode = await run(name, options, context.programArgs);
  });
}

async function run(name: string, options: Options, args: readonly string[]): Promise<number> {
  const cwd = callerFolder(process.env);
  const settings = settingsOf(options, args);
  const program = await findProgram(name, cwd);
  const reportFile = await checkReportFile(options.json, cwd);
  const logDir = await makeLogDir(options.logDir, cwd);
  const outcome = await runJob({
    program,
    programName: name,
    env: options.env,
    settings,
    timeoutMs: options.timeout,
    token: await readToken(undefined),
    tls: tlsFiles(options, cwd),
    cwd,
    tagOutput: options.tagOutput,
    logDir,
    sink: process.stderr,
    maxRestarts: options.maxRestarts,
    onRestart: tellRestart,
    onStart: (coordinator) => {
      onSignals((signal) => coordinator.interrupt(signal));
      onStateAsked(() => coordinator.waitTable());
    },
  });
  return conclude(outcome, reportFile);
}
