/**
 * allreduce, the builtin: mesh and ring, lanes, and other operations than a sum.
 *
 * By hand: the mesh of page 08 with lanes. Builtin: mesh with lanes, ring, and a maximum. The values are fractions, so
 * that the order of additions shows in the last bits: the golden adds in the documented order and must match exactly.
 */
import { AllReduceAlgo, type Comm, NotifyOp, ReduceOp, WaitCmp, type Window } from "rankwise";

const LENGTH = 1041;
const LANES = 3;
const TILE = 256; // what is dealt to a lane at a time: 5 tiles, the last one of 17 elements

export const modes = ["hand", "builtin"];

export default async function main(comm: Comm): Promise<void> {
  const { nranks } = comm;
  const mesh = await staged(comm, "mesh");
  if (comm.mode === "hand") {
    await byHand(comm, mesh);
  } else {
    const credits = await comm.signal("credits", [nranks, LANES]); // a column for each lane
    await comm.allReduce(mesh, credits, { coreNum: LANES });

    const ring = await staged(comm, "ring");
    const steps = await comm.signal("steps", [2 * (nranks - 1) + 1, nranks]);
    await comm.allReduce(ring, steps, { algo: AllReduceAlgo.Ring });
    // Segment k is added up from rank k on.
    const segment = (j: number): number => Math.ceil(((j + 1) * nranks) / LENGTH) - 1;
    await comm.check(ring, (j) => sumFrom(segment(j), nranks, j), decoding(nranks));

    const largest = await staged(comm, "largest");
    await comm.allReduce(largest, credits, { op: ReduceOp.Max });
    await comm.check(largest, (j) => Math.max(...[...Array(nranks).keys()].map((rank) => operand(rank, j))));
  }
  // The mesh adds in the order of ranks, whatever lane a tile is dealt to.
  await comm.check(mesh, (j) => sumFrom(0, nranks, j), decoding(nranks));
}

async function staged(comm: Comm, name: string): Promise<Window<"float32">> {
  const data = await comm.window(name, "float32", [LENGTH]);
  for (let j = 0; j < LENGTH; j++) data.local.array[j] = operand(comm.rank, j);
  return data;
}

async function byHand(comm: Comm, data: Window<"float32">): Promise<void> {
  const { rank, nranks, peers } = comm;
  const arrived = await comm.signal("arrived", [nranks, LANES]);
  const sum = new Float32Array(LENGTH);
  await comm.launch(LANES, async (lane) => {
    // Each lane has a column of the signal: lane l of one rank meets lane l of the others, and no other.
    const barrier = async (count: number): Promise<void> => {
      for (const peer of peers) await arrived.notify(peer, [rank, lane], count, NotifyOp.Set);
      for (const peer of peers) await arrived.wait([peer, lane], count, WaitCmp.Ge);
    };
    await barrier(1); // everybody has staged
    for (let start = lane * TILE; start < LENGTH; start += LANES * TILE) {
      const length = Math.min(TILE, LENGTH - start);
      for (let source = 0; source < nranks; source++) {
        const part = await data.remoteLoad(source, [start], [length]);
        for (let j = 0; j < length; j++) sum[start + j]! += part.array[j]!;
      }
    }
    await barrier(2); // everybody's lane has read its tiles
  });
  data.local.array.set(sum); // all lanes have joined: nobody reads any more
}

function operand(rank: number, element: number): number {
  return Math.fround((rank + 1) / (1 + (element % 97)));
}

/** The float32 sum over all ranks in the order first, first + 1, …, without one of them if asked. */
function sumFrom(first: number, nranks: number, element: number, without = -1): number {
  let sum = 0;
  for (let i = 0; i < nranks; i++) {
    const rank = (first + i) % nranks;
    if (rank !== without) sum = Math.fround(sum + operand(rank, element));
  }
  return sum;
}

/** Of a wrong sum: which rank is not in it. */
function decoding(nranks: number): { decode: (sum: number | bigint, index: readonly number[]) => string | undefined } {
  return {
    decode: (sum, [element = 0]) => {
      for (let rank = 0; rank < nranks; rank++) {
        if (sum === sumFrom(0, nranks, element, rank)) return `the sum without rank ${rank}`;
      }
      return undefined;
    },
  };
}
