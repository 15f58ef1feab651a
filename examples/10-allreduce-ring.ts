/**
 * allreduce, ring: P segments go round; each rank only ever reads from its left neighbour.
 *
 * By hand: P − 1 steps in which a segment gathers one more rank's operands, then P − 1 steps that hand out the sums.
 * Builtin: the same in one call.
 */
import { AllReduceAlgo, type Comm, NotifyOp, WaitCmp } from "rankwise";

const SIZE = 100;

export const modes = ["hand", "builtin"];

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks } = comm;
  const { operand, total, decode } = values(nranks);
  const data = await comm.window("data", "int32", [SIZE]);
  for (let j = 0; j < SIZE; j++) data.local.array[j] = operand(rank, j);
  const steps = nranks - 1;

  if (comm.mode === "builtin") {
    const credits = await comm.signal("credits", [2 * steps + 1, nranks]); // a row for each step, and a last one
    await comm.allReduce(data, credits, { algo: AllReduceAlgo.Ring });
  } else {
    const left = (rank - 1 + nranks) % nranks;
    const right = (rank + 1) % nranks;
    const ready = await comm.signal("ready", [2 * nranks]); // cell t is for step t, and only `left` writes to it
    for (let step = 0; step < 2 * steps; step++) {
      // What I hold is as far as this step needs it. The same is waited for from the left.
      await ready.notify(right, [step], 1, NotifyOp.Set);
      await ready.wait([step], 1, WaitCmp.Ge);

      const reducing = step < steps;
      const segment = (2 * nranks + (reducing ? rank - step - 1 : rank - (step - steps))) % nranks;
      const start = Math.floor((segment * SIZE) / nranks);
      const length = Math.floor(((segment + 1) * SIZE) / nranks) - start;
      const part = await data.remoteLoad(left, [start], [length]);
      // A partial sum and my operand, or a sum that is complete and takes the place of what I had.
      const mine = data.local.array.subarray(start, start + length);
      for (let j = 0; j < length; j++) mine[j] = part.array[j]! + (reducing ? mine[j]! : 0);
    }
  }

  await comm.check(data, total, { decode });
}

/** Operands whose sum tells which ranks are in it, and back. */
function values(nranks: number): {
  operand: (rank: number, element: number) => number;
  total: (element: number) => number;
  decode: (sum: number | bigint) => string | undefined;
} {
  const unit = 16_384;
  const ranks = [...Array(nranks).keys()];
  // 2^rank units: every set of ranks has a sum of its own, as long as int32 holds them all
  const weight = (rank: number): number => (nranks <= 16 ? 2 ** rank : 1 + (rank % 8));
  const operand = (rank: number, element: number): number => weight(rank) * unit + element;
  return {
    operand,
    total: (element) => ranks.reduce((sum, rank) => sum + operand(rank, element), 0),
    decode: (sum) => {
      const [units, rest] = [Math.floor(Number(sum) / unit), Number(sum) % unit];
      const added = ranks.filter((rank) => (units & weight(rank)) !== 0);
      const known = nranks <= 16 && units < 2 ** nranks && rest % added.length === 0;
      return known ? `the sum of rank ${added.join(", ")} for element ${rest / added.length}` : undefined;
    },
  };
}
