/** Options that several commands take, and how their texts are read. */
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { readTls, type TlsFiles } from "../../shared/auth.ts";
import {
  ENV,
  type Mode,
  modes,
  parseDuration,
  type Platform,
  platforms,
  type TransportName,
  transports,
} from "../../shared/config.ts";
import {
  GRACE_MS,
  JOIN_TIMEOUT_MS,
  LIVENESS_MS,
  LIVENESS_MS_MIN,
  RANKS_MAX,
  RESTARTS_MAX,
  RUN_TIMEOUT_MS,
  WAIT_TIMEOUT_MS,
} from "../../shared/constants.ts";
import { RankwiseError } from "../../shared/errors.ts";
import type { Settings } from "../../shared/messages.ts";

/** The options of a job, read. */
export interface JobOptions {
  readonly nranks?: number;
  readonly devices?: readonly string[];
  readonly platform: Platform;
  readonly mode: Mode;
  readonly transport: TransportName;
  readonly timeout: number;
  readonly joinTimeout: number;
  readonly waitTimeout: number;
  readonly grace: number;
  readonly liveness: number;
  readonly maxRestarts: number;
  readonly lanesMax?: number;
  readonly sqDepth?: number;
  readonly json?: string;
  readonly env: Readonly<Record<string, string>>;
  readonly seed: number;
}

/** Adds the options that say what a job is. */
export function addJobOptions(command: Command): Command {
  return command
    .option("-n, --nranks <count>", "number of ranks", (text) => parseCount("-n", text, 1, RANKS_MAX))
    .option("-d, --devices <labels>", "one label for each rank, e.g. 0,1,2,3, instead of -n", parseLabels)
    .addOption(choice("-p, --platform <name>", "platform profile", Object.keys(platforms), "a5sim"))
    .addOption(choice("--mode <name>", "form of the program to run", modes, "hand"))
    .addOption(choice("--transport <name>", "how ranks reach each other", transports, "auto"))
    .addOption(duration("--timeout", "longest time for the whole run", RUN_TIMEOUT_MS, 1))
    .addOption(joinTimeout())
    .addOption(duration("--wait-timeout", "longest time for one wait", WAIT_TIMEOUT_MS, 1))
    .addOption(duration("--grace", "time that ranks have to clean up after a failure", GRACE_MS, 0))
    .addOption(
      duration("--liveness", "longest silence of a host, and longest stop of a rank", LIVENESS_MS, LIVENESS_MS_MIN),
    )
    .addOption(
      new Option("--max-restarts <count>", "how often the group may start again, in a new epoch, after a failure")
        .argParser((text) => parseCount("--max-restarts", text, 0, RESTARTS_MAX))
        .default(0),
    )
    .option("--lanes-max <count>", "most lanes of a launch, instead of the platform's", (text) =>
      parseCount("--lanes-max", text, 1, 65_535),
    )
    .option("--sq-depth <wqebbs>", "depth of a submission queue, instead of the platform's", (text) =>
      parseCount("--sq-depth", text, 1, Number.MAX_SAFE_INTEGER),
    )
    .option("--json <file>", "write the report to a file")
    .addOption(
      new Option("--env <name=value>", "environment variable for the ranks; repeatable")
        .argParser(parseVariable)
        .default({}, "none"),
    )
    .addOption(
      new Option("--seed <number>", "seed of everything drawn by chance")
        .argParser((text) => parseCount("--seed", text, 0, Number.MAX_SAFE_INTEGER))
        .default(0),
    );
}

/** Adds the options that say what becomes of the ranks' output. */
export function addOutputOptions(command: Command): Command {
  return command
    .option("--tag-output", "prefix each line of the ranks with job, rank and stream", false)
    .option("--log-dir <folder>", "also write rank-N.out and rank-N.err into a folder");
}

/** `--join-timeout`. */
export function joinTimeout(): Option {
  return duration("--join-timeout", "longest time until all ranks have joined", JOIN_TIMEOUT_MS, 1);
}

/** `--timeout` of a command that hands it on to the jobs that it starts. */
export function jobTimeout(description: string): Option {
  const check = (text: string): string => {
    parseDuration("--timeout", text, 1);
    return text;
  };
  return new Option("--timeout <time>", description).argParser(check).default("60m", "60m");
}

/** The options of TLS, as the command line has them. */
export interface TlsOptions {
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly tlsCa?: string;
}

/** Adds the options of TLS. */
export function addTlsOptions(command: Command): Command {
  return command
    .option("--tls-cert <file>", "certificate (PEM) that listeners show; makes every TCP connection wss")
    .option("--tls-key <file>", "its key")
    .option("--tls-ca <file>", "certificate of the authority that every dialler trusts");
}

/**
 * The files that the options name, as seen from `cwd`; undefined without any.
 *
 * @throws {ERR_USAGE} when one is missing or cannot be read
 */
