/**
 * Window: memory that every rank has under the same name, and into which peers write.
 *
 * Each rank puts its private tensor into the inbox of the next rank, rings there, and waits for its own bell.
 */
import { type Comm, NotifyOp, WaitCmp } from "rankwise";

const SIZE = 64;

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks } = comm;
  const next = (rank + 1) % nranks;
  const previous = (rank - 1 + nranks) % nranks;

  // Private memory: nobody else reaches it.
  const x = comm.tensor("float32", [SIZE]);
  for (let j = 0; j < SIZE; j++) x.array[j] = encode(rank, j);

  // Symmetric memory: resolves when every rank has its part, and each part is zero.
  const inbox = await comm.window("inbox", "float32", [SIZE]);
  const arrived = await comm.signal("arrived", [1]);

  await inbox.put(next, x); // no region: all of x, and both shapes are the same
  await arrived.notify(next, [0], 1, NotifyOp.Set);
  await arrived.wait([0], 1, WaitCmp.Ge); // the bell came behind the put, on the same link

  await comm.check(inbox, (j) => encode(previous, j), { decode });
  await comm.check(x, (j) => encode(rank, j), { decode }); // a put only reads its source

  // Collective too: resolves when every rank has given its part back. The name is free again, and the memory zero.
  await inbox.free();
  const second = await comm.window("inbox", "float32", [SIZE]);
  await comm.check(second, () => 0, { decode });
}

function encode(rank: number, j: number): number {
  return 1000 * (rank + 1) + j;
}

function decode(value: number | bigint): string | undefined {
  const number = Number(value);
  if (number === 0) return "nothing yet";
  const known = Number.isInteger(number) && number >= 1000 && number % 1000 < SIZE;
  return known ? `rank ${Math.floor(number / 1000) - 1}'s element ${number % 1000}` : undefined;
}
