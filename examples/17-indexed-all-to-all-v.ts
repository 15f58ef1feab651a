/**
 * indexed_all_to_all_v: every rank sends rows of its input, chosen by an index, to every rank.
 *
 * By hand: a put for each row, from where it lies, then a notify that carries the count. Builtin: one call, whose
 * rows leave in vectored writes. Row s·C + j of the target is the input row of rank s that its index named for us in
 * slot j, for j below the count; every other row keeps what it held.
 */
import { type Comm, NotifyOp, type Signal, type Tensor, WaitCmp, type Window } from "rankwise";

/** Rows of a rank's input, elements of a row, and slots that a target keeps for each source. */
const NMAX = 16;
const H = 8;
const C = 6;

/** What the target holds before; no rank sends it. */
const KEPT = -1;

export const modes = ["hand", "builtin"];

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks } = comm;
  const { encode, decode } = values(nranks);

  const input = comm.tensor("float32", [NMAX, H]);
  for (let i = 0; i < input.array.length; i++) input.array[i] = encode(rank, Math.floor(i / H), i % H);
  const index = comm.tensor("int32", [nranks, C]);
  index.array.fill(-1); // behind a count nothing is read
  for (let dest = 0; dest < nranks; dest++) {
    for (let j = 0; j < rowsFor(rank, dest); j++) index.array[dest * C + j] = chosenRow(rank, dest, j);
  }
  const recvCounts = comm.tensor("int32", [nranks, 1]);

  const target = await comm.window("target", "float32", [nranks * C, H]);
  const sync = await comm.signal("sync", [nranks, 1]);
  target.local.array.fill(KEPT);
  await comm.barrier(sync); // nobody writes into a target that is still being filled

  const exchange = comm.mode === "builtin" ? builtin : byHand;
  await exchange(comm, { input, index, recvCounts, target });

  await comm.check(recvCounts, (src) => rowsFor(src, rank));
  const golden = (row: number, j: number): number => {
    const [src, slot] = [Math.floor(row / C), row % C];
    return slot < rowsFor(src, rank) ? encode(src, chosenRow(src, rank, slot), j) : KEPT;
  };
  await comm.check(target, golden, { decode });
}

interface Buffers {
  readonly input: Tensor<"float32">;
  readonly index: Tensor<"int32">;
  readonly recvCounts: Tensor<"int32">;
  readonly target: Window<"float32">;
}

async function builtin(comm: Comm, { input, index, recvCounts, target }: Buffers): Promise<void> {
  const sendCounts = await comm.window("counts", "int32", [comm.nranks, 1]);
  for (let dest = 0; dest < comm.nranks; dest++) sendCounts.local.array[dest] = rowsFor(comm.rank, dest);
  const coreNum = 2;
  const credits = await comm.signal("credits", [comm.nranks, coreNum]);
  await comm.indexedAllToAllV(input, target, credits, { sendCounts, recvCounts, index, coreNum });
}

async function byHand(comm: Comm, { input, index, recvCounts, target }: Buffers): Promise<void> {
  const { rank, nranks, peers } = comm;
  const arrived: Signal = await comm.signal("arrived", [nranks, 1]);
  for (let dest = 0; dest < nranks; dest++) {
    for (let j = 0; j < rowsFor(rank, dest); j++) {
      const region = { dstOffset: [rank * C + j, 0], srcOffset: [index.array[dest * C + j]!, 0], shape: [1, H] };
      await target.put(dest, input, region);
    }
  }
  // one more than the count, so that no rows can be told from no word
  for (const peer of peers) await arrived.notify(peer, [rank, 0], 1 + rowsFor(rank, peer), NotifyOp.Set);
  recvCounts.array[rank] = rowsFor(rank, rank);
  for (const src of peers) recvCounts.array[src] = (await arrived.wait([src, 0], 1, WaitCmp.Ge)) - 1;
}

/** Rows that one rank sends another: another number for each pair, none and all of the slots among them. */
function rowsFor(src: number, dest: number): number {
  return (3 * src + 5 * dest) % (C + 1);
}

/** The row that goes into a slot: scattered, and some rows go into several slots. */
function chosenRow(src: number, dest: number, slot: number): number {
  return (5 * src + 3 * dest + slot * slot) % NMAX;
}

/** Values that name their source, row and element, and back. */
function values(nranks: number): {
  encode: (src: number, row: number, j: number) => number;
  decode: (value: number | bigint) => string | undefined;
} {
  return {
    encode: (src, row, j) => 1000 * src + 10 * row + j,
    decode: (value) => {
      const number = Number(value);
      const [src, row] = [Math.floor(number / 1000), Math.floor((number % 1000) / 10)];
      const known = Number.isInteger(number) && number >= 0 && src < nranks && row < NMAX && number % 10 < H;
      return known ? `row ${row} of rank ${src}` : undefined;
    },
  };
}
