/**
 * The table of collectives: one row each. `rankwise check`, the documentation and the cost tests read it; a new
 * collective is one file beside this one, and one row here.
 */
import { LANE_TILE_ELEMENTS } from "../../shared/constants.ts";
import type { Comm } from "../comm.ts";
import type { Tensor } from "../memory/tensor.ts";
import type { Window } from "../window.ts";
import { allReduceRows } from "./all-reduce-rows.ts";
import type { Buffers, Cell } from "./cell.ts";
import { bytesOf, type CollectiveRow, reduced, whole } from "./row.ts";
import {
  handAllGather,
  handAllToAll,
  handAllToAllV,
  handBarrier,
  handBroadcast,
  handIndexedAllToAllV,
  handReduceScatter,
} from "./by-hand.ts";
import { CONFORMANCE_ROWS, INDEXED_ROWS, indexedRow, nameValue, operandValue, rowCount, sentRows } from "./values.ts";

const rootOf = ({ nranks }: Cell, round: number): number => (round + 1) % nranks;

const perRank = ({ nranks, length }: Cell): number[] => [nranks, length];
const credits = ({ nranks }: Cell): number[] => [nranks, 1];

const barrierRow: CollectiveRow = {
  name: "barrier",
  arguments: "signal",
  result: "no rank leaves before every rank has entered",
  reduces: false,
  reuseAddsReady: false,
  dataShape: whole,
  inputShape: whole,
  signalShape: credits,
  input: ({ dtype }, rank, element, round) => nameValue(dtype, rank, 0, element, round),
  inPlace: false,
  golden: ({ dtype, nranks }, rank, element, round) => nameValue(dtype, (rank + 1) % nranks, 0, element, round),
  cost: () => ({ receivedBytes: 0, rounds: 1 }),
  costText: { rounds: "1", received: "0" },
  busFactor: (nranks) => (nranks - 1) / nranks,
  builtin: (comm, { signal }) => comm.barrier(signal),
  hand: (comm, { signal }) => handBarrier(comm, signal),
  proof: swapWithPeer,
};

const allGatherRow: CollectiveRow = {
  name: "allgather",
  arguments: "x, data [P, …], signal",
  result: "row s holds rank s's chunk",
  reduces: false,
  reuseAddsReady: true,
  dataShape: perRank,
  inputShape: ({ length }) => [1, length],
  signalShape: credits,
  input: ({ dtype }, rank, element, round) => nameValue(dtype, rank, 0, element, round),
  inPlace: false,
  golden: ({ dtype, length }, _rank, element, round) =>
    nameValue(dtype, Math.floor(element / length), 0, element % length, round),
  cost: (cell) => ({ receivedBytes: bytesOf(cell, (cell.nranks - 1) * cell.length), rounds: 1 }),
  costText: { rounds: "1: complete", received: "(P − 1) / P · N of the window" },
  busFactor: (nranks) => (nranks - 1) / nranks,
  builtin: (comm, { input, data, signal }) => comm.allGather(input, data, signal),
  hand: handAllGather,
};

const allToAllRow: CollectiveRow = {
  name: "all_to_all",
  arguments: "x [P, …], data [P, …], signal",
  result: "row s holds the chunk that rank s meant for this rank",
  reduces: false,
  reuseAddsReady: true,
  dataShape: perRank,
  inputShape: perRank,
  signalShape: credits,
  input: ({ dtype, length }, rank, element, round) =>
    nameValue(dtype, rank, Math.floor(element / length), element % length, round),
  inPlace: false,
  golden: ({ dtype, length }, rank, element, round) =>
    nameValue(dtype, Math.floor(element / length), rank, element % length, round),
  cost: (cell) => ({ receivedBytes: bytesOf(cell, (cell.nranks - 1) * cell.length), rounds: 1 }),
  costText: { rounds: "1: complete", received: "(P − 1) / P · N of the window" },
  busFactor: (nranks) => (nranks - 1) / nranks,
  builtin: (comm, { input, data, signal }) => comm.allToAll(input, data, signal),
  hand: handAllToAll,
};

/** The eager form of a row: one round, also on a reused window. */
function eager(row: CollectiveRow, builtin: CollectiveRow["builtin"]): CollectiveRow {
  const costText = { ...row.costText, rounds: "1: complete" };
  return { ...row, name: `${row.name}:eager`, reuseAddsReady: false, costText, builtin };
}

