import { describe, expect, it } from "vitest";
import type { Comm } from "../../../../rank/comm.ts";
import { disagreements } from "../../../fixtures/programs/disagree.ts";
import { fails, run } from "../../../helpers/sim.ts";

describe("a call on which the ranks do not agree", () => {
  it.each(Object.keys(disagreements))("%s: ends the group with ERR_MISMATCH, and no rank returns", async (name) => {
    for (let seed = 0; seed < 12; seed++) {
      const nranks = 3;
      let returned = 0;
      const { error, call } = await fails(
        nranks,
        async (comm) => {
          await disagreements[name]!(comm, seed % nranks);
          returned += 1;
        },
        { seed, waitTimeoutMs: 5000 },
      );
      expect(error.code).toBe("ERR_MISMATCH");
      expect(error.context.seq).toBe(name.endsWith("at the end") ? 2 : 1);
      expect(error.message).toMatch(/#\d|of rank|expects/u);
      expect(call).toMatch(/ #\d+$/u);
      // a rank that has no further call comes to its end, and so may those whom it has answered; nobody else does
      expect(returned).toBeLessThanOrEqual(name.startsWith("skips") ? 1 : 0);
    }
  });
});

describe("calls on which the ranks agree", () => {
  it("all_to_all_v with counts of zero on one side works", async () => {
    await run(3, async (comm) => {
      const input = comm.tensor("int32", [6, 2], new Int32Array(12).fill(comm.rank));
      const target = await comm.window("target", "int32", [6, 2]);
      const signal = await comm.signal("signal", [3, 1]);
      const sendCounts = comm.tensor("int32", [3], new Int32Array(3).fill(comm.rank === 0 ? 2 : 0));
      const recvCounts = comm.tensor("int32", [3]);
      await comm.allToAllV(input, target, signal, { sendCounts, recvCounts });
      expect([...recvCounts.array]).toEqual([2, 0, 0]);
    });
  });

  // floating promises: the goodbye must not come before them
  it("are finished before a rank leaves, though its program has not awaited them", async () => {
    for (let seed = 0; seed < 20; seed++) {
      await run(
        3,
        async (comm: Comm) => {
          const signal = await comm.signal("signal", [3, 1]);
          const tasks = [1, 2, 3].map(() => comm.barrier(signal));
          if (comm.rank !== 1) await Promise.all(tasks);
        },
        { seed },
      );
    }
  });
});
