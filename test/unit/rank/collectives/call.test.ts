import { beforeEach, describe, expect, it } from "vitest";
import type { Task } from "../../../../rank/collectives/call.ts";
import type { Tensor } from "../../../../rank/memory/tensor.ts";
import type { Signal, Window } from "../../../../rank/window.ts";
import { FrameFlag, FrameKind } from "../../../../shared/frame.ts";
import type { RankwiseError } from "../../../../shared/errors.ts";
import { errorOf, expectRefusal, fails, ordinalOf, Rig, run, settled, turn } from "../../../helpers/sim.ts";
import { unhandledIn } from "../../../helpers/unhandled.ts";

let rig: Rig;
let first: Window<"int32">;
let second: Window<"int32">;
let s1: Signal;
let s2: Signal;
let x: Tensor<"int32">;

beforeEach(async () => {
  rig = new Rig({ rank: 0, nranks: 2 });
  first = await rig.window("first", "int32", [2, 3]);
  second = await rig.window("second", "int32", [2, 3]);
  s1 = await rig.signal("s1", [2, 1]);
  s2 = await rig.signal("s2", [2, 1]);
  x = rig.comm.tensor("int32", [2, 3]);
});

/** The peer's credit for the call that the last frame of this rank belongs to. */
function creditFromPeer(signal: Signal): void {
  const { seq, fingerprint } = rig.sent.at(-1)!.header;
  rig.feed(1, {
    kind: FrameKind.Notify,
    flags: FrameFlag.Signal | FrameFlag.SignalAdd,
    seq,
    fingerprint,
    signal: ordinalOf(signal),
    cell: 1,
    value: 1,
  });
}

describe("calls on one signal", () => {
  it("run after each other, in the order in which they were made", async () => {
    const one = rig.comm.allToAll(x, first, s1);
    const two = rig.comm.allToAll(x, second, s1);
    await turn();
    expect(rig.sent.map(({ header }) => header.window)).toEqual([ordinalOf(first)]);
    creditFromPeer(s1);
    await one;
    await turn();
    expect(rig.sent.map(({ header }) => header.window)).toEqual([ordinalOf(first), ordinalOf(second)]);
    expect(rig.sent.map(({ header }) => header.seq)).toEqual([1, 2]);
    expect(await settled(two)).toBe(false);
    creditFromPeer(s1);
    await two;
    expect(s1.local.array[1]).toBe(0);
  });
});

describe("calls that nobody awaits one by one", () => {
  it.each([
    ["on one signal", () => {}],
    ["each after the one before", (previous: Task | undefined) => previous],
  ])(
    "%s: 2000 in flight are made in no time, and each knows what it comes after",
    async (_, after) => {
      let previous: Task | undefined;
      for (let i = 0; i < 2000; i++) {
        const before = after(previous);
        previous = rig.comm.allToAll(x, first, s1, before === undefined ? {} : { after: before });
      }
      rig.end();
      expect((await errorOf(() => previous!)).code).toBe("ERR_GROUP_ENDED");
    },
    5000,
  );
});

describe("calls on independent signals", () => {
  it("run at the same time when they share no buffer that one of them writes", async () => {
    const one = rig.comm.allToAll(x, first, s1);
    const two = rig.comm.allToAll(x, second, s2);
    await turn();
    expect(rig.sent).toHaveLength(2);
    creditFromPeer(s2);
    await two;
    expect(await settled(one)).toBe(false);
  });

  it("that touch one buffer are refused, naming both, and nothing moves", async () => {
    void rig.comm.allToAll(x, first, s1).catch(() => {});
    await turn();
    const [sent, counters, calls] = [rig.sent.length, { ...rig.engine.counters }, rig.engine.state().calls];
    const y = rig.comm.tensor("int32", [2, 3]);
    const sameTarget = await expectRefusal(() => rig.comm.allToAll(y, first, s2), "ERR_BUFFER_CONFLICT");
    expect(sameTarget.message).toMatch(/^all_to_all: its data is the data of all_to_all, .*\{ after: task \}/u);
    // its source is what the other writes
    const source = await expectRefusal(() => rig.comm.allToAll(first, second, s2), "ERR_BUFFER_CONFLICT");
    expect(source.message).toContain("its x is the data of all_to_all");
    const part = rig.comm.tensor("int32", [2, 3], first.local.array);
    await expectRefusal(() => rig.comm.allToAll(part, second, s2), "ERR_BUFFER_CONFLICT");
    expect(rig.sent).toHaveLength(sent);
    expect(rig.engine.counters).toEqual(counters);
    expect(rig.engine.state().calls).toEqual(calls);
    expect(rig.failures).toEqual([]);
  });

  it("may touch one buffer when the second is told to come after the first", async () => {
    const one = rig.comm.allToAll(x, first, s1);
    const y = rig.comm.tensor("int32", [2, 3]);
    const two = rig.comm.allToAll(y, first, s2, { after: one });
    await turn();
    expect(rig.sent).toHaveLength(1);
    creditFromPeer(s1);
    await one;
    await turn();
    // ready round first: the window is used again
    expect(rig.sent.map(({ header }) => [header.kind, header.seq])).toEqual([
      [FrameKind.Put, 1],
      [FrameKind.Notify, 2],
    ]);
    creditFromPeer(s2);
    await turn();
    creditFromPeer(s2);
    await two;
  });

  it("come after everything that their predecessor comes after", async () => {
    const one = rig.comm.allToAll(x, first, s1);
    const barrier = rig.comm.barrier(s2, { after: one });
    const third = await rig.signal("s3", [2, 1]);
    // conflicts with the first call alone, which it follows through the barrier
    const two = rig.comm.allToAll(x, first, third, { after: [barrier] });
    expect(await settled(two)).toBe(false);
    rig.end();
    for (const task of [one, barrier, two]) expect((await errorOf(() => task)).code).toBe("ERR_GROUP_ENDED");
  });
});

