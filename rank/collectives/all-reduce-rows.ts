/** The rows of allreduce: one for each algorithm, with what it costs. */
import { MESH_CHUNK_BYTES } from "../../shared/constants.ts";
import { handAllReduce } from "./by-hand.ts";
import type { Cell } from "./cell.ts";
import type { AllReduceAlgo } from "./reduce-options.ts";
import { bytesOf, type CollectiveRow, type Cost, reduced, whole } from "./row.ts";
import { operandValue } from "./values.ts";

/** What each algorithm of allreduce costs, below the frame limit. */
const allReduceCosts: Readonly<Record<Exclude<AllReduceAlgo, "auto">, Pick<CollectiveRow, "cost" | "costText">>> = {
  mesh: {
    cost: meshCost,
    costText: { rounds: "1 + one for each chunk of MESH_CHUNK_BYTES", received: "(P − 1) · N" },
  },
  ring: {
    cost: ringCost,
    costText: { rounds: "neighbour handshakes and 1", received: "the segments read, 2 (P − 1) / P · N when balanced" },
  },
  exchange: {
    cost: (cell) => ({ receivedBytes: bytesOf(cell, (cell.nranks - 1) * cell.length), rounds: 1 }),
    costText: { rounds: "1: complete", received: "(P − 1) · N" },
  },
  hub: {
    cost: (cell, rank) => {
      const times = rank === 0 ? cell.nranks - 1 : 1;
      return { receivedBytes: bytesOf(cell, times * cell.length), rounds: 2 };
    },
    costText: { rounds: "2 with rank 0 alone: in, out", received: "N; at rank 0, (P − 1) · N" },
  },
  two_phase: {
    cost: (cell, rank) => {
      const { nranks, length } = cell;
      const own = segment(length, nranks, rank);
      return { receivedBytes: bytesOf(cell, (nranks - 1) * own + (length - own)), rounds: 2 };
    },
    costText: { rounds: "2: reduced, complete", received: "2 (P − 1) / P · N when balanced" },
  },
};

/** allreduce by one of its algorithms. */
function allReduceRow(algo: Exclude<AllReduceAlgo, "auto">): CollectiveRow {
  return {
    name: `allreduce:${algo}`,
    arguments: `data in place, signal ${algo === "ring" ? "[2(P−1)+1, P]" : algo === "mesh" ? "[P, S]" : "[P, 1]"}, op${algo === "mesh" ? ", coreNum" : ""}`,
    result: "the same reduction, bit for bit, on every rank",
    reduces: true,
    reuseAddsReady: false,
    dataShape: whole,
    inputShape: whole,
    signalShape: ({ nranks }) => (algo === "ring" ? [2 * (nranks - 1) + 1, nranks] : [nranks, algo === "mesh" ? 2 : 1]),
    input: ({ op }, rank, element, round) => operandValue(op, rank, element, round),
    inPlace: true,
    golden: (cell, _rank, element, round) => reduced(cell, element, round),
    ...allReduceCosts[algo],
    busFactor: (nranks) => (2 * (nranks - 1)) / nranks,
    builtin: (comm, { data, signal, round }, { op }) =>
      comm.allReduce(data, signal, { op, algo, ...(algo === "mesh" ? { coreNum: 1 + (round % 2) } : {}) }),
    hand: handAllReduce,
  };
}

/** One row for each algorithm that a caller can name. */
export const allReduceRows: readonly CollectiveRow[] = (["mesh", "ring", "exchange", "hub", "two_phase"] as const).map(
  allReduceRow,
);

/** allreduce by the algorithm that is fastest. What that costs is its row's to say. */
export const allReduceAuto: CollectiveRow = {
  ...allReduceRow("two_phase"),
  name: "allreduce:auto",
  builtin: (comm, { data, signal }, { op }) => comm.allReduce(data, signal, { op, algo: "auto" }),
};

function meshCost(cell: Cell): Cost {
  const bytes = bytesOf(cell, cell.length);
  return { receivedBytes: (cell.nranks - 1) * bytes, rounds: 1 + Math.ceil(bytes / MESH_CHUNK_BYTES) };
}

/** What a rank reads in its 2 (P − 1) steps: every segment twice, but two of them once. */
function ringCost(cell: Cell, rank: number): Cost {
  const { nranks, length } = cell;
  let elements = 0;
  for (let step = 0; step < nranks - 1; step++) {
    elements += segment(length, nranks, (rank - step - 1 + 2 * nranks) % nranks);
    elements += segment(length, nranks, (rank - step + 2 * nranks) % nranks);
  }
  return { receivedBytes: bytesOf(cell, elements), rounds: 1 };
}

/** Segment i of `parts` balanced ones. */
function segment(elements: number, parts: number, index: number): number {
  return Math.floor(((index + 1) * elements) / parts) - Math.floor((index * elements) / parts);
}