export function tlsFiles({ tlsCert, tlsKey, tlsCa }: TlsOptions, cwd: string): TlsFiles | undefined {
  if (tlsCert === undefined && tlsKey === undefined && tlsCa === undefined) return undefined;
  if (tlsCert === undefined || tlsKey === undefined || tlsCa === undefined) {
    throw usage("--tls-cert, --tls-key and --tls-ca go together; one is missing");
  }
  const files = { cert: resolve(cwd, tlsCert), key: resolve(cwd, tlsKey), ca: resolve(cwd, tlsCa) };
  readTls(files);
  return files;
}

/** `--token-file`. */
export function tokenFile(): Option {
  return new Option("--token-file <file>", `file that holds the job's token, instead of ${ENV.token}`);
}

/**
 * The settings that every rank is told.
 *
 * @throws {ERR_USAGE} without a number of ranks, or with two that differ
 */
export function settingsOf(options: JobOptions, args: readonly string[]): Settings {
  return {
    nranks: nranksOf(options),
    mode: options.mode,
    platform: options.platform,
    transport: options.transport,
    args: [...args],
    seed: options.seed,
    lanesMax: options.lanesMax ?? null,
    sqDepth: options.sqDepth ?? null,
    waitTimeoutMs: options.waitTimeout,
    joinTimeoutMs: options.joinTimeout,
    graceMs: options.grace,
    livenessMs: options.liveness,
  };
}

/**
 * The job's token: from the file, else from the environment; undefined when neither is given.
 *
 * @throws {ERR_USAGE} when the file cannot be read or is empty
 */
export async function readToken(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return process.env[ENV.token] || undefined;
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    throw usage(`--token-file: cannot read ${file}: ${(error as Error).message}`);
  }
  if (text.trim() === "") throw usage(`--token-file: ${file} is empty`);
  return text.trim();
}

/** @throws {ERR_USAGE} with what to do when there is no token. */
export async function needToken(file: string | undefined): Promise<string> {
  const token = await readToken(file);
  if (token !== undefined) return token;
  throw usage(`no token; set ${ENV.token}, or --token-file, to one secret text on the coordinator and on every host`);
}

/** The error of a wrong command line. */
export function usage(message: string): RankwiseError {
  return new RankwiseError("ERR_USAGE", message);
}

/** @throws {ERR_USAGE} unless the text is an integer in [least, most]. */
export function parseCount(option: string, text: string, least: number, most: number): number {
  const value = Number(text);
  if (!/^\d+$/u.test(text) || value < least || value > most) {
    throw usage(`${option}: expected an integer from ${least} to ${most}, got ${JSON.stringify(text)}`);
  }
  return value;
}

/** Long options in their usual spelling: `--log_dir=a_b` becomes `--log-dir=a_b`. */
export function withHyphens(args: readonly string[]): string[] {
  return args.map((arg) => arg.replace(/^--[A-Za-z][\w-]*/u, (name) => name.replaceAll("_", "-")));
}

function nranksOf({ nranks, devices }: JobOptions): number {
  if (devices === undefined) {
    if (nranks === undefined) throw usage("how many ranks? add -n 4, or one label for each with -d 0,1,2,3");
    return nranks;
  }
  if (nranks !== undefined && nranks !== devices.length) {
    throw usage(`-n ${nranks} contradicts -d ${devices.join(",")}, which has ${devices.length} labels; leave one out`);
  }
  return devices.length;
}

function parseLabels(text: string): string[] {
  const labels = text.split(",").map((label) => label.trim());
  const twice = labels.find((label, index) => labels.indexOf(label) !== index);
  if (labels.includes("")) throw usage(`-d: ${JSON.stringify(text)} has an empty label; write -d 0,1,2,3`);
  if (twice !== undefined) throw usage(`-d: label ${twice} is there twice; every rank has its own`);
  if (labels.length > RANKS_MAX) throw usage(`-d: ${labels.length} labels; at most ${RANKS_MAX} ranks`);
  return labels;
}

function parseVariable(text: string, earlier: Record<string, string>): Record<string, string> {
  const [name = "", ...value] = text.split("=");
  if (!/^[A-Za-z_]\w*$/u.test(name) || value.length === 0) {
    throw usage(`--env: expected NAME=VALUE, got ${JSON.stringify(text)}`);
  }
  return { ...earlier, [name]: value.join("=") };
}

function choice(flags: string, description: string, choices: readonly string[], preset: string): Option {
  return new Option(flags, description).choices(choices).default(preset);
}

function duration(flag: string, description: string, presetMs: number, leastMs: number): Option {
  const option = new Option(`${flag} <time>`, description);
  return option.argParser((text) => parseDuration(flag, text, leastMs)).default(presetMs, `${presetMs / 1000}s`);
}
