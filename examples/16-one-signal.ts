/**
 * Several collectives on one signal: all_to_all, allgather and reduce_scatter, twice each, back to back.
 *
 * By hand: a barrier of credits, which takes back what it has counted and leaves the signal as it found it. Builtin:
 * the calls do the same. The second round has other inputs, so that what the first one left would be seen.
 */
import { type Comm, NotifyOp, type Signal, type Tensor, WaitCmp, type Window } from "rankwise";

const SIZE = 64;
const ROUNDS = 2;

export const modes = ["hand", "builtin"];

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks } = comm;
  const { chunk, gathered, operand, total, decodeChunk, decodeGathered, decodeTotal } = values(nranks);
  const signal = await comm.signal("signal", [nranks, 1]); // the only one
  const x = comm.tensor("int32", [nranks, SIZE]);
  const y = comm.tensor("int32", [1, SIZE]);
  const exchanged = await comm.window("exchanged", "int32", [nranks, SIZE]);
  const collected = await comm.window("collected", "int32", [nranks, SIZE]);
  const summed = await comm.window("summed", "int32", [nranks, SIZE]);

  for (let round = 0; round < ROUNDS; round++) {
    fill(x, (dest, j) => chunk(round, rank, dest, j));
    fill(y, (_, j) => gathered(round, rank, j));
    fill(summed.local, (row, j) => operand(round, rank, row * SIZE + j));

    if (comm.mode === "builtin") {
      await comm.allToAll(x, exchanged, signal);
      await comm.allGather(y, collected, signal);
      await comm.reduceScatter(summed, signal);
    } else {
      await allToAll(comm, x, exchanged, signal);
      await allGather(comm, y, collected, signal);
      await reduceScatter(comm, summed, signal);
    }

    await comm.check(exchanged, (source, j) => chunk(round, source, rank, j), { decode: decodeChunk });
    await comm.check(collected, (source, j) => gathered(round, source, j), { decode: decodeGathered });
    const mine = summed.local.view("int32", [1, SIZE], rank * SIZE * 4);
    await comm.check(mine, (_, j) => total(round, rank * SIZE + j), { decode: decodeTotal });
  }
}

/** One credit to every peer, one from every peer, and back to zero: good for any number of times. */
async function barrier({ rank, peers }: Comm, signal: Signal): Promise<void> {
  for (const peer of peers) await signal.notify(peer, [rank, 0], 1, NotifyOp.AtomicAdd);
  for (const peer of peers) await signal.wait([peer, 0], 1, WaitCmp.Ge);
  // Minus one, not Set to zero: a faster peer's next credit may be there already, and must stay.
  for (const peer of peers) await signal.notify(rank, [peer, 0], -1, NotifyOp.AtomicAdd);
}

async function allToAll(comm: Comm, x: Tensor<"int32">, data: Window<"int32">, signal: Signal): Promise<void> {
  await barrier(comm, signal); // ready: everybody has looked at its last result
  for (let dest = 0; dest < comm.nranks; dest++) {
    await data.put(dest, x, { dstOffset: [comm.rank, 0], srcOffset: [dest, 0], shape: [1, SIZE] });
  }
  await barrier(comm, signal); // complete: the credits came behind the puts
}

async function allGather(comm: Comm, y: Tensor<"int32">, data: Window<"int32">, signal: Signal): Promise<void> {
  await barrier(comm, signal);
  for (let dest = 0; dest < comm.nranks; dest++) {
    await data.put(dest, y, { dstOffset: [comm.rank, 0], shape: [1, SIZE] });
  }
  await barrier(comm, signal);
}

async function reduceScatter(comm: Comm, data: Window<"int32">, signal: Signal): Promise<void> {
  await barrier(comm, signal); // staged: everybody's operands are there
  const sum = new Int32Array(SIZE);
  for (let source = 0; source < comm.nranks; source++) {
    const row = await data.remoteLoad(source, [comm.rank, 0], [1, SIZE]);
    for (let j = 0; j < SIZE; j++) sum[j]! += row.array[j]!;
  }
  await barrier(comm, signal); // read: the next round may stage again
  data.local.array.set(sum, comm.rank * SIZE);
}

function fill(tensor: Tensor<"int32">, value: (row: number, j: number) => number): void {
  for (let i = 0; i < tensor.array.length; i++) tensor.array[i] = value(Math.floor(i / SIZE), i % SIZE);
}

/** Values that name their round, source, destination and element, and back. */
function values(nranks: number) {
  // 10000·round + 1000·source + 100·destination + j reads well, and collides beyond 10 ranks
  const [perRound, perRank, perChunk] =
    nranks <= 10 ? [10_000, 1000, 100] : [nranks * nranks * SIZE, nranks * SIZE, SIZE];
  const operand = (round: number, rank: number, element: number): number => 100_000 * round + 100 * rank + element;
  const ranks = [...Array(nranks).keys()];
  const ofRanks = 50 * nranks * (nranks - 1); // the sum of 100·rank
  return {
    chunk: (round: number, source: number, dest: number, j: number): number =>
      perRound * round + perRank * source + perChunk * dest + j,
    gathered: (round: number, source: number, j: number): number => 100_000 * round + 100 * source + j,
    operand,
    total: (round: number, element: number): number =>
      ranks.reduce((sum, rank) => sum + operand(round, rank, element), 0),
    decodeChunk: (value: number | bigint): string => {
      const number = Number(value);
      const [source, dest] = [Math.floor((number % perRound) / perRank), Math.floor((number % perRank) / perChunk)];
      return `rank ${source}'s chunk for rank ${dest} of round ${Math.floor(number / perRound)}`;
    },
    decodeGathered: (value: number | bigint): string => {
      const number = Number(value);
      return `rank ${Math.floor((number % 100_000) / 100)}'s chunk of round ${Math.floor(number / 100_000)}`;
    },
    decodeTotal: (value: number | bigint): string | undefined => {
      const element = (Number(value) - ofRanks) / nranks;
      const [round, row] = [Math.floor(element / 100_000), Math.floor((element % 100_000) / SIZE)];
      return Number.isInteger(element) && element >= 0 ? `the sum of row ${row} of round ${round}` : undefined;
    },
  };
}
