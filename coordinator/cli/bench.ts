/** `rankwise bench`: the benchmarks that users of nccl-tests know, with their flags and columns. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, rm } from "node:fs/promises";
import { availableParallelism, cpus } from "node:os";
import { join } from "node:path";
import { type Command, Option } from "commander";
import { type BenchPlan, type BenchResult, primitives, SAMPLE_BYTES } from "../../rank/bench/plan.ts";
import { algorithmsOf, benchRows, operations, rowOf } from "../../rank/bench/rows.ts";
import type { CollectiveRow } from "../../rank/collectives/row.ts";
import { ReduceOp } from "../../rank/memory/reduce.ts";
import { transports } from "../../shared/config.ts";
import { RANKS_MAX, WINDOW_BYTES_MAX } from "../../shared/constants.ts";
import { type DType, dtypes } from "../../shared/dtype.ts";
import { distFolder, installedVersion } from "../installation.ts";
import { makeTempFolder } from "../temp-folder.ts";
import { bandwidths, footerLines, resultLines } from "./bench-table.ts";
import type { CliContext } from "./context.ts";
import { callerFolder, checkReportFile, writeResults } from "./job.ts";
import { jobTimeout, parseCount, usage } from "./options.ts";

interface Options {
  readonly nranks: number;
  readonly minbytes: number;
  readonly maxbytes: number;
  readonly stepfactor?: number;
  readonly stepbytes?: number;
  readonly iters?: number;
  readonly warmupIters?: number;
  readonly check: boolean;
  readonly op: ReduceOp;
  readonly datatype: DType;
  readonly root: number;
  readonly algo: string;
  readonly transport: string;
  readonly timeout: string;
  readonly json?: string;
}

/** Other names for dtypes, as PyPTO and nccl-tests write them. */
const dtypeAliases: Readonly<Record<string, DType>> = {
  FP32: "float32",
  FP16: "float16",
  BF16: "bfloat16",
  INT32: "int32",
  INT16: "int16",
  INT8: "int8",
  float: "float32",
  half: "float16",
  double: "float64",
};

/** How often the results that are there are looked for. */
const LOOK_MS = 200;

/** Adds the command. */
export function addBenchCommand(cli: Command, context: CliContext): void {
  cli
    .command("bench <names...>")
    .description("measure collectives and primitives, or all, with the flags and columns of nccl-tests")
    .option("-n, --nranks <count>", "number of ranks", (text) => parseCount("-n", text, 1, RANKS_MAX), 2)
    .option("-b, --minbytes <size>", "smallest size, e.g. 8, 4K, 1M", parseSize, 32 * 1024)
    .option("-e, --maxbytes <size>", "largest size", parseSize, 4 * 1024 * 1024)
    .option("-f, --stepfactor <factor>", "each size is the one before times this", (text) =>
      parseCount("-f", text, 2, 1_000_000),
    )
    .option("-i, --stepbytes <size>", "each size is the one before plus this", parseSize)
    .option("--iters <count>", "measured calls a size, instead of as many as fit 0.7 s", (text) =>
      parseCount("--iters", text, 1, 1_000_000),
    )
    .option("-w, --warmup-iters <count>", "calls before, instead of 40000 or as many as fit 3 to 10 s", (text) =>
      parseCount("-w", text, 0, 1_000_000),
    )
    .addOption(
      new Option("-c, --check <0|1>", "compare every element with its golden")
        .argParser((text) => parseCount("-c", text, 0, 1) === 1)
        .default(true, "1"),
    )
    .addOption(new Option("-o, --op <name>", "reduction").choices(Object.values(ReduceOp)).default("sum"))
    .addOption(
      new Option("-d, --datatype <name>", "element type").argParser(parseDType).default("float32" satisfies DType),
    )
    .option("-r, --root <rank>", "root of broadcast", (text) => parseCount("-r", text, 0, RANKS_MAX - 1), 0)
    .option("--algo <name>", "algorithm of the collectives that have several; auto: the fastest, all: each", "auto")
    .addOption(new Option("--transport <name>", "how ranks reach each other").choices(transports).default("auto"))
    .addOption(jobTimeout("longest time for the whole run"))
    .option("-J, --json <file>", "write the results to a file")
    .action(async (names: string[], options: Options) => {
      context.exitCode = await bench(names, options);
    });
}

async function bench(names: readonly string[], options: Options): Promise<number> {
  const { nranks, datatype, op, root, algo, iters, warmupIters, check } = options;
  if (root >= nranks) throw usage(`-r ${root}: there are ${nranks} ranks, 0 to ${nranks - 1}`);
  const plan: BenchPlan = {
    names: [...new Set(names.flatMap((name) => benchmarks(name, datatype, algo)))],
    sizesBytes: sizes(options),
    dtype: datatype,
    op,
    root,
    iterations: iters ?? null,
    warmup: warmupIters ?? null,
    check,
  };
  const file = await checkReportFile(options.json, callerFolder(process.env));
  const say = (lines: readonly string[]): void => void process.stdout.write(lines.map((line) => `${line}\n`).join(""));
  const machine = describeMachine(options);
  say(headerLines(machine, options));
  const results: BenchResult[] = [];
  let transport = machine.transport;
  const exitCode = await runPlan(plan, options, (line) => {
    if ("transport" in line) {
      transport = line.transport;
      say([`# ranks reach each other by ${transport}`, "#"]);
    } else {
      say(resultLines(line, results.at(-1)));
      results.push(line);
    }
  });
  if (results.length > 0) say(footerLines(results));
  const wrong = results.some((result) => (result.wrong ?? 0) > 0);
  const lines = results.map((result) => ({ ...result, ...bandwidths(result) }));
  const told = { machine: { ...machine, transport }, plan, results: lines };
  return writeResults(file, told, exitCode !== 0 ? exitCode : wrong ? 1 : 0);
}

