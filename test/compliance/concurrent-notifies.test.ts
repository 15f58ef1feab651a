/** Line 5 under load: sums are exact and neighbours untouched, whoever notifies how often. */
import { NotifyOp, WaitCmp } from "rankwise";
import { describe, expect, test } from "vitest";
import { INT32_MAX } from "../../shared/constants.ts";
import { range, rankTransports, runRanksWell } from "../helpers/ranks.ts";

const { AtomicAdd: ADD, Set: SET } = NotifyOp;
const { Ge: GE } = WaitCmp;

describe.each(rankTransports)("over %s", (transport) => {
  test("10 000 notifies of four ranks leave the cells between theirs as they were", async () => {
    const [nranks, each] = [4, 2500];
    // cells 1, 3, 5 are added to by all, cell 7 wraps several times, the others belong to nobody
    const amounts = (rank: number, k: number): [cell: number, value: number][] => [
      [1, 1],
      [3, k % 2 === 0 ? -3 : 2],
      [5, rank - 2],
      [7, INT32_MAX - rank],
    ];
    await runRanksWell({
      transport,
      nranks,
      seed: 5,
      main: async (comm) => {
        const signal = await comm.signal("signal", [3, 3]);
        const done = await comm.signal("done", [nranks]);
        const guard = await comm.window("guard", "int32", [16]);
        let outcome = Promise.resolve();
        for (const k of range(each / 4)) {
          for (const [cell, value] of amounts(comm.rank, k)) {
            outcome = signal.notify(0, [Math.floor(cell / 3), cell % 3], value, ADD);
          }
          if (k % 50 === 0) await outcome;
        }
        await done.notify(0, [comm.rank], 1, SET);
        if (comm.rank > 0) return;
        for (const rank of range(nranks)) await done.wait([rank], 1, GE);
        const expected = new Int32Array(9);
        for (const rank of range(nranks)) {
          for (const k of range(each / 4)) {
            for (const [cell, value] of amounts(rank, k)) expected[cell] = (expected[cell] ?? 0) + value;
          }
        }
        expect([...signal.local.array]).toEqual([...expected]);
        expect(guard.local.array.every((value) => value === 0)).toBe(true);
      },
    });
  });
});
