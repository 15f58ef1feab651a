/** What ranks hold while they call collectives on end: it must not grow. */
import type { Held } from "../fixtures/programs/flat.ts";
import { fixtureProgram, rankLines } from "./run.ts";
import { runCli } from "./cli.ts";

/** Growth from the first half of the samples to the second that is noise, and no leak. */
const GROWTH_MAX: Readonly<Record<keyof Held, number>> = {
  heapUsed: 384 * 1024, // what is compiled on the way counts too
  external: 128 * 1024,
  rss: 8 * 1024 * 1024, // as the allocator rounds
  descriptors: 0,
};

/** What one rank held, and by how much it grew from the first half of the samples to the second. */
export interface Growth {
  readonly last: Held;
  readonly growth: Held;
}

/** Runs collectives of all kinds in turn, as many again before them as warm-up. */
export async function runFlat(nranks: number, calls: number, samples: number, timeoutMs: number): Promise<Growth[]> {
  const args = ["run", fixtureProgram("flat"), "-n", String(nranks), "--", String(calls), String(samples)];
  const { stdout, stderr, text } = await runCli(args, { timeoutMs });
  const lines = rankLines(stderr);
  if (stdout !== "OK\n" || lines.length !== nranks) throw new Error(`the run failed\n${text}`);
  return lines.map((line) => growth(JSON.parse(line) as Held[]));
}

/** What grew too much, as sentences. */
export function leaks(ranks: readonly Growth[]): string[] {
  return ranks.flatMap(({ growth: grown }) =>
    (Object.keys(GROWTH_MAX) as (keyof Held)[])
      .filter((what) => grown[what] > GROWTH_MAX[what])
      .map((what) => `${what} grew by ${Number(grown[what].toFixed(1))}, more than ${GROWTH_MAX[what]}`),
  );
}

function growth(held: readonly Held[]): Growth {
  const half = Math.floor(held.length / 2);
  const mean = (part: readonly Held[], what: keyof Held): number =>
    part.reduce((sum, sample) => sum + sample[what], 0) / part.length;
  const grown = (what: keyof Held): number => mean(held.slice(half), what) - mean(held.slice(0, half), what);
  const last = held.at(-1);
  if (last === undefined) throw new Error("a rank took no sample");
  return {
    last,
    growth: {
      heapUsed: grown("heapUsed"),
      external: grown("external"),
      rss: grown("rss"),
      descriptors: grown("descriptors"),
    },
  };
}
