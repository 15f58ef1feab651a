/**
 * allgather: every rank has a chunk, and afterwards everybody has all of them.
 *
 * By hand: put the chunk into row `rank` of every window, say so, wait for everybody. Builtin: the same in one call.
 */
import { type Comm, NotifyOp, WaitCmp } from "rankwise";

const SIZE = 64;

export const modes = ["hand", "builtin"];

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks, peers } = comm;
  const x = comm.tensor("float32", [1, SIZE]);
  for (let j = 0; j < SIZE; j++) x.array[j] = encode(rank, j);
  const data = await comm.window("data", "float32", [nranks, SIZE]);

  if (comm.mode === "builtin") {
    const credits = await comm.signal("credits", [nranks, 1]);
    await comm.allGather(x, data, credits);
  } else {
    const arrived = await comm.signal("arrived", [nranks]);
    // To everybody, oneself too. Rows of different sources never overlap, so the puts need no order.
    for (let dest = 0; dest < nranks; dest++) {
      await data.put(dest, x, { dstOffset: [rank, 0], shape: [1, SIZE] });
    }
    for (const peer of peers) await arrived.notify(peer, [rank], 1, NotifyOp.Set);
    for (const peer of peers) await arrived.wait([peer], 1, WaitCmp.Ge);
  }

  await comm.check(data, (source, j) => encode(source, j), { decode });
  await comm.check(x, (_, j) => encode(rank, j), { decode }); // the source is as it was
}

function encode(rank: number, j: number): number {
  return 100 * (rank + 1) + j;
}

function decode(value: number | bigint): string | undefined {
  const number = Number(value);
  if (number === 0) return "nothing yet";
  const known = Number.isInteger(number) && number >= 100 && number % 100 < SIZE;
  return known ? `rank ${Math.floor(number / 100) - 1}'s chunk` : undefined;
}
