/**
 * Every collective of the table as its user's own loop over primitives: the form that a kernel author writes, and an
 * oracle for the builtins that shares no code with them.
 */
import type { Comm } from "../comm.ts";
import { reduceInto } from "../memory/reduce.ts";
import type { Tensor } from "../memory/tensor.ts";
import type { Signal } from "../window.ts";
import type { Buffers, Cell } from "./cell.ts";
import { CONFORMANCE_ROWS, rowCount, sentRows } from "./values.ts";

/** Credits by hand: one to every peer, one from every peer, and back to zero. */
export async function handBarrier({ rank, peers }: Comm, signal: Signal, column = 0): Promise<void> {
  for (const peer of peers) await signal.notify(peer, [rank, column], 1, "atomic_add");
  for (const peer of peers) await signal.wait([peer, column], 1, "ge");
  for (const peer of peers) await signal.notify(rank, [peer, column], -1, "atomic_add");
}

/** root pushes, behind a barrier that says that everybody may be written to. */
export async function handBroadcast(comm: Comm, { data, signal }: Buffers, root: number): Promise<void> {
  await handBarrier(comm, signal);
  if (comm.rank === root) {
    const staged = comm.tensor(data.dtype, data.shape);
    staged.bytes.set(data.local.bytes);
    for (const peer of comm.peers) await data.put(peer, staged);
  }
  await handBarrier(comm, signal);
}

export async function handAllGather(
  comm: Comm,
  { input, data, signal }: Buffers,
  { nranks, length }: Cell,
): Promise<void> {
  await handBarrier(comm, signal);
  for (let peer = 0; peer < nranks; peer++) {
    await data.put(peer, input, { dstOffset: [comm.rank, 0], shape: [1, length] });
  }
  await handBarrier(comm, signal);
}

/** Everybody's row of this rank, reduced in the order of ranks. */
export async function handReduceScatter(
  comm: Comm,
  { data, signal }: Buffers,
  { nranks, length, op }: Cell,
): Promise<void> {
  await handBarrier(comm, signal);
  const rows: Tensor[] = [];
  for (let peer = 0; peer < nranks; peer++) rows.push(await data.remoteLoad(peer, [comm.rank, 0], [1, length]));
  const rowBytes = data.local.bytes.byteLength / nranks;
  const mine = data.local.bytes.subarray(comm.rank * rowBytes, (comm.rank + 1) * rowBytes);
  reduceInto(
    data.dtype,
    op,
    mine,
    rows.map(({ bytes }) => bytes),
  );
  await handBarrier(comm, signal);
}

/** Everybody's data, reduced in the order of ranks, written back once nobody reads any more. */
export async function handAllReduce(
  comm: Comm,
  { data, signal }: Buffers,
  { nranks, length, op }: Cell,
): Promise<void> {
  await handBarrier(comm, signal);
  const operands: Tensor[] = [];
  for (let peer = 0; peer < nranks; peer++) operands.push(await data.remoteLoad(peer, [0], [length]));
  await handBarrier(comm, signal);
  reduceInto(
    data.dtype,
    op,
    data.local.bytes,
    operands.map(({ bytes }) => bytes),
  );
}

export async function handAllToAll(
  comm: Comm,
  { input, data, signal }: Buffers,
  { nranks, length }: Cell,
): Promise<void> {
  await handBarrier(comm, signal);
  for (let peer = 0; peer < nranks; peer++) {
    await data.put(peer, input, { dstOffset: [comm.rank, 0], srcOffset: [peer, 0], shape: [1, length] });
  }
  await handBarrier(comm, signal);
}

/** The counts travel as credits of a column of their own, one more than the count so that zero can be waited for. */
export async function handAllToAllV(comm: Comm, buffers: Buffers, { nranks, length }: Cell): Promise<void> {
  const { rank } = comm;
  const { input, data, signal } = buffers;
  await handBarrier(comm, signal);
  for (let peer = 0; peer < nranks; peer++) {
    const partition = { dstOffset: [rank * CONFORMANCE_ROWS, 0], srcOffset: [peer * CONFORMANCE_ROWS, 0] };
    await data.put(peer, input, { ...partition, shape: [rowCount(rank, peer), length] });
  }
  await handCounts(comm, signal);
  await handBarrier(comm, signal);
}

/** A put for each row, from where it lies. */
export async function handIndexedAllToAllV(comm: Comm, buffers: Buffers, { nranks, length }: Cell): Promise<void> {
  const { rank } = comm;
  const { input, data, signal } = buffers;
  await handBarrier(comm, signal);
  for (let peer = 0; peer < nranks; peer++) {
    for (const [slot, row] of sentRows(rank, peer).entries()) {
      const place = { dstOffset: [rank * CONFORMANCE_ROWS + slot, 0], srcOffset: [row, 0] };
      await data.put(peer, input, { ...place, shape: [1, length] });
    }
  }
  await handCounts(comm, signal);
  await handBarrier(comm, signal);
}

/** Tells every peer how many rows it gets from here, and checks what the peers say. */
async function handCounts(comm: Comm, signal: Signal): Promise<void> {
  const { rank, nranks, peers } = comm;
  for (const peer of peers) await signal.notify(peer, [rank, 1], 1 + rowCount(rank, peer), "atomic_add");
  const counts = comm.tensor("int32", [nranks]);
  counts.array[rank] = rowCount(rank, rank);
  for (const peer of peers) {
    const credit = await signal.wait([peer, 1], 1, "ge");
    counts.array[peer] = credit - 1;
    await signal.notify(rank, [peer, 1], -credit, "atomic_add");
  }
  await comm.check(counts, (source) => rowCount(source, rank));
}