describe("after", () => {
  it("takes tasks of this rank and nothing else", async () => {
    for (const after of [Promise.resolve(), 7, null, {}, [undefined], [Promise.resolve()]]) {
      await expectRefusal(() => rig.comm.barrier(s1, { after: after as never }), "ERR_INVALID_ARGUMENT", "after");
    }
    expect(rig.sent).toEqual([]);
    expect(rig.engine.state().calls).toEqual([]);
  });

  it("takes a task that has long completed", async () => {
    const one = rig.comm.barrier(s1);
    creditFromPeer(s1);
    await one;
    const two = rig.comm.barrier(s2, { after: one });
    creditFromPeer(s2);
    await two;
  });

  // whoever asks to come after a task relies on what it did
  it("of a task that has failed fails, whether it failed before or later", async () => {
    const failing = rig.comm.task(() => Promise.reject(new Error("no")));
    const early = rig.comm.task(() => {}, { after: failing });
    await expect(failing).rejects.toThrow("no");
    await expect(early).rejects.toThrow("no");
    const late = rig.comm.task(() => {}, { after: failing });
    await expect(late).rejects.toThrow("no");
  });
});

describe("a task", () => {
  // else the ranks would make their calls in an order that depends on when earlier ones completed
  it("never starts before its caller's code goes on, whether what it comes after is done or not", async () => {
    const done = rig.comm.task(() => {});
    await done;
    const order: string[] = [];
    const task = rig.comm.task(() => order.push("task"), { after: done });
    order.push("caller");
    await task;
    expect(order).toEqual(["caller", "task"]);
  });

  it.each([
    ["fails", () => rig.comm.task(() => Promise.reject(new Error("boom")))],
    [
      "comes after one that fails",
      () => rig.comm.barrier(s1, { after: rig.comm.task(() => Promise.reject(new Error("boom"))) }),
    ],
  ])("that %s and is awaited by nobody is an unhandled rejection, which ends the group", async (_, start) => {
    expect((await unhandledIn(() => void start())).map(String)).toEqual(["Error: boom"]);
  });

  it("that fails because the group has ended is told by that, and is none", async () => {
    const unhandled = await unhandledIn(() => {
      void rig.comm.barrier(s1);
      void rig.comm.task(() => s2.wait([0, 0], 1, "ge"));
      rig.end();
    });
    expect(unhandled).toEqual([]);
  });
});

describe("a link whose queue is full", () => {
  // a builtin that has begun cannot stop in the middle: its puts and credits are taken
  it("refuses a put of the program, never one of a builtin", async () => {
    const exempt = (): boolean[] => rig.sent.map((frame) => frame.exempt);
    await first.put(1, x);
    void rig.comm.allToAll(x, second, s1).catch(() => {});
    expect(exempt()).toEqual([false, true]);
    rig.end();
  });
});

