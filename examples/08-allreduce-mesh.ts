/**
 * allreduce, mesh: every rank reads everybody's data and adds all of it up.
 *
 * By hand: stage, barrier, read and add, barrier, write back. Builtin: the same in one call. In either form `data`
 * holds the sum over all ranks in the end, on every rank.
 */
import { type Comm, NotifyOp, type Signal, WaitCmp } from "rankwise";

const SIZE = 100;

export const modes = ["hand", "builtin"];

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks } = comm;
  const { operand, total, decode } = values(nranks);
  const data = await comm.window("data", "int32", [SIZE]);
  for (let j = 0; j < SIZE; j++) data.local.array[j] = operand(rank, j);

  if (comm.mode === "builtin") {
    await comm.allReduce(data, await comm.signal("credits", [nranks, 1]));
  } else {
    const arrived = await comm.signal("arrived", [nranks]);
    await barrier(comm, arrived, 1); // everybody has staged its data

    // In the order of ranks, on every rank: floating-point sums would otherwise differ in their last bits.
    const sum = new Int32Array(SIZE);
    for (let source = 0; source < nranks; source++) {
      const part = await data.remoteLoad(source, [0], [SIZE]);
      for (let j = 0; j < SIZE; j++) sum[j]! += part.array[j]!;
    }

    await barrier(comm, arrived, 2); // everybody has read it, so it may be overwritten
    data.local.array.set(sum);
  }

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
