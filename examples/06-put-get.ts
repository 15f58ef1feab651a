/**
 * Put and get: whole windows, regions, chunks, and a put that adds.
 *
 * Four exchanges round the ring of ranks, each in a window of its own, with one barrier behind all of them.
 */
import type { Comm } from "rankwise";

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks } = comm;
  const next = (rank + 1) % nranks;
  const previous = (rank - 1 + nranks) % nranks;
  const credits = await comm.signal("credits", [nranks, 1]);

  const x = comm.tensor("float32", [8, 128]);
  for (let i = 0; i < x.array.length; i++) x.array[i] = encode(rank, Math.floor(i / 128), i % 128);
  const whole = await comm.window("whole", "float32", [8, 128]);
  const part = await comm.window("part", "float32", [12, 64]);
  const source = await comm.window("source", "float32", [8, 128]);
  const sums = await comm.window("sums", "int32", [16, 16]);

  // What a peer may read or add to has to be there before it does.
  source.local.array.set(x.array);
  sums.local.array.fill(10);
  await comm.barrier(credits);

  // The whole tensor, cut into chunks of [4, 64] that leave back to back.
  await whole.put(next, x, undefined, { chunkRows: 4, chunkCols: 64, pipeline: true });

  // A region: the left half of x goes to row 2 of the window, in chunks of [2, 32].
  const region = { dstOffset: [2, 0], srcOffset: [0, 0], shape: [8, 64] };
  await part.put(next, x, region, { chunkRows: 2, chunkCols: 32 });

  // Adding: nothing of the target is read here, it adds where it lies. Only one rank's sums change.
  const target = nranks - 1;
  const addend = comm.tensor("int32", [16, 16], new Int32Array(256).fill(32));
  if (rank === 0) await sums.put(target, addend, undefined, { atomic: "add" });

  // A get asks and waits for the answer: here for rows 4 to 7 of the next rank.
  const rows = comm.tensor("float32", [4, 128]);
  await source.get(next, rows, { srcOffset: [4, 0], dstOffset: [0, 0], shape: [4, 128] });

  await comm.barrier(credits); // its credits came behind the puts
  await comm.check(whole, (row, col) => encode(previous, row, col), { decode });
  await comm.check(part, (row, col) => (row < 2 || row >= 10 ? 0 : encode(previous, row - 2, col)), { decode });
  await comm.check(sums, () => (rank === target ? 42 : 10));
  await comm.check(rows, (row, col) => encode(next, row + 4, col), { decode });
}

function encode(rank: number, row: number, col: number): number {
  return 10_000 * (rank + 1) + 1000 * row + col;
}

function decode(value: number | bigint): string | undefined {
  const number = Number(value);
  if (number === 0) return "nothing yet";
  const [row, col] = [Math.floor((number % 10_000) / 1000), number % 1000];
  const known = Number.isInteger(number) && number >= 10_000 && row < 8 && col < 128;
  return known ? `rank ${Math.floor(number / 10_000) - 1}'s element [${row}, ${col}]` : undefined;
}
