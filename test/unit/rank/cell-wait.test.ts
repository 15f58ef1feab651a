import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FrameFlag, FrameKind } from "../../../shared/frame.ts";
import { errorOf, fails, ordinalOf, Rig, run, turn } from "../../helpers/sim.ts";

describe("a hand-written wait", () => {
  it("resolves at once when its condition holds, and consumes nothing", async () => {
    const rig = new Rig();
    const signal = await rig.signal("signal", [2, 2]);
    await signal.notify(0, [1, 0], 3, "set");
    expect(await signal.wait([1, 0], 3, "eq")).toBe(3);
    expect(await signal.wait([1, 0], -7, "ge")).toBe(3);
    expect(await signal.wait([0, 0], 0, "eq")).toBe(0);
    expect(rig.engine.counters.waits).toBe(3);
    expect(rig.engine.pending.rows()).toEqual([]);
  });

  // memory model, line 10
  it("resolves with the value that was latched, although the cell has moved on", async () => {
    const rig = new Rig();
    const signal = await rig.signal("signal", [2]);
    const waits = [signal.wait([1], 2, "eq"), signal.wait([1], 2, "ge"), signal.wait([1], 3, "ge")];
    for (let i = 0; i < 4; i++) await signal.notify(0, [1], 1, "atomic_add");
    expect(await Promise.all(waits)).toEqual([2, 2, 3]);
    expect(signal.local.array[1]).toBe(4);
  });

  it("is a row of the wait table while it lasts, with the cell as offsets", async () => {
    const rig = new Rig({ rank: 2 });
    const signal = await rig.signal("signal", [3, 4, 5]);
    void signal.wait([1, 2, 3], 9, "ge").catch(() => {});
    await signal.notify(2, [1, 2, 3], 4, "set");
    expect(rig.engine.pending.rows()).toMatchObject([
      {
        call: "signal.wait",
        group: [0, 1, 2],
        seq: 0,
        lane: 0,
        signal: "signal",
        cell: [1, 2, 3],
        compare: "ge",
        expected: 9,
        current: 4,
        lastWriter: 2,
        missing: [],
      },
    ]);
    rig.end();
  });
});

describe("the deadline of a wait", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("rejects with what was awaited, what is there, who wrote last, and what to do", async () => {
    const rig = new Rig();
    const signal = await rig.signal("arrived", [3, 2]);
    rig.feed(2, {
      kind: FrameKind.Notify,
      flags: FrameFlag.Signal,
      signal: ordinalOf(signal),
      cell: 3,
      value: 4,
    });
    const error = errorOf(() => signal.wait([1, 1], 5, "ge", { timeoutMs: 1500 }));
    await vi.advanceTimersByTimeAsync(1500);
    expect((await error).code).toBe("ERR_WAIT_TIMEOUT");
    expect((await error).message).toBe(
      'signal.wait: waited 1500 ms for cell [1, 1] of signal "arrived" to be ge 5; it holds 4, last changed by rank 2. ' +
        "Either the notify was not sent, or it went to another cell; a legitimate longer wait needs --wait-timeout or timeoutMs",
    );
    expect((await error).context).toEqual({ rank: 0, window: "arrived", offset: [1, 1], group: [0, 1, 2], seq: 0 });
    // it may be tried again: the group goes on
    expect(rig.failures).toEqual([]);
    expect(rig.engine.pending.rows()).toEqual([]);
    await signal.notify(0, [1, 1], 5, "set");
    expect(await signal.wait([1, 1], 5, "ge")).toBe(5);
  });

  it("is --wait-timeout unless the call says otherwise, and says nobody where nobody wrote", async () => {
    const rig = new Rig({ waitTimeoutMs: 700 });
    const signal = await rig.signal("arrived", [3]);
    const error = errorOf(() => signal.wait([0], 1, "eq"));
    await vi.advanceTimersByTimeAsync(700);
    expect((await error).message).toContain("waited 700 ms for cell [0]");
    expect((await error).message).toContain("to be eq 1; it holds 0, last changed by nobody.");
  });

  it("that has passed leaves no waiter behind: later changes and the next wait are their own", async () => {
    const rig = new Rig();
    const signal = await rig.signal("arrived", [1]);
    const late = errorOf(() => signal.wait([0], 1, "ge", { timeoutMs: 10 }));
    await vi.advanceTimersByTimeAsync(10);
    await late;
    const again = signal.wait([0], 1, "ge", { timeoutMs: 10 });
    await signal.notify(0, [0], 1, "set");
    expect(await again).toBe(1);
    await vi.advanceTimersByTimeAsync(100);
    expect(rig.failures).toEqual([]);
  });
});

describe("wrong programs", () => {
  it("that notify one cell and wait on another stall, and the wait says where", async () => {
    const { error } = await fails(
      2,
      async (comm) => {
        const signal = await comm.signal("signal", [2, 2]);
        await signal.notify(1 - comm.rank, [comm.rank, 0], 1, "set");
        await signal.wait([0, 1 - comm.rank], 1, "ge");
        // rank 1's cell [0, 0] is the one that rank 0 writes
        await signal.wait([1, 1], 1, "ge");
      },
      { waitTimeoutMs: 30 },
    );
    expect(error.code).toBe("ERR_WAIT_TIMEOUT");
    expect(error.message).toMatch(
      /cell \[(0, 1|1, 1)\] of signal "signal" to be ge 1; it holds 0, last changed by nobody/u,
    );
  });

  it("that Set a cell which several ranks count on stall one below", async () => {
    const { error } = await fails(
      3,
      async (comm) => {
        const signal = await comm.signal("signal", [1]);
        if (comm.rank > 0) await signal.notify(0, [0], 1, "set");
        else await signal.wait([0], 2, "ge");
      },
      { waitTimeoutMs: 30 },
    );
    expect(error.message).toMatch(/to be ge 2; it holds 1, last changed by rank [12]/u);
  });
});

describe("order", () => {
  // memory model, lines 2 and 3: whatever the network delays, a notify is never seen before its puts
  it("of puts and notifies to one peer is kept under any delay, chunked puts included", async () => {
    for (let seed = 0; seed < 20; seed++) {
      await run(
        3,
        async (comm) => {
          const data = await comm.window("data", "int32", [3, 3000]);
          const signal = await comm.signal("signal", [3, 1]);
          const x = comm.tensor("int32", [1, 3000]);
          for (let round = 1; round <= 3; round++) {
            x.array.fill(comm.rank * 10 + round);
            const puts = comm.peers.map((peer) =>
              data.put(peer, x, { dstOffset: [comm.rank, 0], shape: [1, 3000] }, { chunkCols: 700 }),
            );
            const notifies = comm.peers.map((peer) => signal.notify(peer, [comm.rank, 0], 1, "atomic_add"));
            for (const peer of comm.peers) {
              expect(await signal.wait([peer, 0], round, "ge")).toBe(round);
              const row = data.local.array.subarray(peer * 3000, (peer + 1) * 3000);
              expect(row.every((value) => value === peer * 10 + round)).toBe(true);
            }
            await Promise.all([...puts, ...notifies]);
            await comm.barrier(await comm.signal(`barrier ${round}`, [3, 1]));
          }
        },
        { seed },
      );
      await turn();
    }
  });
});
