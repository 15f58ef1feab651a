/** `rankwise bench`: the benchmarks that users of nccl-tests know, with their flags and columns. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Command, Option } from "commander";
import { type BenchPlan, type BenchResult, primitives } from "../../rank/bench/plan.ts";
import { collectives } from "../../rank/collectives/table.ts";
import { ReduceOp } from "../../rank/memory/reduce.ts";
import { transports } from "../../shared/config.ts";
import { RANKS_MAX, WINDOW_BYTES_MAX } from "../../shared/constants.ts";
import { type DType, dtypes } from "../../shared/dtype.ts";
import { distFolder } from "../installation.ts";
import type { CliContext } from "./context.ts";
import { callerFolder } from "./job.ts";
import { parseCount, usage } from "./options.ts";

interface Options {
  readonly nranks: number;
  readonly minbytes: number;
  readonly maxbytes: number;
  readonly stepfactor?: number;
  readonly stepbytes?: number;
  readonly iters: number;
  readonly warmupIters: number;
  readonly check: boolean;
  readonly op: ReduceOp;
  readonly datatype: DType;
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

/** Adds the command. */
export function addBenchCommand(cli: Command, context: CliContext): void {
  cli
    .command("bench <names...>")
    .description("measure collectives and primitives, with the flags and columns of nccl-tests")
    .option("-n, --nranks <count>", "number of ranks", (text) => parseCount("-n", text, 1, RANKS_MAX), 2)
    .option("-b, --minbytes <size>", "smallest size, e.g. 8, 4K, 1M", parseSize, 32 * 1024)
    .option("-e, --maxbytes <size>", "largest size", parseSize, 4 * 1024 * 1024)
    .option("-f, --stepfactor <factor>", "each size is the one before times this", (text) =>
      parseCount("-f", text, 2, 1_000_000),
    )
    .option("-i, --stepbytes <size>", "each size is the one before plus this", parseSize)
    .option("--iters <count>", "measured calls a size", (text) => parseCount("--iters", text, 1, 1_000_000), 50)
    .option("-w, --warmup-iters <count>", "calls before", (text) => parseCount("-w", text, 0, 1_000_000), 20)
    .addOption(
      new Option("-c, --check <0|1>", "compare every element with its golden")
        .argParser((text) => parseCount("-c", text, 0, 1) === 1)
        .default(true, "1"),
    )
    .addOption(new Option("-o, --op <name>", "reduction").choices(Object.values(ReduceOp)).default("sum"))
    .addOption(
      new Option("-d, --datatype <name>", "element type").argParser(parseDType).default("float32" satisfies DType),
    )
    .addOption(new Option("--transport <name>", "how ranks reach each other").choices(transports).default("auto"))
    .option("--timeout <time>", "longest time for the whole run", "60m")
    .option("-J, --json <file>", "write the results to a file")
    .action(async (names: string[], options: Options) => {
      context.exitCode = await bench(names, options);
    });
}

async function bench(names: readonly string[], options: Options): Promise<number> {
  const plan: BenchPlan = {
    names: names.flatMap(known),
    sizesBytes: sizes(options),
    dtype: options.datatype,
    op: options.op,
    iterations: options.iters,
    warmup: options.warmupIters,
    check: options.check,
  };
  const header = headerLines(options);
  for (const line of header) process.stdout.write(`# ${line}\n`);
  const { exitCode, results } = await runPlan(plan, options);
  for (const line of table(results)) process.stdout.write(`${line}\n`);
  if (results.length > 0) for (const line of footer(results)) process.stdout.write(`# ${line}\n`);
  if (options.json !== undefined) {
    const path = resolve(callerFolder(process.env), options.json);
    await writeFile(path, `${JSON.stringify({ header, plan, results }, null, 2)}\n`);
  }
  const wrong = results.some((result) => (result.wrong ?? 0) > 0);
  return exitCode !== 0 ? exitCode : wrong ? 1 : 0;
}

