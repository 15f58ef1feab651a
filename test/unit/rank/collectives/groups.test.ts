import { describe, expect, it } from "vitest";
import type { Comm } from "../../../../rank/comm.ts";
import type { Signal, Window } from "../../../../rank/window.ts";
import { turns } from "../../../helpers/collective-stress.ts";
import { range } from "../../../helpers/ranks.ts";
import { run } from "../../../helpers/sim.ts";
import { Random } from "../../../../shared/random.ts";

describe("overlapping groups", () => {
  it("{0, 1} and {1, 2} swap 10, 11 and 12, each in its own windows", async () => {
    await run(3, async (comm) => {
      const { rank } = comm;
      const got = { a: 0, b: 0 };
      const swap = async (name: "a" | "b", members: readonly number[]): Promise<void> => {
        const pair = comm.group(members);
        const data = await pair.window("data", "int32", [1]);
        const signal = await pair.signal("signal", [2, 1]);
        const x = pair.tensor("int32", [2], Int32Array.of(10 + rank, 10 + rank));
        const rows = await pair.window("rows", "int32", [2]);
        await pair.allToAll(x, rows, signal);
        got[name] = rows.local.array[1 - pair.rank]!;
        await data.free();
      };
      const work: Promise<void>[] = [];
      if (rank <= 1) work.push(swap("a", [0, 1]));
      if (rank >= 1) work.push(swap("b", [1, 2]));
      await Promise.all(work);
      expect(got.a).toBe([11, 10, 0][rank]);
      expect(got.b).toBe([0, 12, 11][rank]);
    });
  });

  interface Parts {
    readonly group: Comm;
    readonly rows: Window<"int32">;
    readonly sum: Window<"int32">;
    readonly signal: Signal;
  }

  /** One round of a group: an all_to_all and a ring on one signal, at once, with values of the round. */
  async function round({ group, rows, sum, signal }: Parts, number: number, seed: number): Promise<void> {
    const { rank, nranks } = group;
    const x = group.tensor("int32", [nranks, 3]);
    x.array.forEach((_, i) => {
      x.array[i] = number * 1000 + rank * 100 + Math.floor(i / 3) * 10 + (i % 3);
    });
    sum.local.array.fill(number + rank);
    if (new Random(seed + number * 7 + rank).below(4) === 0) await turns(40);
    await Promise.all([
      group.allToAll(x, rows, signal),
      group.allReduce(sum, signal, { algo: number % 2 === 0 ? "ring" : "mesh" }),
    ]);
    const expected = range(nranks * 3).map((i) => number * 1000 + Math.floor(i / 3) * 100 + rank * 10 + (i % 3));
    expect(rows.local.array.join()).toBe(expected.join());
    expect(new Set(sum.local.array)).toEqual(new Set([nranks * number + (nranks * (nranks - 1)) / 2]));
  }

  it.each([1, 2, 3])("run collectives at the same time for 100 rounds, seed %i", async (seed) => {
    await run(
      4,
      async (world) => {
        const lists = [
          [0, 1, 2],
          [3, 2, 1],
        ].filter((members) => members.includes(world.rank));
        await Promise.all(
          lists.map(async (members) => {
            const group = world.group(members);
            const rows = await group.window("rows", "int32", [3, 3]);
            const sum = await group.window("sum", "int32", [5]);
            const signal = await group.signal("signal", [5, 3]);
            const quiet = await group.signal("quiet", [3, 1]);
            for (let number = 1; number <= 100; number++) await round({ group, rows, sum, signal }, number, seed);
            await group.barrier(quiet);
            expect(signal.local.array.every((cell) => cell === 0)).toBe(true);
          }),
        );
      },
      { seed },
    );
  });
});
