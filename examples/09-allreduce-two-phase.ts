/**
 * allreduce in two phases: every rank adds up one segment for all, then hands it to all.
 *
 * Phase 1 is a reduce_scatter by reading, phase 2 an allgather by writing. Each rank receives 2 · (P − 1) / P of the
 * data, where the mesh receives P − 1 times the data.
 */
import { type Comm, NotifyOp, type Signal, WaitCmp } from "rankwise";

const SIZE = 100;

export const modes = ["hand"];

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks } = comm;
  const { operand, total, decode } = values(nranks);
  const data = await comm.window("data", "int32", [SIZE]);
  for (let j = 0; j < SIZE; j++) data.local.array[j] = operand(rank, j);
  const arrived = await comm.signal("arrived", [nranks]);
  await barrier(comm, arrived, 1); // everybody has staged its data

  // Phase 1: the sum of segment `rank`, which is this rank's to make.
  const start = Math.floor((rank * SIZE) / nranks);
  const length = Math.floor(((rank + 1) * SIZE) / nranks) - start;
  const sum = comm.tensor("int32", [length]);
  for (let source = 0; source < nranks; source++) {
    const part = await data.remoteLoad(source, [start], [length]);
    for (let j = 0; j < length; j++) sum.array[j]! += part.array[j]!;
  }

  // Phase 2: to everybody, oneself too. No barrier in between: segment `rank` of every window is read by this rank
  // alone, and this rank has read it.
  for (let dest = 0; dest < nranks; dest++) await data.put(dest, sum, { dstOffset: [start], shape: [length] });
  await barrier(comm, arrived, 2); // the notifies came behind the puts: every segment is there

  await comm.check(data, total, { decode });
}

/** The barrier of page 04: a number that rises, in a cell for each rank. */
async function barrier({ rank, peers }: Comm, arrived: Signal, count: number): Promise<void> {
  for (const peer of peers) await arrived.notify(peer, [rank], count, NotifyOp.Set);
  for (const peer of peers) await arrived.wait([peer], count, WaitCmp.Ge);
}

/** Operands whose sum tells which ranks are in it, and back. */
function values(nranks: number): {
  operand: (rank: number, element: number) => number;
  total: (element: number) => number;
  decode: (sum: number | bigint) => string | undefined;
} {
  const unit = 16_384;
  const ranks = [...Array(nranks).keys()];
  // 2^rank units: every set of ranks has a sum of its own, as long as int32 holds them all
  const weight = (rank: number): number => (nranks <= 16 ? 2 ** rank : 1 + (rank % 8));
  const operand = (rank: number, element: number): number => weight(rank) * unit + element;
  return {
    operand,
    total: (element) => ranks.reduce((sum, rank) => sum + operand(rank, element), 0),
    decode: (sum) => {
      const [units, rest] = [Math.floor(Number(sum) / unit), Number(sum) % unit];
      const added = ranks.filter((rank) => (units & weight(rank)) !== 0);
      const known = nranks <= 16 && units < 2 ** nranks && rest % added.length === 0;
      return known ? `the sum of rank ${added.join(", ")} for element ${rest / added.length}` : undefined;
    },
  };
}