/** One job that measures everything. */
async function runPlan(plan: BenchPlan, options: Options): Promise<{ exitCode: number; results: BenchResult[] }> {
  const folder = await mkdtemp(join(tmpdir(), "rankwise-bench-"));
  const file = join(folder, "results.json");
  try {
    const { nranks, transport, timeout } = options;
    const job = ["run", "bench", "-n", String(nranks), "--transport", transport, "--timeout", timeout];
    const child = spawn(process.execPath, [join(distFolder(), "cli.js"), ...job, "--", JSON.stringify(plan)], {
      stdio: ["ignore", "ignore", "inherit"],
      env: { ...process.env, RANKWISE_BENCH_FILE: file },
    });
    const [exitCode] = (await once(child, "exit")) as [number | null];
    const text = await readFile(file, "utf8").catch(() => "[]");
    return { exitCode: exitCode ?? 1, results: JSON.parse(text) as BenchResult[] };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function headerLines({ nranks, transport, iters, warmupIters, check }: Options): string[] {
  const processors = availableParallelism();
  return [
    `rankwise bench: nranks ${nranks} on ${processors} processors, transport ${transport}, node ${process.version}`,
    `iters ${iters}, warmup iters ${warmupIters}, check ${check ? 1 : 0}; times are the slowest rank's, in us`,
    "time: back to back, between two barriers; p50 and p99: single calls, each after a barrier",
    "",
  ];
}

const columns = ["size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "p50", "p99"] as const;
const units = ["(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)"];

/** The lines of nccl-tests: commentary behind `#`, the rest are columns. */
function table(results: readonly BenchResult[]): string[] {
  const lines: string[] = [];
  let name = "";
  for (const result of results) {
    if (result.name !== name) {
      name = result.name;
      lines.push(`# ${name}`, `#${pad(columns).slice(1)}`, `#${pad(units).slice(1)}`);
    }
    const algbw = result.bytes / result.timeUs / 1000;
    const busbw = result.busFactor === null ? "n/a" : (algbw * result.busFactor).toFixed(2);
    lines.push(
      pad([
        String(result.bytes),
        String(result.count),
        result.dtype,
        result.op,
        String(result.root),
        result.timeUs.toFixed(1),
        result.busFactor === null ? "n/a" : algbw.toFixed(2),
        busbw,
        result.wrong === null ? "N/A" : String(result.wrong),
        result.p50Us.toFixed(1),
        result.p99Us.toFixed(1),
      ]),
    );
  }
  return lines;
}

function pad(cells: readonly string[]): string {
  return cells.map((cell, index) => cell.padStart(index < 2 ? 12 : 10)).join("");
}

function footer(results: readonly BenchResult[]): string[] {
  const wrong = results.reduce((sum, result) => sum + (result.wrong ?? 0), 0);
  const compared = results.reduce((sum, result) => sum + result.checked, 0);
  const bandwidths = results.flatMap(({ bytes, timeUs, busFactor }) =>
    busFactor === null ? [] : [(bytes / timeUs / 1000) * busFactor],
  );
  const average = bandwidths.reduce((sum, value) => sum + value, 0) / bandwidths.length;
  return [
    `Out of bounds values : ${wrong} ${wrong === 0 ? "OK" : "FAILED"}`,
    `Elements compared    : ${compared}`,
    `Avg bus bandwidth    : ${bandwidths.length === 0 ? "n/a" : average.toFixed(5)}`,
  ];
}

function known(name: string): string[] {
  if (primitives.some((primitive) => primitive === name)) return [name];
  const rows = collectives.map((row) => row.name).filter((row) => row === name || row.startsWith(`${name}:`));
  if (rows.length > 0) return rows;
  throw usage(`no benchmark ${name}; known: ${[...collectives.map((row) => row.name), ...primitives].join(", ")}`);
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
