/** `rankwise drill`: breaks real groups on purpose, and lets an outside observer judge how they end. */
import { type Command, Option } from "commander";
import { RANKS_MAX } from "../../shared/constants.ts";
import { type Drill, parsePoint, planDrills, type Point } from "../drill/plan.ts";
import { scenarios } from "../drill/scenarios.ts";
import { DRILL_TIMES, play } from "../drill/stage.ts";
import { judge, type Observation, type Verdict } from "../drill/verdict.ts";
import type { CliContext } from "./context.ts";
import { callerFolder, checkReportFile, writeResults } from "./job.ts";
import { parseCount, usage } from "./options.ts";

interface Options {
  readonly nranks: readonly number[];
  readonly at: Point;
  readonly seed: number;
  readonly runs: number;
  readonly json?: string;
}

/** Most drills of one command. */
const RUNS_MAX = 1_000_000;

/** Adds the command. */
export function addDrillCommand(cli: Command, context: CliContext): void {
  cli
    .command("drill <scenario...>")
    .description(
      `break a group on purpose and judge its end; scenarios: all, random, ${scenarios.map(({ name }) => name).join(", ")}`,
    )
    .addOption(
      new Option("-n, --nranks <counts>", "numbers of ranks to choose from, e.g. 2,3,4,8")
        .argParser((text) => text.split(",").map((count) => parseCount("-n", count, 2, RANKS_MAX)))
        .default([4], "4"),
    )
    .addOption(
      new Option("--at <point>", "where it strikes: call=all_to_all,nth=2,round=1,rank=2, any of them")
        .argParser(parsePoint)
        .default({}, "drawn"),
    )
    .addOption(count("--seed", "seed of what is drawn; run i has seed + i", 0, Number.MAX_SAFE_INTEGER - RUNS_MAX, 0))
    .addOption(count("--runs", "runs of each scenario", 1, RUNS_MAX, 1))
    .option("--json <file>", "write what was observed to a file")
    .action(async (names: string[], options: Options) => {
      context.exitCode = await runDrills(names, options);
    });
}

async function runDrills(names: readonly string[], options: Options): Promise<number> {
  if (process.platform !== "linux") throw usage("drills are observed through /proc: they need Linux");
  const drills = planDrills({ names, ...options });
  const file = await checkReportFile(options.json, callerFolder(process.env));
  const results: DrillResult[] = [];
  process.stdout.write(
    `# liveness ${DRILL_TIMES.livenessMs} ms, wait timeout ${DRILL_TIMES.waitTimeoutMs} ms, grace 1 s\n`,
  );
  process.stdout.write(`# settled, gone: ms from the fault; left: what is left behind; next: the run after it\n`);
  process.stdout.write(`${columns.map(([name, width]) => name.padEnd(width)).join(" ")}\n`);
  for (const drill of drills) {
    const seen = await play(drill);
    const verdict = judge(drill, seen, DRILL_TIMES);
    results.push(resultOf(drill, seen, verdict));
    process.stdout.write(`${describe(drill, seen, verdict)}\n`);
    for (const fault of verdict.faults) process.stdout.write(`#   ${fault}\n`);
  }
  const failed = results.filter(({ passed }) => !passed).length;
  for (const line of summary(results)) process.stdout.write(`# ${line}\n`);
  process.stdout.write(`${results.length - failed} passed, ${failed} failed\n`);
  return writeResults(file, results, failed === 0 ? 0 : 1);
}

/** One drill, as `--json` writes it. */
interface DrillResult {
  readonly scenario: string;
  readonly seed: number;
  readonly nranks: number;
  readonly transport: string;
  readonly at: Required<Point>;
  readonly passed: boolean;
  readonly faults: readonly string[];
  readonly settledMs: number | null;
  readonly goneMs: number | null;
  readonly code: string | null;
  readonly rank: number | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
}

function resultOf(drill: Drill, seen: Observation, { passed, faults, settledMs }: Verdict): DrillResult {
  const { scenario, seed, nranks, transport, call, nth, round, rank } = drill;
  return {
    scenario: scenario.name,
    seed,
    nranks,
    transport,
    at: { call, nth, round, rank },
    passed,
    faults,
    settledMs: settledMs ?? null,
    goneMs: seen.goneMs ?? null,
    code: seen.code,
    rank: seen.rank,
    exitCode: seen.exitCode,
    signal: seen.signal,
  };
}

const columns = [
  ["scenario", 17],
  ["seed", 10],
  ["P", 3],
  ["via", 4],
  ["at", 34],
  ["cause", 20],
  ["rank", 4],
  ["settled", 7],
  ["gone", 6],
  ["left", 4],
  ["next", 4],
  ["verdict", 7],
] as const;

function describe(drill: Drill, seen: Observation, { passed, settledMs }: Verdict): string {
  const { scenario, seed, nranks, transport, call, nth, round, rank } = drill;
  const cells = [
    scenario.name,
    String(seed),
    String(nranks),
    transport,
    `${call}#${nth} round ${round} rank ${rank}`,
    seen.code ?? (seen.ok ? "OK" : "-"),
    seen.rank === null ? "-" : String(seen.rank),
    settledMs === undefined ? "-" : String(settledMs),
    seen.goneMs === undefined ? "-" : String(seen.goneMs),
    String(seen.leftovers.length),
    seen.nextOk ? "ok" : "FAIL",
    passed ? "ok" : "FAILED",
  ];
  return cells
    .map((cell, at) => cell.padEnd(columns[at]?.[1] ?? 0))
    .join(" ")
    .trimEnd();
}

/** Median, 99th percentile and maximum of what was measured, for each kind of detection. */
function summary(results: readonly DrillResult[]): string[] {
  return (["at once", "liveness", "wait"] as const).flatMap((detection) => {
    const names = scenarios
      .filter(({ outcome }) => outcome.detection === detection && outcome.ok !== true)
      .map(({ name }) => name);
    const ours = results.filter(({ scenario }) => names.includes(scenario));
    return (["settledMs", "goneMs"] as const).flatMap((figure) => {
      const values = ours.flatMap((result) => result[figure] ?? []).sort((a, b) => a - b);
      if (values.length === 0) return [];
      const at = (share: number): number =>
        values[Math.min(Math.ceil(values.length * share) - 1, values.length - 1)] ?? 0;
      return `${figure === "settledMs" ? "settled" : "gone"}, detected ${detection === "at once" ? "at once" : `by ${detection}`}: median ${at(0.5)}, p99 ${at(0.99)}, max ${at(1)} ms (${values.length})`;
    });
  });
}

function count(flag: string, description: string, least: number, most: number, preset: number): Option {
  return new Option(`${flag} <number>`, description)
    .argParser((text) => parseCount(flag, text, least, most))
    .default(preset);
}
