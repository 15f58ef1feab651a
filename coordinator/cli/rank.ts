/** `rankwise rank`: the supervisor of the ranks of this host. */
import { type Command, Option } from "commander";
import { ENV } from "../../shared/config.ts";
import { RANKS_MAX } from "../../shared/constants.ts";
import { Supervisor } from "../supervisor.ts";
import type { CliContext } from "./context.ts";
import { callerFolder, makeLogDir } from "./job.ts";
import {
  addTlsOptions,
  tlsFiles,
  type TlsOptions,
  addOutputOptions,
  joinTimeout,
  needToken,
  parseCount,
  tokenFile,
  usage,
} from "./options.ts";
import { onSignals } from "./signals.ts";

interface Options extends TlsOptions {
  readonly coordinator?: string;
  readonly ranks: number;
  readonly bind?: string;
  readonly advertise?: string;
  readonly joinTimeout: number;
  readonly tokenFile?: string;
  readonly tagOutput: boolean;
  readonly logDir?: string;
}

/** Adds the command. */
export function addRankCommand(cli: Command, context: CliContext): void {
  const command = cli
    .command("rank")
    .description("start ranks of a job on this host; program, mode and arguments come from its coordinator")
    .option("--coordinator <url>", `ws://host:port of the coordinator, instead of ${ENV.coordinator}`)
    .addOption(ranksOption())
    .option("--bind <address>", "address for ranks to listen on (default: the one that reaches the coordinator)")
    .option(
      "--advertise <name>",
      "name under which other hosts reach it (default: the bound address, or the host's name)",
    )
    .addOption(joinTimeout())
    .addOption(tokenFile());
  addTlsOptions(addOutputOptions(command)).action(async (options: Options) => {
    context.exitCode = await supervise(options);
  });
}

async function supervise(options: Options): Promise<number> {
  const cwd = callerFolder(process.env);
  const tls = tlsFiles(options, cwd);
  const url = coordinatorUrl(options.coordinator ?? process.env[ENV.coordinator], tls !== undefined);
  const { bind, advertise } = options;
  if (isWildcard(advertise)) throw usage(`--advertise ${advertise}: a wildcard is no name; give the one of this host`);
  const token = await needToken(options.tokenFile);
  const logDir = await makeLogDir(options.logDir, cwd);
  const supervisor = await Supervisor.join({
    url,
    token,
    tls,
    slots: options.ranks,
    joinTimeoutMs: options.joinTimeout,
    bind,
    advertise,
    cwd,
    tagOutput: options.tagOutput,
    logDir,
    sink: process.stderr,
  });
  onSignals((signal) => supervisor.interrupt(signal)); // before there was nothing to end but this process
  return supervisor.done;
}

function ranksOption(): Option {
  const option = new Option("--ranks <count>", "most ranks to start here");
  return option.argParser((text) => parseCount("--ranks", text, 1, RANKS_MAX)).default(1);
}

function isWildcard(address: string | undefined): boolean {
  return address === "0.0.0.0" || address === "::";
}

function coordinatorUrl(text: string | undefined, tls: boolean): string {
  if (text === undefined || text === "") throw usage("which coordinator? add --coordinator ws://host:port");
  const whole = /^\w+:\/\//u.test(text) ? text : `${tls ? "wss" : "ws"}://${text}`;
  if (!/^wss?:/u.test(whole) || !URL.canParse(whole)) {
    throw usage(`--coordinator: expected ws://host:port, got ${JSON.stringify(text)}`);
  }
  if (whole.startsWith("wss:") !== tls) {
    throw usage(
      `--coordinator ${whole}: ${tls ? "with --tls-cert it is wss://" : "wss:// needs --tls-cert, --tls-key and --tls-ca"}`,
    );
  }
  return new URL(whole).href;
}
