/**
 * reduce_scatter: row r of everybody's data is added up, and rank r gets the sum.
 *
 * By hand: stage, barrier, read row `rank` from everybody and add. Builtin: the same in one call. In either form it
 * works in place: row `rank` becomes the sum, the other rows keep what they held.
 */
import { type Comm, NotifyOp, WaitCmp } from "rankwise";

const SIZE = 64;

export const modes = ["hand", "builtin"];

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks, peers } = comm;
  const { operand, total, decode } = values(nranks);
  const data = await comm.window("data", "int32", [nranks, SIZE]);
  for (let i = 0; i < nranks * SIZE; i++) data.local.array[i] = operand(rank, i);

  if (comm.mode === "builtin") {
    await comm.reduceScatter(data, await comm.signal("credits", [nranks, 1]));
  } else {
    const staged = await comm.signal("staged", [nranks]);
    for (const peer of peers) await staged.notify(peer, [rank], 1, NotifyOp.Set);
    for (const peer of peers) await staged.wait([peer], 1, WaitCmp.Ge);

    const sum = new Int32Array(SIZE);
    for (let source = 0; source < nranks; source++) {
      const row = await data.remoteLoad(source, [rank, 0], [1, SIZE]);
      for (let j = 0; j < SIZE; j++) sum[j]! += row.array[j]!;
    }
    // In place and at once: of all ranks, only this one reads row `rank` of this window.
    data.local.array.set(sum, rank * SIZE);
  }

  await comm.check(data, (row, j) => (row === rank ? total(row * SIZE + j) : operand(rank, row * SIZE + j)), {
    decode,
  });
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
