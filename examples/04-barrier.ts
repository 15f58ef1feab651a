/**
 * Barrier: no rank goes on before every rank has come this far.
 *
 * Each rank stages values in its own part of a window and reads those of the next rank. That is right only if the next
 * rank has staged before, and has not staged again since: one barrier on either side of the reading.
 */
import { type Comm, NotifyOp, WaitCmp } from "rankwise";

const SIZE = 64;
const ROUNDS = 2;

export const modes = ["hand", "builtin"];

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks } = comm;
  const next = (rank + 1) % nranks;
  const staged = await comm.window("staged", "int32", [SIZE]);
  const barrier = await makeBarrier(comm);

  for (let round = 0; round < ROUNDS; round++) {
    for (let j = 0; j < SIZE; j++) staged.local.array[j] = encode(round, rank, j);
    await barrier(); // everybody has staged: now it may be read
    const swapped = await staged.remoteLoad(next, [0], [SIZE]);
    await barrier(); // everybody has read: now it may be staged again
    await comm.check(swapped, (j) => encode(round, next, j), { decode });
  }
}

async function makeBarrier(comm: Comm): Promise<() => Promise<void>> {
  const { rank, nranks, peers } = comm;
  if (comm.mode === "builtin") {
    const credits = await comm.signal("credits", [nranks, 1]);
    return () => comm.barrier(credits);
  }
  const arrived = await comm.signal("arrived", [nranks]);
  let count = 0;
  return async () => {
    // The number rises with every barrier: what the last one left in the cells does not satisfy this one. Ge, not Eq:
    // a faster peer may have come to the next barrier already.
    count += 1;
    for (const peer of peers) await arrived.notify(peer, [rank], count, NotifyOp.Set);
    for (const peer of peers) await arrived.wait([peer], count, WaitCmp.Ge);
  };
}

function encode(round: number, rank: number, j: number): number {
  return (rank * ROUNDS + round + 1) * 1000 + j;
}

function decode(value: number | bigint): string {
  const stage = Math.floor(Number(value) / 1000) - 1;
  return stage < 0 ? "nothing yet" : `what rank ${Math.floor(stage / ROUNDS)} staged in round ${stage % ROUNDS}`;
}
