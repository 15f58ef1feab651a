/**
 * all_to_all: every rank has a different chunk for every rank.
 *
 * By hand: push each chunk into its owner's window, say so with a notify, wait for everybody's notify, read back.
 * Builtin: the same in one call. Row s of the window is the chunk that rank s meant for us, in either mode.
 */
import { type Comm, NotifyOp, WaitCmp } from "rankwise";

const SIZE = 64;

export const modes = ["hand", "builtin"];

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks } = comm;
  const { encode, decode } = values(nranks);

  const x = comm.tensor("float32", [nranks, SIZE]);
  for (let dest = 0; dest < nranks; dest++) {
    for (let j = 0; j < SIZE; j++) x.array[dest * SIZE + j] = encode(rank, dest, j);
  }
  const data = await comm.window("data", "float32", [nranks, SIZE]);

  if (comm.mode === "builtin") {
    const credits = await comm.signal("credits", [nranks, 1]);
    await comm.allToAll(x, data, credits);
  } else {
    const arrived = await comm.signal("arrived", [nranks, 1]);
    for (let dest = 0; dest < nranks; dest++) {
      await data.put(dest, x, { dstOffset: [rank, 0], srcOffset: [dest, 0], shape: [1, SIZE] });
    }
    for (const peer of comm.peers) await arrived.notify(peer, [rank, 0], 1, NotifyOp.Set);
    for (const src of comm.peers) await arrived.wait([src, 0], 1, WaitCmp.Ge);
  }

  await comm.check(data, (src, j) => encode(src, rank, j), { decode });
}

/** Values that name their source, destination and element, and back. */
function values(nranks: number): {
  encode: (src: number, dest: number, j: number) => number;
  decode: (value: number | bigint) => string | undefined;
} {
  // 1000·src + 100·dest + j reads well, and collides beyond 10 ranks
  const [perRank, perChunk] = nranks <= 10 ? [1000, 100] : [nranks * SIZE, SIZE];
  return {
    encode: (src, dest, j) => src * perRank + dest * perChunk + j,
    decode: (value) => {
      const number = Number(value);
      const src = Math.floor(number / perRank);
      const dest = Math.floor((number % perRank) / perChunk);
      const j = number % perChunk;
      const known = Number.isInteger(number) && number >= 0 && src < nranks && dest < nranks && j < SIZE;
      return known ? `rank ${src}'s chunk for rank ${dest}` : undefined;
    },
  };
}
