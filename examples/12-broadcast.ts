/**
 * broadcast: what root has, everybody has.
 *
 * By hand: root puts its data into every window, between two barriers. Builtin: one call. Three rounds, each with
 * another root; what the others had staged never shows.
 */
import { type Comm, NotifyOp, type Signal, WaitCmp } from "rankwise";

const SIZE = 64;
const ROUNDS = 3;

export const modes = ["hand", "builtin"];

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks, peers } = comm;
  const data = await comm.window("data", "float32", [SIZE]);
  const signal = await comm.signal("signal", [nranks, 1]);

  for (let round = 0; round < ROUNDS; round++) {
    const root = round % nranks;
    for (let j = 0; j < SIZE; j++) data.local.array[j] = encode(rank, round, j);

    if (comm.mode === "builtin") {
      await comm.broadcast(data, signal, { root });
    } else {
      await barrier(comm, signal, 2 * round + 1); // all have staged, and looked at the last result: puts may come
      if (rank === root) for (const peer of peers) await data.put(peer, data.local);
      await barrier(comm, signal, 2 * round + 2); // root's notify came behind its put
    }

    await comm.check(data, (j) => encode(root, round, j), { decode });
  }
}

/** The barrier of page 04: a number that rises, in a cell for each rank. */
async function barrier({ rank, peers }: Comm, signal: Signal, count: number): Promise<void> {
  for (const peer of peers) await signal.notify(peer, [rank, 0], count, NotifyOp.Set);
  for (const peer of peers) await signal.wait([peer, 0], count, WaitCmp.Ge);
}

function encode(rank: number, round: number, j: number): number {
  return (rank * ROUNDS + round) * 100 + j;
}

function decode(value: number | bigint): string | undefined {
  const number = Number(value);
  const stage = Math.floor(number / 100);
  const known = Number.isInteger(number) && number >= 0 && number % 100 < SIZE;
  return known ? `what rank ${Math.floor(stage / ROUNDS)} staged in round ${stage % ROUNDS}` : undefined;
}
