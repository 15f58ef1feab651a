/** Lanes of a launch are independent: a late one makes only its own cells late. */
import { NotifyOp, WaitCmp } from "rankwise";
import { describe, expect, test } from "vitest";
import { Gate, range, rankTransports, runRanks, runRanksWell } from "../helpers/ranks.ts";

const { Set: SET, AtomicAdd: ADD } = NotifyOp;
const { Ge: GE } = WaitCmp;

describe.each(rankTransports)("over %s", (transport) => {
  test.each([
    { nranks: 3, lanes: 4, late: 2, lateRank: 1 },
    { nranks: 2, lanes: 36, late: 0, lateRank: 0 },
    { nranks: 16, lanes: 3, late: 1, lateRank: 7 },
  ])("lane $late of rank $lateRank of $nranks sleeps before its notify", async (shape) => {
    const { nranks, lanes, late, lateRank } = shape;
    const awake = new Gate();
    const others = range(nranks * lanes).map(() => 1);
    others[lateRank * lanes + late] = 0;
    let seenBefore = 0;
    await runRanksWell({
      transport,
      nranks,
      main: async (comm) => {
        const data = await comm.window("data", "int32", [nranks, lanes]);
        const signal = await comm.signal("signal", [nranks, lanes]);
        const work = comm.launch(lanes, async (lane) => {
          const x = comm.tensor("int32", [1, 1], Int32Array.of(100 * comm.rank + lane));
          if (comm.rank === lateRank && lane === late) await awake.opened;
          for (const peer of range(nranks)) {
            const region = { dstOffset: [comm.rank, lane], shape: [1, 1] };
            await data.putSignal(peer, x, region, signal, [comm.rank, lane], 1, ADD);
          }
        });
        const cells = range(nranks * lanes).map((cell) => [Math.floor(cell / lanes), cell % lanes]);
        await Promise.all(cells.filter((_, cell) => others[cell] === 1).map((cell) => signal.wait(cell, 1, GE)));
        expect([...signal.local.array], `rank ${comm.rank}`).toEqual(others);
        seenBefore += 1;
        if (seenBefore === nranks) awake.open();
        await signal.wait([lateRank, late], 1, GE);
        const expected = range(nranks * lanes).map((cell) => 100 * Math.floor(cell / lanes) + (cell % lanes));
        expect([...data.local.array]).toEqual(expected);
        await work;
      },
    });
    expect(seenBefore).toBe(nranks);
  });
});

test("a launch resolves when all lanes have joined, and rejects with the first that does", async () => {
  const joined: number[] = [];
  await runRanksWell({
    nranks: 2,
    main: async (comm) => {
      const signal = await comm.signal("signal", [2]);
      await comm.launch(5, async (lane) => {
        if (lane === 0) await signal.wait([0], 1, GE);
        if (lane === 4) await signal.notify(1 - comm.rank, [0], 1, SET);
        joined.push(lane);
      });
      expect(joined.filter((lane) => lane === 0).length).toBeGreaterThan(0);
      const failed = comm.launch(3, (lane) => {
        if (lane === 1) throw new Error("lane 1 fails");
      });
      await expect(failed).rejects.toThrow("lane 1 fails");
    },
  });
  expect(joined.toSorted()).toEqual([0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
});

test.each([
  { platform: "a5sim", most: 36 },
  { platform: "a2a3sim", most: 48 },
] as const)("$platform allows $most lanes", async ({ platform, most }) => {
  const launches = async (settings: object, allowed: number): Promise<void> => {
    const { failure } = await runRanks({
      nranks: 1,
      settings,
      main: async (comm) => {
        let lanes = 0;
        await comm.launch(allowed, () => (lanes += 1));
        expect(lanes).toBe(allowed);
        await expect(comm.launch(allowed + 1, () => undefined)).rejects.toMatchObject({
          code: "ERR_LIMIT",
          message: expect.stringMatching(new RegExp(`${allowed + 1} lanes .* ${allowed}`, "u")) as string,
        });
      },
    });
    expect(failure).toBeUndefined();
  };
  await launches({ platform }, most);
  await launches({ platform, lanesMax: 50 }, 50);
});
