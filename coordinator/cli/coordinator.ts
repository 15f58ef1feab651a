/** `rankwise coordinator`: the job's centre, for ranks that supervisors on other hosts start. */
import { hostname } from "node:os";
import { type Command, Option } from "commander";
import { readTls } from "../../shared/auth.ts";
import { Coordinator } from "../coordinator.ts";
import { findProgram } from "../programs.ts";
import { makeJobId } from "../runner.ts";
import type { CliContext } from "./context.ts";
import { callerFolder, checkReportFile, conclude, onStateAsked, tellRestart } from "./job.ts";
import {
  addTlsOptions,
  tlsFiles,
  type TlsOptions,
  addJobOptions,
  type JobOptions,
  needToken,
  parseCount,
  settingsOf,
  tokenFile,
  usage,
} from "./options.ts";
import { onSignals } from "./signals.ts";

interface Options extends JobOptions, TlsOptions {
  readonly host: string;
  readonly port: number;
  readonly tokenFile?: string;
}

/** Adds the command. */
export function addCoordinatorCommand(cli: Command, context: CliContext): void {
  const command = cli
    .command("coordinator <program>")
    .description(
      "coordinate a program whose ranks `rankwise rank` starts, on this host or others; prints OK at the end",
    )
    .usage("<program> (-n 4 | -d 0,1,2,3) [options] [-- program arguments]")
    .addOption(portOption())
    .option("--host <address>", "address to listen on; 0.0.0.0 for other hosts", "127.0.0.1")
    .addOption(tokenFile());
  addTlsOptions(addJobOptions(command)).action(async (name: string, options: Options) => {
    context.exitCode = await coordinate(name, options, context.programArgs);
  });
}

async function coordinate(name: string, options: Options, args: readonly string[]): Promise<number> {
  const cwd = callerFolder(process.env);
  const settings = settingsOf(options, args);
  if (settings.transport === "inproc") throw usage("--transport inproc is one process; rankwise run has it");
  const token = await needToken(options.tokenFile);
  const program = await findProgram(name, cwd);
  const reportFile = await checkReportFile(options.json, cwd);
  const { host, port, env, timeout: timeoutMs } = options;
  const files = tlsFiles(options, cwd);
  const tls = files === undefined ? undefined : readTls(files);
  const job = makeJobId();
  const coordinator = await Coordinator.start({
    job,
    token,
    host,
    port,
    tls,
    program,
    programName: name,
    env,
    settings,
    timeoutMs,
    maxRestarts: options.maxRestarts,
    onRestart: tellRestart,
  });
  onSignals((signal) => coordinator.interrupt(signal));
  onStateAsked(() => coordinator.waitTable());
  const url = `${tls === undefined ? "ws" : "wss"}://${reachable(host)}:${coordinator.port}`;
  process.stderr.write(`rankwise: job ${job} waits for ${settings.nranks} ranks at ${url}\n`);
  // the process then leaves with its connections open: supervisors go only after it
  return conclude(await coordinator.outcome, reportFile);
}

function portOption(): Option {
  const option = new Option("--port <number>", "port to listen on; 0 for any free one");
  return option.argParser((text) => parseCount("--port", text, 0, 65_535)).default(0);
}

/** A name by which a bound address can be reached. */
function reachable(host: string): string {
  if (host === "0.0.0.0" || host === "::") return hostname();
  return host.includes(":") ? `[${host}]` : host;
}
