/**
 * Any P: a vector in P segments, for lengths that P does not divide, down to segments of no element at all.
 *
 * Rank r owns segment r and hands it to everybody. Each put carries its notify: an empty one still says "I was here".
 */
import { type Comm, NotifyOp, WaitCmp } from "rankwise";

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks, peers } = comm;
  const length = Number(comm.args[0] ?? 10);

  // Segment i is [⌊i·n/P⌋, ⌊(i+1)·n/P⌋): no gap, no overlap, lengths that differ by 1 at most, and 0 where P > n.
  const start = (i: number): number => Math.floor((i * length) / nranks);
  const shape = [start(rank + 1) - start(rank)];

  const mine = comm.tensor("int32", shape);
  for (let j = 0; j < mine.array.length; j++) mine.array[j] = encode(rank, start(rank) + j);
  const vector = await comm.window("vector", "int32", [length]);
  const arrived = await comm.signal("arrived", [nranks]);

  await vector.put(rank, mine, { dstOffset: [start(rank)], shape }); // a put to oneself is a checked copy
  for (const peer of peers) {
    await vector.putSignal(peer, mine, { dstOffset: [start(rank)], shape }, arrived, [rank], 1, NotifyOp.Set);
  }
  for (const peer of peers) await arrived.wait([peer], 1, WaitCmp.Ge); // with one rank: no peers, no wait

  const owner = (element: number): number => {
    let i = 0;
    while (start(i + 1) <= element) i += 1;
    return i;
  };
  await comm.check(vector, (element) => encode(owner(element), element), { decode });
}

function encode(rank: number, element: number): number {
  return 100_000 * (rank + 1) + element;
}

function decode(value: number | bigint): string {
  const number = Number(value);
  if (number === 0) return "nothing yet";
  return `rank ${Math.floor(number / 100_000) - 1}'s element ${number % 100_000}`;
}