/** The form of a row that goes through rank 0, which gets `sentRows` rows of everybody: P of them without it. */
function throughHub(
  row: CollectiveRow,
  sentRows: number | undefined,
  builtin: CollectiveRow["builtin"],
): CollectiveRow {
  return {
    ...row,
    name: `${row.name}:hub`,
    reuseAddsReady: false,
    cost: (cell, rank) => {
      const { nranks, length } = cell;
      const rows = rank === 0 ? (nranks - 1) * (sentRows ?? nranks) : nranks;
      return { receivedBytes: nranks === 1 ? 0 : bytesOf(cell, rows * length), rounds: 2 };
    },
    costText: {
      rounds: "2 with rank 0 alone: in, out",
      received: `the window; at rank 0, (P − 1) · ${sentRows === 1 ? "a row" : "the window"}`,
    },
    builtin,
  };
}

/** Every collective, in the order of the documentation. */
export const collectives: readonly CollectiveRow[] = [
  barrierRow,
  {
    ...barrierRow,
    name: "barrier:hub",
    cost: () => ({ receivedBytes: 0, rounds: 2 }),
    costText: { rounds: "2 with rank 0 alone: in, out", received: "0" },
    builtin: (comm, { signal }) => comm.barrier(signal, { algo: "hub" }),
  },
  {
    name: "broadcast",
    arguments: "data, signal, root",
    result: "every rank holds root's data",
    reduces: false,
    reuseAddsReady: false,
    dataShape: whole,
    inputShape: whole,
    signalShape: credits,
    input: ({ dtype }, rank, element, round) => nameValue(dtype, rank, 0, element, round),
    inPlace: true,
    golden: (cell, _rank, element, round) => nameValue(cell.dtype, rootOf(cell, round), 0, element, round),
    cost: (cell, rank) => ({ receivedBytes: rank === rootOf(cell, 0) ? 0 : bytesOf(cell, cell.length), rounds: 2 }),
    costText: { rounds: "2: staged, read", received: "N at each rank but root" },
    busFactor: () => 1,
    builtin: (comm, { data, signal, round }, cell) => comm.broadcast(data, signal, { root: rootOf(cell, round) }),
    hand: (comm, buffers, cell) => handBroadcast(comm, buffers, rootOf(cell, buffers.round)),
  },
  allGatherRow,
  eager(allGatherRow, (comm, { input, data, signal }) => comm.allGather(input, data, signal, { algo: "eager" })),
  throughHub(allGatherRow, 1, (comm, { input, data, signal }) => comm.allGather(input, data, signal, { algo: "hub" })),
  {
    name: "reduce_scatter",
    arguments: "data [P, …] in place, signal, op",
    result: "row rank holds the reduced chunk",
    reduces: true,
    reuseAddsReady: false,
    dataShape: perRank,
    inputShape: perRank,
    signalShape: credits,
    input: ({ op }, rank, element, round) => operandValue(op, rank, element, round),
    inPlace: true,
    golden: (cell, rank, element, round) =>
      Math.floor(element / cell.length) === rank ? reduced(cell, element, round) : undefined,
    cost: (cell) => ({ receivedBytes: bytesOf(cell, (cell.nranks - 1) * cell.length), rounds: 2 }),
    costText: { rounds: "2: staged, read", received: "(P − 1) / P · N of the window" },
    busFactor: (nranks) => (nranks - 1) / nranks,
    builtin: (comm, { data, signal }, { op }) => comm.reduceScatter(data, signal, { op }),
    hand: handReduceScatter,
  },
  ...allReduceRows,
  allToAllRow,
  eager(allToAllRow, (comm, { input, data, signal }) => comm.allToAll(input, data, signal, { algo: "eager" })),
  throughHub(allToAllRow, undefined, (comm, { input, data, signal }) =>
    comm.allToAll(input, data, signal, { algo: "hub" }),
  ),
  {
    name: "all_to_all_v",
    arguments: "input [P·M, H], target [P·M, H], signal, sendCounts, recvCounts, coreNum",
    result: "the first recvCounts[s] rows of partition s come from rank s; tails keep what they held",
    reduces: false,
    reuseAddsReady: false,
    dataShape: ({ nranks, length }) => [nranks * CONFORMANCE_ROWS, length],
    inputShape: ({ nranks, length }) => [nranks * CONFORMANCE_ROWS, length],
    signalShape: ({ nranks }) => [nranks, 2 * nranks],
    input: ({ dtype, length }, rank, element, round) =>
      nameValue(dtype, rank, Math.floor(element / length), element % length, round),
    inPlace: false,
    golden: (cell, rank, element, round) => {
      const row = Math.floor(element / cell.length);
      const source = Math.floor(row / CONFORMANCE_ROWS);
      if (row % CONFORMANCE_ROWS >= rowCount(source, rank)) return undefined;
      return nameValue(
        cell.dtype,
        source,
        rank * CONFORMANCE_ROWS + (row % CONFORMANCE_ROWS),
        element % cell.length,
        round,
      );
    },
    cost: (cell, rank) => ({ receivedBytes: bytesOf(cell, receivedRows(cell, rank) * cell.length), rounds: 2 }),
    costText: { rounds: "2: ready, complete", received: "Σ counts · row" },
    busFactor: (nranks) => (nranks - 1) / nranks,
    builtin: async (comm, { input, data, signal, round }, { nranks }) => {
      const sendCounts = comm.tensor("int32", [nranks]);
      const recvCounts = comm.tensor("int32", [nranks]);
      for (let peer = 0; peer < nranks; peer++) sendCounts.array[peer] = rowCount(comm.rank, peer);
      const coreNum = 1 + (round % 2) * (2 * nranks - 1);
      await comm.allToAllV(input, data, signal, { sendCounts, recvCounts, coreNum });
      await comm.check(recvCounts, (source) => rowCount(source, comm.rank));
    },
    hand: handAllToAllV,
  },
  {
    name: "indexed_all_to_all_v",
    arguments: "input [Nmax, H], target [P·C, H], signal [P, S], sendCounts, recvCounts, index [P, C], coreNum",
    result: "row s·C + j is rank s's input row index[rank][j], for j below its count; tails keep what they held",
    reduces: false,
    dtypes: ["float32", "int8"],
    reuseAddsReady: false,
    dataShape: ({ nranks, length }) => [nranks * CONFORMANCE_ROWS, length],
    inputShape: ({ length }) => [INDEXED_ROWS, length],
    signalShape: ({ nranks }) => [nranks, 2 * nranks],
    input: ({ dtype, length }, rank, element, round) =>
      nameValue(dtype, rank, Math.floor(element / length), element % length, round),
    inPlace: false,
    golden: (cell, rank, element, round) => {
      const row = Math.floor(element / cell.length);
      const [source, slot] = [Math.floor(row / CONFORMANCE_ROWS), row % CONFORMANCE_ROWS];
      if (slot >= rowCount(source, rank)) return undefined;
      return nameValue(cell.dtype, source, indexedRow(source, rank, slot), element % cell.length, round);
    },
    cost: (cell, rank) => ({ receivedBytes: bytesOf(cell, receivedRows(cell, rank) * cell.length), rounds: 2 }),
    costText: { rounds: "2: ready, complete", received: "Σ counts · row" },
    busFactor: (nranks) => (nranks - 1) / nranks,
    builtin: builtinIndexed,
    hand: handIndexedAllToAllV,
  },
];

