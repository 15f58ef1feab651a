/** Collectives as the benchmark calls them: what a call needs is made before, so that only the call is measured. */
import type { Buffers, Cell } from "../collectives/cell.ts";
import type { CollectiveRow } from "../collectives/row.ts";
import { CONFORMANCE_ROWS, indexedRow, nameValue } from "../collectives/values.ts";
import type { Comm } from "../comm.ts";
import type { Tensor } from "../memory/tensor.ts";
import type { Window } from "../window.ts";

/** A collective that is ready to be called. */
export interface BenchCall {
  readonly call: () => Promise<void>;
  /** Element of this rank's window after the call, or undefined where the collective leaves it open. */
  readonly golden: (element: number) => number | undefined;
  /** Returns what was made for the calls; collective. */
  readonly free: () => Promise<void>;
}

/** The round of a row's goldens whose root is this one; rows without a root have one set of goldens. */
export function roundOf(row: CollectiveRow, nranks: number, root: number): number {
  return row.name === "broadcast" ? (root + nranks - 1) % nranks : 0;
}

/** Makes what the calls of a row need; collective. */
export async function prepareCall(comm: Comm, row: CollectiveRow, cell: Cell, buffers: Buffers): Promise<BenchCall> {
  if (row.name === "all_to_all_v") return allToAllV(comm, cell, buffers);
  if (row.name === "indexed_all_to_all_v") return indexedAllToAllV(comm, cell, buffers);
  return {
    call: () => row.builtin(comm, buffers, cell),
    golden: (element) => row.golden(cell, comm.rank, element, buffers.round),
    free: () => Promise.resolve(),
  };
}

/** Every partition full, so that the size is what a call moves. */
function allToAllV(comm: Comm, cell: Cell, { input, data, signal, round }: Buffers): BenchCall {
  const sendCounts = comm.tensor("int32", [cell.nranks]);
  const recvCounts = comm.tensor("int32", [cell.nranks]);
  sendCounts.array.fill(CONFORMANCE_ROWS);
  return {
    call: () => comm.allToAllV(input, data, signal, { sendCounts, recvCounts }),
    golden: (element) => {
      const { source, slot, column } = place(cell, element);
      return nameValue(cell.dtype, source, comm.rank * CONFORMANCE_ROWS + slot, column, round);
    },
    free: () => Promise.resolve(),
  };
}

/** The same, of scattered rows. */
async function indexedAllToAllV(comm: Comm, cell: Cell, { input, data, signal, round }: Buffers): Promise<BenchCall> {
  const { rank, nranks } = comm;
  const sendCounts = await comm.window("bench.counts", "int32", [nranks, 1]);
  const recvCounts = comm.tensor("int32", [nranks, 1]);
  const index = comm.tensor("int32", [nranks, CONFORMANCE_ROWS]);
  sendCounts.local.array.fill(CONFORMANCE_ROWS);
  index.array.forEach((_, at) => {
    index.array[at] = indexedRow(rank, Math.floor(at / CONFORMANCE_ROWS), at % CONFORMANCE_ROWS);
  });
  const [rows, target] = [input as Tensor<"int8">, data as Window<"int8">];
  return {
    call: () => comm.indexedAllToAllV(rows, target, signal, { sendCounts, recvCounts, index }),
    golden: (element) => {
      const { source, slot, column } = place(cell, element);
      return nameValue(cell.dtype, source, indexedRow(source, rank, slot), column, round);
    },
    free: () => sendCounts.free(),
  };
}

/** Whose row an element of the target is in. */
function place({ length }: Cell, element: number): { source: number; slot: number; column: number } {
  const row = Math.floor(element / length);
  return { source: Math.floor(row / CONFORMANCE_ROWS), slot: row % CONFORMANCE_ROWS, column: element % length };
}
