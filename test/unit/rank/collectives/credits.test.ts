import { describe, expect, it } from "vitest";
import { Random } from "../../../../shared/random.ts";
import { errorOf, fails, Rig, run, turn } from "../../../helpers/sim.ts";

const sizes = [1, 2, 3, 4, 7, 8];

describe("the credit barrier", () => {
  it.each(sizes)("lets nobody of %i ranks pass before all have entered", async (nranks) => {
    for (let seed = 0; seed < 5; seed++) {
      let entered = 0;
      await run(
        nranks,
        async (comm) => {
          const signal = await comm.signal("signal", [nranks, 1]);
          for (let round = 1; round <= 3; round++) {
            for (let i = 0; i < comm.rank * 3; i++) await turn();
            entered += 1;
            await comm.barrier(signal);
            expect(entered).toBeGreaterThanOrEqual(round * nranks);
          }
        },
        { seed },
      );
    }
  });

  // CASES: peer swap out[r] = in[(r + 1) mod P] is right only if the barrier held
  it.each(sizes)("orders a swap between %i ranks", async (nranks) => {
    await run(
      nranks,
      async (comm) => {
        const data = await comm.window("data", "int32", [4]);
        const signal = await comm.signal("signal", [nranks, 1]);
        data.local.array.fill(comm.rank * 10);
        await comm.barrier(signal);
        const y = comm.tensor("int32", [4]);
        await data.get((comm.rank + 1) % nranks, y);
        await comm.barrier(signal);
        data.local.array.fill(-1);
        expect([...y.array]).toEqual(new Array(4).fill(((comm.rank + 1) % nranks) * 10));
      },
      { seed: nranks },
    );
  });

  it("leaves every cell zero, seen behind a barrier on another signal", async () => {
    for (let seed = 0; seed < 10; seed++) {
      await run(
        4,
        async (comm) => {
          const data = await comm.window("data", "int32", [4, 1]);
          const signal = await comm.signal("signal", [5, 3]);
          const other = await comm.signal("other", [4, 1]);
          for (let round = 0; round < 4; round++) {
            await comm.barrier(signal);
            await comm.allToAll(comm.tensor("int32", [4, 1]), data, signal);
          }
          await comm.barrier(other);
          expect([...signal.local.array]).toEqual(new Array(15).fill(0));
        },
        { seed },
      );
    }
  });

  // pypto #2156: the second collective on one signal passes on stale state
  it("keeps 200 rounds apart, whatever the ranks are delayed by", async () => {
    const nranks = 4;
    const entered = new Array<number>(nranks).fill(0);
    await run(nranks, async (comm) => {
      const random = new Random(comm.rank + 1);
      const signal = await comm.signal("signal", [nranks, 1]);
      for (let round = 1; round <= 200; round++) {
        if (random.below(4) === 0) for (let i = random.below(30); i > 0; i--) await turn();
        entered[comm.rank] = round;
        await comm.barrier(signal);
        // nobody is behind, and nobody is more than one round ahead
        for (const other of entered) expect(other === round || other === round + 1).toBe(true);
      }
    });
  });

  it("counts one barrier a round, and a notify for each peer and each cell that it takes back", async () => {
    const { states } = await run(3, async (comm) => {
      const signal = await comm.signal("signal", [3, 1]);
      await comm.barrier(signal);
      await comm.barrier(signal);
    });
    for (const { counters } of states) {
      expect(counters).toMatchObject({ barriers: 2, puts: 0, gets: 0, waits: 4, payloadBytesSent: 0 });
      expect(counters.notifies).toBe(8);
    }
  });

  it("ends the group at its deadline, naming who has not arrived", async () => {
    const { error, call } = await fails(
      3,
      async (comm) => {
        const signal = await comm.signal("signal", [3, 1]);
        if (comm.rank === 2) for (;;) await turn().then(() => comm.fence(0));
        await comm.barrier(signal);
      },
      { waitTimeoutMs: 40 },
    );
    expect(error.code).toBe("ERR_WAIT_TIMEOUT");
    expect(error.message).toContain('cell [2, 0] of signal "signal" to be ge 1; it holds 0');
    expect(call).toBe("barrier #1");
  });

  it("says in the wait table which rank it waits for", async () => {
    const rig = new Rig({ rank: 1, nranks: 3 });
    const signal = await rig.signal("signal", [3, 2]);
    const task = rig.comm.barrier(signal);
    await turn();
    expect(rig.engine.pending.rows()).toMatchObject([
      {
        call: "barrier #1",
        seq: 1,
        signal: "signal",
        cell: [0, 0],
        compare: "ge",
        expected: 1,
        current: 0,
        missing: [0],
      },
      {
        call: "barrier #1",
        seq: 1,
        signal: "signal",
        cell: [2, 0],
        compare: "ge",
        expected: 1,
        current: 0,
        missing: [2],
      },
    ]);
    expect(rig.engine.state().calls).toMatchObject([{ op: "barrier", seq: 1, group: [0, 1, 2], groupOrdinal: 0 }]);
    rig.end();
    expect((await errorOf(() => task)).code).toBe("ERR_GROUP_ENDED");
    expect(rig.engine.pending.rows()).toEqual([]);
  });
});