/** A line of the file that rank 0 writes. */
type Line = BenchResult | { readonly transport: string };

/** One job that measures everything; what it has found is told as soon as it is there. Returns its exit code. */
async function runPlan(plan: BenchPlan, options: Options, found: (line: Line) => void): Promise<number> {
  const folder = await makeTempFolder("rankwise-bench-");
  const file = join(folder, "results.jsonl");
  let read = 0;
  const look = async (): Promise<void> => {
    const lines = (await readFile(file, "utf8").catch(() => "")).split("\n").slice(0, -1);
    const fresh = lines.slice(read);
    read = Math.max(read, lines.length);
    for (const line of fresh) found(JSON.parse(line) as Line);
  };
  try {
    const { nranks, transport, timeout } = options;
    const job = ["run", "bench", "-n", String(nranks), "--transport", transport, "--timeout", timeout];
    const child = spawn(process.execPath, [join(distFolder(), "cli.js"), ...job, "--", JSON.stringify(plan)], {
      stdio: ["ignore", "ignore", "inherit"],
      env: { ...process.env, RANKWISE_BENCH_FILE: file },
    });
    const looking = setInterval(() => void look(), LOOK_MS);
    const [exitCode] = (await once(child, "exit")) as [number | null];
    clearInterval(looking);
    await look();
    return exitCode ?? 1;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Where and with what it was measured. */
function describeMachine({ nranks, transport }: Options) {
  return {
    rankwise: installedVersion(),
    node: process.version,
    system: `${process.platform} ${process.arch}`,
    processors: availableParallelism(),
    processor: cpus()[0]?.model ?? "unknown",
    nranks,
    transport,
  };
}

function headerLines(machine: ReturnType<typeof describeMachine>, options: Options): string[] {
  const { rankwise, node, system, processors, processor, nranks, transport } = machine;
  const { iters = "auto", warmupIters = "auto", check, algo } = options;
  return [
    `rankwise bench: nranks ${nranks} on ${processors} processors, transport ${transport}, node ${node}`,
    `rankwise ${rankwise}, ${system}, ${processor}`,
    `iters ${iters}, warmup iters ${warmupIters}, check ${check ? 1 : 0}, algo ${algo}; times are the slowest rank's, in us`,
    "time: back to back, between two barriers; p50 and p99: single calls, each after a barrier",
    `#wrong: every element against its golden, up to ${SAMPLE_BYTES} B; a sample above`,
  ].map((line) => `# ${line}`);
}

/** The rows that a name stands for, by the algorithm that is asked for. */
function benchmarks(name: string, dtype: DType, algo: string): string[] {
  if (name === "all") {
    const rows = operations.flatMap((operation) => rowsBy(operation, algo)).filter((row) => takes(row, dtype));
    return [...rows.map((row) => row.name), ...primitives];
  }
  if (primitives.some((primitive) => primitive === name)) return [name];
  const rows = operations.includes(name) ? rowsBy(name, algo) : benchRows.filter((row) => row.name === name);
  if (rows.length === 0 && operations.includes(name)) {
    const algos = algorithmsOf(name).join(", ");
    throw usage(
      `--algo ${algo}: ${name} has ${algos === "" ? "no choice" : `${algos}, and all of them by --algo all`}`,
    );
  }
  if (rows.length === 0) throw usage(`no benchmark ${name}; known: all, ${[...operations, ...primitives].join(", ")}`);
  const refused = rows.find((row) => !takes(row, dtype));
  if (refused !== undefined) throw usage(`-d ${dtype}: ${name} takes ${(refused.dtypes ?? []).join(" and ")}`);
  return rows.map((row) => row.name);
}

/** What a collective has of an algorithm: its one form, where it has no more, or none. */
function rowsBy(operation: string, algo: string): CollectiveRow[] {
  const choice = algorithmsOf(operation);
  const anyOf = algo === "all" || (algo === "auto" && choice.length === 0);
  const names = !anyOf ? [algo] : choice.length === 0 ? ["direct"] : choice;
  return names.flatMap((name) => rowOf(operation, name) ?? []);
}

function takes(row: CollectiveRow, dtype: DType): boolean {
  return row.dtypes?.includes(dtype) ?? true;
}

function sizes({ minbytes, maxbytes, stepfactor, stepbytes }: Options): number[] {
  if (maxbytes < minbytes) throw usage(`-e ${maxbytes} is below -b ${minbytes}`);
  if (stepfactor !== undefined && stepbytes !== undefined) throw usage("-f and -i exclude each other");
  const list: number[] = [];
  for (
    let size = minbytes;
    size <= maxbytes;
    size = stepbytes === undefined ? size * (stepfactor ?? 2) : size + stepbytes
  ) {
    list.push(size);
  }
  return list;
}

function parseSize(text: string): number {
  const match = /^(\d+)([KMG]?)$/iu.exec(text);
  const unit = { "": 1, K: 1024, M: 1024 ** 2, G: 1024 ** 3 }[(match?.[2] ?? "").toUpperCase()] ?? 1;
  const size = Number(match?.[1] ?? Number.NaN) * unit;
  if (size >= 1 && size <= WINDOW_BYTES_MAX) return size;
  throw usage(`expected a size like 8, 4K or 1M, up to 4G, got ${JSON.stringify(text)}`);
}

function parseDType(text: string): DType {
  const name = dtypeAliases[text] ?? text;
  if (Object.hasOwn(dtypes, name)) return name as DType;
  throw usage(`-d: no dtype ${text}; known: ${Object.keys(dtypes).join(", ")}`);
}
