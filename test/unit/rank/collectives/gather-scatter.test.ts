import { describe, it } from "vitest";
import { range } from "../../../helpers/ranks.ts";
import { run } from "../../../helpers/sim.ts";

const SIZE = 64;

describe.each([1, 2, 3, 4, 7, 8])("on %i ranks", (nranks) => {
  it("allgather: 100 r + j, one after another on every rank, and the source unchanged", async () => {
    await run(nranks, async (comm) => {
      const x = comm.tensor("float32", [SIZE]);
      x.array.forEach((_, j) => {
        x.array[j] = 100 * comm.rank + j;
      });
      const data = await comm.window("data", "float32", [nranks, SIZE]);
      const signal = await comm.signal("signal", [nranks, 1]);
      await comm.allGather(x, data, signal);
      await comm.check(data, (s, j) => 100 * s + j);
      await comm.check(x, (j) => 100 * comm.rank + j);
    });
  });

  it("broadcast: root's data in three rounds with different roots, never what the others had staged", async () => {
    await run(nranks, async (comm) => {
      const data = await comm.window("data", "float32", [SIZE]);
      const signal = await comm.signal("signal", [nranks, 1]);
      for (const [round, root] of [nranks - 1, 0, Math.floor(nranks / 2)].entries()) {
        data.local.array.forEach((_, j) => {
          data.local.array[j] = comm.rank === root ? 1000 * round + 100 * root + j : -1 - comm.rank;
        });
        await comm.broadcast(data, signal, { root });
        await comm.check(data, (j) => 1000 * round + 100 * root + j);
      }
    });
  });

  it("reduce_scatter: row r is the sum of everybody's chunk r, and the other rows stay", async () => {
    await run(nranks, async (comm) => {
      const data = await comm.window("data", "float32", [nranks, SIZE]);
      const signal = await comm.signal("signal", [nranks, 1]);
      data.local.array.forEach((_, i) => {
        data.local.array[i] = 100 * comm.rank + i;
      });
      await comm.reduceScatter(data, signal);
      const sum = (i: number): number => range(nranks).reduce((total, s) => total + 100 * s + i, 0);
      await comm.check(data, (row, j) => {
        const i = row * SIZE + j;
        return row === comm.rank ? sum(i) : 100 * comm.rank + i;
      });
    });
  });
});

describe("all_to_all, two rounds with + 10000 on one signal", () => {
  // beyond ten ranks 1000 r + 100 d + j names some elements twice
  it.each([1, 2, 3, 4, 7, 8, 10, 16])("names every element's source and place on %i ranks", async (nranks) => {
    const encode = (r: number, d: number, j: number): number =>
      nranks <= 10 ? 1000 * r + 100 * d + j : (r * nranks + d) * SIZE + j;
    await run(nranks, async (comm) => {
      const x = comm.tensor("float32", [nranks, SIZE]);
      const data = await comm.window("data", "float32", [nranks, SIZE]);
      const signal = await comm.signal("signal", [nranks, 1]);
      for (const more of [0, 10_000]) {
        x.array.forEach((_, i) => {
          const golden = more + encode(comm.rank, Math.floor(i / SIZE), i % SIZE);
          x.array[i] = golden;
          if (x.array[i] !== golden) throw new Error("not exact in the dtype");
        });
        await comm.allToAll(x, data, signal);
        await comm.check(data, (s, j) => more + encode(s, comm.rank, j));
      }
    });
  });

  it("by hand: Set(k), wait Ge(k) and a closing barrier before the window is used again", async () => {
    await run(4, async (comm) => {
      const { rank, nranks, peers } = comm;
      const x = comm.tensor("float32", [nranks, SIZE]);
      const data = await comm.window("data", "float32", [nranks, SIZE]);
      const [signal, closing] = [await comm.signal("signal", [nranks, 1]), await comm.signal("closing", [nranks, 1])];
      for (let k = 1; k <= 3; k++) {
        x.array.forEach((_, i) => {
          x.array[i] = 10_000 * k + 1000 * rank + 100 * Math.floor(i / SIZE) + (i % SIZE);
        });
        for (let d = 0; d < nranks; d++) {
          await data.put(d, x, { dstOffset: [rank, 0], srcOffset: [d, 0], shape: [1, SIZE] });
        }
        for (const peer of peers) await signal.notify(peer, [rank, 0], k, "set");
        for (const source of peers) await signal.wait([source, 0], k, "ge");
        await comm.check(data, (s, j) => 10_000 * k + 1000 * s + 100 * rank + j);
        await comm.barrier(closing);
      }
    });
  });
});