/** Windows of conformance runs have the dtype of the cell, which the row restricts to those that the call takes. */
async function builtinIndexed(comm: Comm, { input, data, signal, round }: Buffers, { nranks }: Cell): Promise<void> {
  const { rank } = comm;
  const sendCounts = await comm.window("conformance.counts", "int32", [nranks, 1]);
  const recvCounts = comm.tensor("int32", [nranks, 1]);
  const index = comm.tensor("int32", [nranks, CONFORMANCE_ROWS]);
  index.array.fill(-1);
  for (let peer = 0; peer < nranks; peer++) {
    sendCounts.local.array[peer] = rowCount(rank, peer);
    index.array.set(sentRows(rank, peer), peer * CONFORMANCE_ROWS);
  }
  const rows = input as Tensor<"int8">;
  const target = data as Window<"int8">;
  const coreNum = 1 + (round % 2) * (2 * nranks - 1);
  await comm.indexedAllToAllV(rows, target, signal, { sendCounts, recvCounts, index, coreNum });
  await comm.check(recvCounts, (source) => rowCount(source, rank));
  await sendCounts.free();
}

/** Rows that a rank receives from the others. */
function receivedRows({ nranks }: Cell, rank: number): number {
  let rows = 0;
  for (let source = 0; source < nranks; source++) if (source !== rank) rows += rowCount(source, rank);
  return rows;
}

/** Everybody reads its right neighbour's data, which is there only if the call held all back until it was. */
async function swapWithPeer(comm: Comm, { input, data }: Buffers, call: () => Promise<void>): Promise<void> {
  data.local.bytes.set(input.bytes);
  await call();
  const got = comm.tensor(data.dtype, data.shape);
  await data.get((comm.rank + 1) % comm.nranks, got);
  await call();
  data.local.bytes.set(got.bytes);
}

/** Lengths that conformance covers: none, few, around the number of ranks and around a tile. */
export function conformanceLengths(nranks: number): number[] {
  const tile = LANE_TILE_ELEMENTS;
  return [...new Set([0, 1, nranks - 1, nranks, nranks + 1, tile - 1, tile, tile + 1, 65_537])].sort((a, b) => a - b);
}