describe("a signal that is not clean", () => {
  it("is refused, naming cell and value, and the call takes no number", async () => {
    await s1.notify(0, [1, 0], 1, "set");
    const error = await expectRefusal(() => rig.comm.barrier(s1), "ERR_SIGNAL_NOT_CLEAN");
    expect(error.message).toContain('barrier: cell [1, 0] of signal "s1" holds 1, last changed by Set');
    expect(error.context).toMatchObject({ window: "s1", offset: [1, 0], collective: "barrier" });
    expect(rig.sent).toEqual([]);
    const one = rig.comm.barrier(s2);
    expect(rig.engine.state().calls.map(({ seq }) => seq)).toEqual([1]);
    creditFromPeer(s2);
    await one;
  });

  it("is as good as new once Set has cleared it", async () => {
    await s1.notify(0, [1, 0], 1, "set");
    await s1.notify(0, [1, 0], 0, "set");
    const one = rig.comm.barrier(s1);
    expect(rig.sent).toHaveLength(1);
    rig.end();
    await errorOf(() => one);
  });

  it("ends the group when the Set arrives while a builtin uses it", async () => {
    void rig.comm.barrier(s1).catch(() => {});
    await turn();
    rig.feed(1, { kind: FrameKind.Notify, flags: FrameFlag.Signal, signal: ordinalOf(s1), cell: 1, value: 1 });
    expect(rig.failure).toMatchObject({ error: { code: "ERR_NOTIFY_MIXED" }, suspect: 1, call: "barrier #1" });
  });

  // the Set would let the call pass at once when its turn comes
  it("does not slip in while a call waits for its turn", async () => {
    const one = rig.comm.barrier(s1);
    const two = rig.comm.barrier(s2, { after: one });
    for (const task of [one, two]) task.catch(() => {});
    rig.feed(1, { kind: FrameKind.Notify, flags: FrameFlag.Signal, signal: ordinalOf(s2), cell: 1, value: 1 });
    expect(rig.failures.map(({ error }) => error.code)).toEqual(["ERR_NOTIFY_MIXED"]);
    expect(await settled(two)).toBe(false);
  });
});

describe("a mismatch", () => {
  /** Rank `odd` enters a barrier where the others enter an all_to_all; each outcome is noted. */
  async function mix(
    odd: number,
    seed: number,
  ): Promise<{ error: RankwiseError; suspect: number | null; codes: string[] }> {
    const codes: string[] = [];
    const failure = await fails(
      3,
      async (comm) => {
        const data = await comm.window("data", "int32", [3, 2]);
        const signal = await comm.signal("signal", [3, 1]);
        const call =
          comm.rank === odd ? comm.barrier(signal) : comm.allToAll(comm.tensor("int32", [3, 2]), data, signal);
        await call.then(
          () => codes.push("returned"),
          (error: unknown) => {
            codes.push((error as RankwiseError).code);
            throw error;
          },
        );
      },
      { seed },
    );
    return { ...failure, codes };
  }

  it.each([0, 1, 2])("ends the group when rank %i is in another call, and no call returns", async (odd) => {
    for (let seed = 0; seed < 10; seed++) {
      const { error, suspect, codes } = await mix(odd, seed);
      expect(error.code).toBe("ERR_MISMATCH");
      expect(error.message).toMatch(/(barrier|all_to_all) #1: rank \d is in a different call/u);
      expect(suspect).toBeNull();
      expect(codes).not.toEqual([]);
      for (const code of codes) expect(["ERR_MISMATCH", "ERR_GROUP_ENDED"]).toContain(code);
    }
  });

  it("of signals is one", async () => {
    const { error } = await fails(3, async (comm) => {
      const [a, b] = [await comm.signal("a", [3, 1]), await comm.signal("b", [3, 1])];
      await comm.barrier(comm.rank === 0 ? a : b);
    });
    expect(error.code).toBe("ERR_MISMATCH");
  });

  it("is none when a rank never comes: that is a timeout, which names the call", async () => {
    const { error } = await fails(
      3,
      async (comm) => {
        const signal = await comm.signal("signal", [3, 1]);
        await comm.barrier(signal);
        if (comm.rank === 1) for (;;) await turn().then(() => comm.fence(0));
        await comm.barrier(signal);
      },
      { waitTimeoutMs: 50 },
    );
    expect(error.code).toBe("ERR_WAIT_TIMEOUT");
    expect(error.message).toContain("barrier #2");
  });
});

describe("tasks and deferred waits", () => {
  it("order collectives behind conditions without blocking", async () => {
    await run(2, async (comm) => {
      const signal = await comm.signal("signal", [2, 1]);
      const credits = await comm.signal("credits", [2, 1]);
      const order: string[] = [];
      const arrived = signal.deferWait([{ offset: [1 - comm.rank, 0], expected: 2 }]);
      const work = comm.task(() => order.push("work"), { after: arrived });
      const barrier = comm.barrier(credits, { after: work }).then(() => order.push("barrier"));
      order.push("not blocked");
      await signal.notify(1 - comm.rank, [comm.rank, 0], 2, "set");
      await barrier;
      expect(order).toEqual(["not blocked", "work", "barrier"]);
    });
  });
});
