/** The command line: reads its arguments, runs a command, and ends the process. */
import { Command, CommanderError } from "commander";
import { EXIT_CODES } from "../../shared/constants.ts";
import { RankwiseError } from "../../shared/errors.ts";
import { exitCodeOf } from "../causes.ts";
import { installedVersion } from "../installation.ts";
import { addBenchCommand } from "./bench.ts";
import { addCheckCommand } from "./check.ts";
import type { CliContext } from "./context.ts";
import { addCoordinatorCommand } from "./coordinator.ts";
import { addDrillCommand } from "./drill.ts";
import { addDoctorCommand } from "./doctor.ts";
import { withHyphens } from "./options.ts";
import { addRankCommand } from "./rank.ts";
import { addRunCommand } from "./run.ts";

process.stderr.on("error", () => undefined); // nobody reads: the job goes on, and its exit code tells
const stdout = { isLost: false };
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE" || stdout.isLost) return; // nobody reads, or it has been told
  stdout.isLost = true;
  process.stderr.write(`rankwise: ERR_FILE_WRITE: cannot write to stdout: ${error.message}\n`);
});
const exitCode = await main(process.argv.slice(2));
await new Promise(setImmediate); // a last line that could not be written is told a turn later
process.exit(stdout.isLost && exitCode === EXIT_CODES.ok ? EXIT_CODES.fileWrite : exitCode);

async function main(args: readonly string[]): Promise<number> {
  const border = args.includes("--") ? args.indexOf("--") : args.length;
  const context: CliContext = { programArgs: args.slice(border + 1), exitCode: EXIT_CODES.ok };
  try {
    await commands(context).parseAsync(withHyphens(args.slice(0, border)), { from: "user" });
    return context.exitCode;
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT_CODES.ok; // help or version was asked for
    const known = knownError(error);
    if (known === undefined) throw error;
    process.stderr.write(`rankwise: ${known.code}: ${known.message}\n`);
    return exitCodeOf(known, null);
  }
}

function commands(context: CliContext): Command {
  const cli = new Command("rankwise")
    .description("one-sided collectives between real Node.js processes")
    .version(installedVersion())
    .exitOverride()
    .configureOutput({ writeErr: () => undefined });
  addRunCommand(cli, context);
  addCoordinatorCommand(cli, context);
  addRankCommand(cli, context);
  addCheckCommand(cli, context);
  addDrillCommand(cli, context);
  addBenchCommand(cli, context);
  addDoctorCommand(cli, context);
  return cli;
}

function knownError(error: unknown): RankwiseError | undefined {
  if (error instanceof RankwiseError) return error;
  if (!(error instanceof CommanderError)) return undefined;
  const message =
    error.code === "commander.help" ? "no command" : error.message.replace(/^error: /u, "").replaceAll("\n", " ");
  return new RankwiseError("ERR_USAGE", `${message}; see rankwise --help`);
}
