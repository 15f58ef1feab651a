/** The patterns of counts and indices that indexed_all_to_all_v must get right. */
import { Random } from "../../shared/random.ts";
import type { IndexedRound } from "./indexed.ts";
import { range } from "./ranks.ts";

interface Geometry {
  readonly nranks: number;
  readonly capacity: number;
  /** Nmax, of every rank. */
  readonly height: number;
}

type Counts = (geometry: Geometry, s: number, d: number) => number;
type Index = (geometry: Geometry, s: number, d: number, j: number) => number;

const random = new Random(5);

export const countPatterns: Readonly<Record<string, Counts>> = {
  "all zero": () => 0,
  "one zero": ({ nranks, capacity }, s, d) => (s === 0 && d === nranks - 1 ? 0 : capacity),
  full: ({ capacity }) => capacity,
  "self only": ({ capacity }, s, d) => (s === d ? capacity : 0),
  "single hot": ({ nranks, capacity }, s, d) => (d === (s + 1) % nranks ? capacity : 0),
  mixed: ({ capacity }, s, d) => [0, 1, capacity - 1, capacity][(s + 2 * d) % 4]!,
  asymmetric: ({ capacity }, s, d) => (3 * s + 5 * d) % (capacity + 1),
  random: ({ capacity }) => random.below(capacity + 1),
};

export const indexPatterns: Readonly<Record<string, Index>> = {
  identity: ({ height }, _s, _d, j) => j % height,
  reversed: ({ height }, _s, _d, j) => height - 1 - (j % height),
  scattered: ({ height }, s, d, j) => (7 * j + 3 * d + s) % height,
  runs: ({ height }, s, d, j) => (5 * Math.floor(j / 3) + (j % 3) + d + s) % height,
  "the same row in every slot": ({ height }, s, d) => (s + d) % height,
  "the same row to every peer": ({ height }, s) => s % height,
};

/** What stands behind a count, and is never read. */
const tails: Readonly<Record<string, (geometry: Geometry) => number>> = {
  "tail -1": () => -1,
  "tail beyond Nmax": ({ height }) => height + 1000,
};

/** Every pattern of counts with every pattern of indices, tails of both kinds by turns. */
export function allRounds(geometry: Geometry): IndexedRound[] {
  const rounds: IndexedRound[] = [];
  for (const [countName, count] of Object.entries(countPatterns)) {
    for (const [indexName, row] of Object.entries(indexPatterns)) {
      const [tailName = "", tail = () => -1] = Object.entries(tails)[rounds.length % 2] ?? [];
      rounds.push(makeRound(`${countName}, ${indexName}, ${tailName}`, geometry, count, row, tail(geometry)));
    }
  }
  return rounds;
}

/** One round of one pattern. */
export function makeRound(name: string, geometry: Geometry, count: Counts, row: Index, tail = -1): IndexedRound {
  const { nranks, capacity } = geometry;
  const counts = range(nranks).map((s) => range(nranks).map((d) => count(geometry, s, d)));
  const index = range(nranks).map((s) =>
    range(nranks).map((d) => range(capacity).map((j) => (j < counts[s]![d]! ? row(geometry, s, d, j) : tail))),
  );
  return { name, counts, index };
}
