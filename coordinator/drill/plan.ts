/** Which drills a command line asks for. */
import { RankwiseError } from "../../shared/errors.ts";
import { Random } from "../../shared/random.ts";
import { drilledCalls, type Scenario, scenarios } from "./scenarios.ts";

/** One drill. The same drill does the same at the same point. */
export interface Drill {
  readonly scenario: Scenario;
  readonly nranks: number;
  /** Where it strikes: the collective, the how manieth call of it (from 1), its round, and the rank. */
  readonly call: string;
  readonly nth: number;
  readonly round: number;
  readonly rank: number;
  readonly transport: "unix" | "tcp";
  /** The seed that made it. */
  readonly seed: number;
}

/** What `--at` fixes. */
export type Point = Partial<Pick<Drill, "call" | "nth" | "round" | "rank">>;

export interface DrillRequest {
  /** Names of scenarios, `all` or `random`. */
  readonly names: readonly string[];
  /** Numbers of ranks to choose from. */
  readonly nranks: readonly number[];
  readonly at: Point;
  readonly seed: number;
  /** How often each scenario is run, or how many random drills. */
  readonly runs: number;
}

/** Longest of the calls before the one that is struck. */
const NTH_MAX = 4;

/**
 * The drills that are asked for, in their order. A seed repeats its drill: number i of `random` is the only one of
 * seed + i.
 *
 * @throws {ERR_USAGE} for an unknown scenario, or a point that it cannot have
 */
export function planDrills(request: DrillRequest): Drill[] {
  const { names, seed, runs } = request;
  const drills: Drill[] = [];
  for (const name of names) {
    if (name === "random") {
      for (let run = 0; run < runs; run++) drills.push(drawDrill(seed + run, undefined, request));
      continue;
    }
    const chosen = name === "all" ? scenarios : scenarios.filter((scenario) => scenario.name === name);
    if (chosen.length === 0) {
      const known = scenarios.map((scenario) => scenario.name).join(", ");
      throw new RankwiseError("ERR_USAGE", `no scenario ${name}; known: all, random, ${known}`);
    }
    for (const scenario of chosen) {
      for (let run = 0; run < runs; run++) drills.push(drawDrill(seed + run, scenario, request));
    }
  }
  return drills;
}

/**
 * `call=all_to_all,round=1,rank=2,nth=3`, any of them.
 *
 * @throws {ERR_USAGE}
 */
export function parsePoint(text: string): Point {
  const point: { call?: string; nth?: number; round?: number; rank?: number } = {};
  for (const part of text.split(",")) {
    const [key = "", value = ""] = part.split("=", 2);
    if (key === "call" && (drilledCalls as readonly string[]).includes(value)) point.call = value;
    else if ((key === "nth" || key === "round" || key === "rank") && /^\d{1,6}$/u.test(value)) {
      point[key] = Number(value);
    } else {
      throw new RankwiseError(
        "ERR_USAGE",
        `--at: expected call=${drilledCalls.join("|")}, round=N, rank=N or nth=N, got ${JSON.stringify(part)}`,
      );
    }
  }
  return point;
}

function drawDrill(seed: number, fixed: Scenario | undefined, { nranks, at }: DrillRequest): Drill {
  const random = new Random(seed);
  const scenario = fixed ?? pick(random, scenarios);
  const count = pick(random, nranks);
  const call = at.call ?? pick(random, scenario.calls ?? drilledCalls);
  if (scenario.calls?.includes(call) === false) {
    throw new RankwiseError(
      "ERR_USAGE",
      `--at: ${scenario.name} needs call=${scenario.calls.join(" or ")}, not ${call}`,
    );
  }
  // a window that has been used has a ready round in front, so from the second call on every call has two rounds
  const nth = at.nth ?? 2 + random.below(NTH_MAX - 1);
  const round = at.round ?? (scenario.name === "bad-count" ? 0 : random.below(3));
  const rank = at.rank ?? random.below(count);
  if (rank >= count) throw new RankwiseError("ERR_USAGE", `--at: rank ${rank} is not in [0, ${count})`);
  const transport = pick(random, ["unix", "tcp"] as const);
  return { scenario, nranks: count, call, nth, round, rank, transport, seed };
}

function pick<T>(random: Random, items: readonly T[]): T {
  return items[random.below(items.length)] as T;
}
