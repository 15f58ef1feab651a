import { describe, expect, it } from "vitest";
import type { Comm } from "../../../../rank/comm.ts";
import { simulate } from "../../../../rank/simulate.ts";
import { range } from "../../../helpers/ranks.ts";
import { run } from "../../../helpers/sim.ts";

/** all_to_all, then allreduce ring on the same signal, again and again; each result is looked at when its call returns. */
const allToAllThenRing =
  (rounds: number) =>
  async (comm: Comm): Promise<void> => {
    const { rank, nranks } = comm;
    const x = comm.tensor("int32", [nranks, 2]);
    const data = await comm.window("data", "int32", [nranks, 2]);
    const sum = await comm.window("sum", "int32", [nranks]);
    const signal = await comm.signal("signal", [2 * (nranks - 1) + 1, nranks]);
    for (let round = 1; round <= rounds; round++) {
      for (let i = 0; i < x.array.length; i++) x.array[i] = round * 1000 + rank * 100 + i;
      sum.local.array.fill(round + rank);
      await comm.allToAll(x, data, signal);
      const expected = range(2 * nranks).map((i) => round * 1000 + Math.floor(i / 2) * 100 + rank * 2 + (i % 2));
      if (data.local.array.join() !== expected.join()) throw new Error(`round ${round}: ${data.local.array.join()}`);
      await comm.allReduce(sum, signal, { algo: "ring" });
      const total = nranks * round + (nranks * (nranks - 1)) / 2;
      if (sum.local.array.some((value) => value !== total))
        throw new Error(`round ${round}: ${sum.local.array.join()}`);
    }
  };

describe("allreduce ring behind another builtin on one signal", () => {
  // cells [step, left] of the ring are cells [source, lane] of everything else
  it("is not taken for that call's credits by a rank that is still in it", async () => {
    for (let seed = 0; seed < 30; seed++) await run(5, allToAllThenRing(4), { seed });
  });

  it("needs its round 0 for that", async () => {
    let wrong = 0;
    for (let seed = 0; seed < 200 && wrong === 0; seed++) {
      const testFault = "skip_round:op=allreduce,round=0";
      const { failure } = await simulate({ nranks: 5, seed, main: allToAllThenRing(4), testFault });
      if (failure?.error.message.includes("round ") === true) wrong += 1;
      else expect(failure).toBeUndefined();
    }
    expect(wrong).toBe(1);
  });
});

describe("a window that has been a source", () => {
  // the chunks are above 4 KiB: nothing is snapshotted, so they are read until they have been sent
  const sentThenOverwritten = async (comm: Comm): Promise<void> => {
    const { rank, nranks } = comm;
    const size = 1100;
    const source = await comm.window("source", "int32", [nranks, size]);
    const gathered = await comm.window("gathered", "int32", [nranks, size]);
    const signal = await comm.signal("signal", [nranks, 1]);
    const y = comm.tensor("int32", [nranks, size]);
    source.local.array.fill(rank);
    y.array.fill(-1);
    await comm.allGather(source.local.view("int32", [size]), gathered, signal);
    await comm.allToAll(y, source, signal);
    if (gathered.local.array.some((value, i) => value !== Math.floor(i / size))) throw new Error("not what was sent");
    if (source.local.array.some((value) => value !== -1)) throw new Error("not what was pushed");
  };

  it.each([2, 3, 4])("is not overwritten by the next call of a faster rank, %i ranks", async (nranks) => {
    for (let seed = 0; seed < 40; seed++) {
      const { states } = await run(nranks, sentThenOverwritten, { seed });
      for (const { counters } of states) expect(counters.barriers).toBe(3);
    }
  });

  it("needs the ready round for that", async () => {
    let wrong = 0;
    for (let seed = 0; seed < 100 && wrong === 0; seed++) {
      const { failure } = await simulate({ nranks: 3, seed, main: sentThenOverwritten, testFault: "skip_ready" });
      if (failure?.error.message.includes("not what was sent") === true) wrong += 1;
    }
    expect(wrong).toBe(1);
  });
});

describe("second inputs + 100000 on one signal", () => {
  it.each([1, 2, 3, 4, 7, 8])(
    "come out whole from all_to_all, allgather and reduce_scatter, %i ranks",
    async (nranks) => {
      await run(nranks, async (comm) => {
        const { rank } = comm;
        const size = 64;
        const [x, chunk] = [comm.tensor("float32", [nranks, size]), comm.tensor("float32", [size])];
        const signal = await comm.signal("signal", [nranks, 1]);
        const exchanged = await comm.window("exchanged", "float32", [nranks, size]);
        const gathered = await comm.window("gathered", "float32", [nranks, size]);
        const scattered = await comm.window("scattered", "float32", [nranks, size]);
        for (const more of [0, 100_000]) {
          x.array.forEach((_, i) => {
            x.array[i] = more + 1000 * rank + 100 * Math.floor(i / size) + (i % size);
          });
          chunk.array.forEach((_, j) => {
            chunk.array[j] = more + 100 * rank + j;
          });
          scattered.local.array.set(x.array);
          await comm.allToAll(x, exchanged, signal);
          await comm.allGather(chunk, gathered, signal);
          await comm.reduceScatter(scattered, signal);
          await comm.check(exchanged, (s, j) => more + 1000 * s + 100 * rank + j);
          await comm.check(gathered, (s, j) => more + 100 * s + j);
          const ranks = range(nranks);
          const mine = scattered.local.view("float32", [size], rank * size * 4);
          await comm.check(mine, (j) => ranks.reduce((sum, s) => sum + more + 1000 * s + 100 * rank + j, 0));
        }
      });
    },
  );
});
