/**
 * all_to_all_v: every rank has another number of rows for every rank.
 *
 * By hand: one put for each destination, of as many rows as it gets, then a notify that carries the count. Builtin:
 * the same in one call. The first recvCounts[s] rows of partition s come from rank s, the others keep what they held.
 */
import { type Comm, NotifyOp, type Signal, type Tensor, WaitCmp, type Window } from "rankwise";

/** Rows of a partition, and elements of a row. */
const M = 4;
const H = 16;

/** What the target holds before; no rank sends it. */
const KEPT = -1;

export const modes = ["hand", "builtin"];

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks } = comm;
  const { encode, decode } = values(nranks);

  const input = comm.tensor("float32", [nranks * M, H]);
  for (let i = 0; i < input.array.length; i++) {
    const row = Math.floor(i / H);
    input.array[i] = encode(rank, Math.floor(row / M), row % M, i % H);
  }
  const sendCounts = comm.tensor("int32", [nranks]);
  for (let dest = 0; dest < nranks; dest++) sendCounts.array[dest] = rowsFor(nranks, dest);
  const recvCounts = comm.tensor("int32", [nranks]);

  const target = await comm.window("target", "float32", [nranks * M, H]);
  const sync = await comm.signal("sync", [nranks, 1]);
  target.local.array.fill(KEPT);
  await comm.barrier(sync); // nobody writes into a target that is still being filled

  const exchange = comm.mode === "builtin" ? builtin : byHand;
  await exchange(comm, { input, sendCounts, recvCounts, target });

  const received = Math.min(rowsFor(nranks, rank), M);
  await comm.check(recvCounts, () => received);
  const golden = (row: number, j: number): number =>
    row % M < received ? encode(Math.floor(row / M), rank, row % M, j) : KEPT;
  await comm.check(target, golden, { decode });
}

interface Buffers {
  readonly input: Tensor<"float32">;
  readonly sendCounts: Tensor<"int32">;
  readonly recvCounts: Tensor<"int32">;
  readonly target: Window<"float32">;
}

async function builtin(comm: Comm, { input, sendCounts, recvCounts, target }: Buffers): Promise<void> {
  const credits = await comm.signal("credits", [comm.nranks, 1]);
  await comm.allToAllV(input, target, credits, { sendCounts, recvCounts });
}

async function byHand(comm: Comm, { input, sendCounts, recvCounts, target }: Buffers): Promise<void> {
  const { rank, nranks, peers } = comm;
  const arrived: Signal = await comm.signal("arrived", [nranks, 1]);
  const counts = [...sendCounts.array].map((count) => Math.min(Math.max(count, 0), M));
  for (const [dest, count] of counts.entries()) {
    await target.put(dest, input, { dstOffset: [rank * M, 0], srcOffset: [dest * M, 0], shape: [count, H] });
  }
  // one more than the count, so that no rows can be told from no word
  for (const peer of peers) await arrived.notify(peer, [rank, 0], 1 + counts[peer]!, NotifyOp.Set);
  recvCounts.array[rank] = counts[rank]!;
  for (const src of peers) recvCounts.array[src] = (await arrived.wait([src, 0], 1, WaitCmp.Ge)) - 1;
}

/** Rows for a rank: P for rank 0, one for the last. More than M of them are clamped by the call. */
function rowsFor(nranks: number, dest: number): number {
  return nranks - dest;
}

/** Values that name their source, destination, row and element, and back. */
function values(nranks: number): {
  encode: (src: number, dest: number, row: number, j: number) => number;
  decode: (value: number | bigint) => string | undefined;
} {
  // 1000·src + 100·dest + 10·row + j mod 10 reads well, and collides beyond 10 ranks
  const perRank = 100 * Math.max(10, nranks);
  return {
    encode: (src, dest, row, j) => src * perRank + 100 * dest + 10 * row + (j % 10),
    decode: (value) => {
      const number = Number(value);
      const src = Math.floor(number / perRank);
      const dest = Math.floor((number % perRank) / 100);
      const row = Math.floor((number % 100) / 10);
      const known = Number.isInteger(number) && number >= 0 && src < nranks && dest < nranks && row < M;
      return known ? `rank ${src}'s row ${row} for rank ${dest}` : undefined;
    },
  };
}
