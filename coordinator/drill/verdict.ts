/** What a drill's observer saw, and whether that is what must come of it. */
import type { ErrorCode } from "../../shared/errors.ts";
import type { Drill } from "./plan.ts";

/** Longest time from detection until the calls of ranks that can have settled. */
const SETTLED_MS_MAX = 250;

/** Longest time from detection until no process runs: grace and one second. */
const GONE_MS_MAX = 2000;

/** What was seen of one drill. Times are milliseconds from the moment when the fault struck. */
export interface Observation {
  /** Whether the fault struck at all. */
  readonly struck: boolean;
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly ok: boolean;
  /** First cause, as the report or the supervisor names it. */
  readonly code: ErrorCode | null;
  readonly rank: number | null;
  readonly message: string;
  /** When each rank's call settled, by rank; undefined for one whose call never did. */
  readonly settledMs: readonly (number | undefined)[];
  /** When nothing ran any more; undefined if that was never so. */
  readonly goneMs: number | undefined;
  readonly leftovers: readonly string[];
  /** Whether the next run, without a fault, passed. */
  readonly nextOk: boolean;
}

/** How long each kind of detection may take. */
export interface DetectionTimes {
  readonly livenessMs: number;
  readonly waitTimeoutMs: number;
}

export interface Verdict {
  readonly passed: boolean;
  /** What is wrong, one sentence each. */
  readonly faults: readonly string[];
  /** When the last call settled that had to; undefined where none had to or one did not. */
  readonly settledMs: number | undefined;
}

/** Judges what was seen. */
export function judge(drill: Drill, seen: Observation, times: DetectionTimes): Verdict {
  if (!seen.struck) return { passed: false, faults: ["the fault never struck"], settledMs: undefined };
  const faults = drill.scenario.outcome.ok === true ? judgeSuccess(seen) : judgeFailure(drill, seen, times);
  const settled = responsive(drill).map((rank) => seen.settledMs[rank]);
  const settledMs = settled.some((time) => time === undefined) ? undefined : Math.max(...(settled as number[]));
  faults.push(...seen.leftovers.map((what) => `left behind: ${what}`));
  if (!seen.nextOk) faults.push("the next run failed");
  return { passed: faults.length === 0, faults, settledMs: settledMs === -Infinity ? undefined : settledMs };
}

function judgeSuccess(seen: Observation): string[] {
  return seen.ok ? [] : [`the job failed: ${seen.code ?? "no code"} ${seen.message}`];
}

function judgeFailure(drill: Drill, seen: Observation, times: DetectionTimes): string[] {
  const { outcome } = drill.scenario;
  const faults: string[] = [];
  if (seen.ok) faults.push("the job ended as if it had worked");
  if (outcome.codes.length > 0 && (seen.code === null || !outcome.codes.includes(seen.code))) {
    faults.push(`the cause is ${seen.code ?? "not told"} (${seen.message}), not ${outcome.codes.join(" or ")}`);
  }
  const unnamed = judgeNamed(drill, seen);
  if (unnamed !== undefined) faults.push(unnamed);
  const detectionMs = { "at once": 0, liveness: times.livenessMs, wait: times.waitTimeoutMs }[outcome.detection];
  if (drill.scenario.injector.by !== "start") {
    for (const rank of responsive(drill)) {
      const time = seen.settledMs[rank];
      if (time === undefined) faults.push(`the call of rank ${rank} never settled`);
      else if (time > detectionMs + SETTLED_MS_MAX) {
        faults.push(`the call of rank ${rank} settled after ${time} ms, at most ${detectionMs + SETTLED_MS_MAX}`);
      }
    }
  }
  const goneMs = detectionMs + GONE_MS_MAX;
  if (seen.goneMs === undefined) faults.push(`processes never went`);
  else if (seen.goneMs > goneMs) faults.push(`processes were gone after ${seen.goneMs} ms, at most ${goneMs}`);
  return faults;
}

function judgeNamed(drill: Drill, seen: Observation): string | undefined {
  const { rank: victim, nranks } = drill;
  const next = (victim + 1) % nranks;
  const { rank, message } = seen;
  const told = `named is ${rank === null ? "nobody" : `rank ${rank}`} (${message})`;
  switch (drill.scenario.outcome.named) {
    case "nobody":
      return undefined;
    case "victim":
      return rank === victim ? undefined : `${told}, not rank ${victim}`;
    case "either":
      return rank === victim || rank === next ? undefined : `${told}, neither rank ${victim} nor rank ${next}`;
    case "missing":
      return new RegExp(`\\b(?:missing rank|from rank|by rank) ${victim}\\b`, "u").test(message)
        ? undefined
        : `${told}, and not rank ${victim} as missing`;
  }
}

/** Ranks whose calls must settle. */
function responsive({ scenario, rank, nranks }: Drill): number[] {
  const { outcome } = scenario;
  if (outcome.ok === true) return [];
  const ranks = Array.from({ length: nranks }, (_, index) => index);
  return outcome.mute.length === 0 ? ranks : ranks.filter((index) => index !== rank);
}
