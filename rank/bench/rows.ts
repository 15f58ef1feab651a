/** The rows that are measured: those of the collectives table, and one that chooses its algorithm for each that can. */
import { allReduceAuto } from "../collectives/all-reduce-rows.ts";
import type { CollectiveRow } from "../collectives/row.ts";
import { collectives } from "../collectives/table.ts";

/** Forms of a collective whose call chooses the algorithm. */
const choosing: readonly CollectiveRow[] = [
  {
    ...rowNamed("barrier"),
    name: "barrier:auto",
    builtin: (comm, { signal }) => comm.barrier(signal, { algo: "auto" }),
  },
  {
    ...rowNamed("allgather"),
    name: "allgather:auto",
    builtin: (comm, { input, data, signal }) => comm.allGather(input, data, signal, { algo: "auto" }),
  },
  allReduceAuto,
  {
    ...rowNamed("all_to_all"),
    name: "all_to_all:auto",
    builtin: (comm, { input, data, signal }) => comm.allToAll(input, data, signal, { algo: "auto" }),
  },
];

/** Every row by the name that a plan has for it; one without a colon is the form of the collectives table. */
export const benchRows: readonly CollectiveRow[] = [...collectives, ...choosing];

/** The collectives of the table, each once. */
export const operations: readonly string[] = [...new Set(collectives.map(({ name }) => operationOf(name)))];

/** Algorithms of a collective; none where it has one form only. The plain row of most is the algorithm `direct`. */
export function algorithmsOf(operation: string): string[] {
  const named = benchRows.filter(({ name }) => name.startsWith(`${operation}:`));
  const plain = named.length > 0 && benchRows.some(({ name }) => name === operation) ? ["direct"] : [];
  return [...plain, ...named.map(({ name }) => name.slice(operation.length + 1))];
}

/** The row of a collective by an algorithm, `direct` for its only one; undefined where there is none. */
export function rowOf(operation: string, algo: string): CollectiveRow | undefined {
  return benchRows.find(({ name }) => name === (algo === "direct" ? operation : `${operation}:${algo}`));
}

function operationOf(name: string): string {
  return name.split(":")[0] ?? name;
}

function rowNamed(name: string): CollectiveRow {
  const row = collectives.find((candidate) => candidate.name === name);
  if (row === undefined) throw new Error(`no row ${name}`);
  return row;
}
