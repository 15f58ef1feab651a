import { describe, expect, it } from "vitest";
import type { Comm } from "../../../../rank/comm.ts";
import { simulate } from "../../../../rank/simulate.ts";

describe("indexed_all_to_all_v", () => {
  it.each([
    [1, 1],
    [1, 3],
    [2, 1],
    [2, 5],
    [3, 2],
    [4, 4],
    [7, 3],
  ])("puts every indexed row into its slot on %i ranks with %i lanes", async (nranks, coreNum) => {
    const C = 26;
    const H = 5;
    const NMAX = 40;
    const failures: string[] = [];
    const main = async (comm: Comm): Promise<void> => {
      const { rank } = comm;
      const input = comm.tensor("float32", [NMAX, H]);
      const index = comm.tensor("int32", [nranks, C]);
      const recvCounts = comm.tensor("int32", [nranks, 1]);
      const target = await comm.window("target", "float32", [nranks * C, H]);
      const sendCounts = await comm.window("counts", "int32", [nranks, 1]);
      const signal = await comm.signal("signal", [nranks, coreNum]);
      const sync = await comm.signal("sync", [nranks, 1]);
      const count = (s: number, d: number, round: number): number => (3 * s + 5 * d + 7 * round) % (C + 1);
      const row = (s: number, d: number, j: number, round: number): number => (s + d * 3 + j * j + round) % NMAX;
      for (let round = 0; round < 5; round++) {
        for (let i = 0; i < input.array.length; i++) input.array[i] = rank * 10_000 + round * 1000 + i;
        for (let d = 0; d < nranks; d++) {
          sendCounts.local.array[d] = count(rank, d, round);
          for (let j = 0; j < C; j++) index.array[d * C + j] = j < count(rank, d, round) ? row(rank, d, j, round) : -1;
        }
        target.local.array.fill(Number.NaN);
        await comm.barrier(sync);
        await comm.indexedAllToAllV(input, target, signal, { sendCounts, recvCounts, index, coreNum });
        for (let s = 0; s < nranks; s++) {
          if (recvCounts.array[s] !== count(s, rank, round)) failures.push(`count ${s} ${rank}`);
          for (let j = 0; j < C; j++) {
            for (let h = 0; h < H; h++) {
              const got = target.local.array[(s * C + j) * H + h];
              const expected =
                j < count(s, rank, round) ? s * 10_000 + round * 1000 + row(s, rank, j, round) * H + h : Number.NaN;
              if (!Object.is(got, expected)) failures.push(`round ${round} ${s}→${rank} slot ${j}: ${got} ${expected}`);
            }
          }
        }
        await comm.barrier(sync);
      }
    };
    const { failure, states } = await simulate({ nranks, seed: 3, main });
    expect(failure?.error.message).toBeUndefined();
    expect(failures).toEqual([]);
    if (nranks > 1) expect(states[0]?.queues.length).toBeGreaterThan(0);
  });
});
