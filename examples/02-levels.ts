/**
 * Levels: what a rank does once, and what its lanes do side by side.
 *
 * Each lane fills one row, puts it into the next rank's window and waits for the row of the same lane of the previous
 * rank. The launch joins them: behind it, the rank has all rows.
 */
import { type Comm, NotifyOp, WaitCmp } from "rankwise";

const LANES = 4;
const SIZE = 16;

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks } = comm;
  const next = (rank + 1) % nranks;
  const previous = (rank - 1 + nranks) % nranks; // % keeps the sign, so P goes in first

  // Rank level: memory is allocated once for all lanes, in the same order on every rank.
  const x = comm.tensor("int32", [LANES, SIZE]);
  const data = await comm.window("data", "int32", [LANES, SIZE]);
  const arrived = await comm.signal("arrived", [LANES]);

  await comm.launch(LANES, async (lane) => {
    // Lane level: a row and a cell of its own, so lanes need no order among each other.
    for (let j = 0; j < SIZE; j++) x.array[lane * SIZE + j] = encode(rank, lane, j);
    const row = { dstOffset: [lane, 0], srcOffset: [lane, 0], shape: [1, SIZE] };
    await data.putSignal(next, x, row, arrived, [lane], 1, NotifyOp.Set);
    await arrived.wait([lane], 1, WaitCmp.Ge);
  });

  // Rank level again: the launch has resolved, so every lane has seen its row.
  await comm.check(data, (lane, j) => encode(previous, lane, j), { decode });
}

function encode(rank: number, lane: number, j: number): number {
  return 1000 * rank + 100 * lane + j;
}

function decode(value: number | bigint): string | undefined {
  const number = Number(value);
  const lane = Math.floor((number % 1000) / 100);
  if (number < 0 || lane >= LANES || number % 100 >= SIZE) return undefined;
  return `the row of lane ${lane} of rank ${Math.floor(number / 1000)}`;
}
