import { Duplex } from "node:stream";
import { describe, expect, it } from "vitest";
import main from "../../../examples/15-all-to-all.ts";
import { Faults } from "../../../rank/faults.ts";
import { expectRefusal, fails } from "../../helpers/sim.ts";

describe("Faults", () => {
  it("are none without text", () => {
    const faults = new Faults("", 0);
    const payload = Uint8Array.of(1, 2);
    expect(faults.received(payload)).toBe(payload);
    expect([faults.destination(0), faults.destination(1), faults.skipReady, faults.offsetError()]).toEqual([
      0,
      1,
      false,
      0,
    ]);
  });

  it("flip the last byte of the nth put, once, in a copy", () => {
    const faults = new Faults("flip_byte:nth=2", 0);
    const payload = Uint8Array.of(7, 8);
    const arrivals = [1, 2, 3].map(() => [...faults.received(payload)]);
    expect(arrivals).toEqual([
      [7, 8],
      [7, 9],
      [7, 8],
    ]);
    expect([...payload]).toEqual([7, 8]);
  });

  it("pass over empty payloads when they count", () => {
    const faults = new Faults("flip_byte", 0);
    expect([...faults.received(new Uint8Array())]).toEqual([]);
    expect([...faults.received(Uint8Array.of(4))]).toEqual([5]);
  });

  it("belong to the rank that they name, or to all", () => {
    expect(new Faults("skip_ready:rank=1", 1).skipReady).toBe(true);
    expect(new Faults("skip_ready:rank=1", 0).skipReady).toBe(false);
    expect(new Faults("skip_ready", 5).skipReady).toBe(true);
  });

  it("may be several", () => {
    const faults = new Faults("skip_ready;misroute:a=0,b=2;", 1);
    expect(faults.skipReady).toBe(true);
    expect([0, 1, 2].map((peer) => faults.destination(peer))).toEqual([2, 1, 0]);
  });

  it("that do not exist are refused by name, with those that do", async () => {
    const error = await expectRefusal(() => new Faults("flip_bit:nth=1", 0), "ERR_USAGE");
    expect(error.message).toContain("RANKWISE_TEST_FAULT: no fault flip_bit; known: flip_byte, misroute");
    await expectRefusal(() => new Faults("toString", 0), "ERR_USAGE");
  });

  // a sabotage run whose fault is mistyped must not pass for one without a fault
  it.each(["flip_byte:nht=2", "flip_byte:nth=two", "flip_byte:nth", "skip_ready:rank=one", "skip_round:op=3"])(
    "with a key or value that means nothing are refused: %s",
    async (text) => {
      await expectRefusal(() => new Faults(text, 0), "ERR_USAGE");
    },
  );
});

describe("faults of drills", () => {
  /** Walks through calls and rounds as a rank does; returns where a fault threw. */
  function walk(faults: Faults, ops: readonly string[]): string[] {
    return ops.flatMap((op, at) =>
      [0, 1, 2].flatMap((round) => {
        try {
          if (round === 0) void faults.entered(op, at + 1);
          else faults.reached(op, at + 1, round);
          return [];
        } catch (error) {
          return [`${op} #${at + 1} round ${round}: ${(error as Error).message}`];
        }
      }),
    );
  }
  const ops = ["barrier", "all_to_all", "barrier", "barrier"];

  it("strike once, at their call and round", () => {
    expect(walk(new Faults("throw:op=barrier,nth=2,round=1", 0), ops)).toEqual([
      "barrier #3 round 1: the drill's own mistake on rank 0",
    ]);
    expect(walk(new Faults("throw:nth=2,round=0", 0), ops)).toHaveLength(1);
    expect(walk(new Faults("throw:op=barrier,nth=4", 0), ops)).toEqual([]);
    expect(walk(new Faults("throw:rank=1", 0), ops)).toEqual([]);
  });

  it("hold a call that hangs before its first round, and only that one", () => {
    const faults = new Faults("hang:op=barrier,nth=2", 0);
    expect(faults.entered("barrier", 1)).toBeUndefined();
    expect(faults.entered("all_to_all", 2)).toBeUndefined();
    expect(faults.entered("barrier", 3)).toBeInstanceOf(Promise);
    expect(faults.entered("barrier", 4)).toBeUndefined();
  });

  it("exit with 7 by whoever may", () => {
    const codes: number[] = [];
    walk(new Faults("exit:round=1", 0, (code) => codes.push(code)), ops);
    expect(codes).toEqual([7]);
  });

  it("announce one count that is beyond every capacity", () => {
    const faults = new Faults("bad_count:round=1", 0);
    expect(faults.announced(3)).toBe(3);
    faults.reached("all_to_all_v", 1, 1);
    expect([faults.announced(3), faults.announced(3)]).toEqual([2 ** 31 - 1, 3]);
  });

  it("cut, end, reset and spoil the link to a rank", () => {
    const acts = (name: string): unknown[] => {
      const written: unknown[] = [];
      const link = new Duplex({
        read: () => undefined,
        write: (chunk, _encoding, done) => {
          written.push([...(chunk as Uint8Array)]);
          done();
        },
        final: (done) => {
          written.push("ended");
          done();
        },
      });
      const faults = new Faults(`${name}:to=2`, 0);
      faults.linkOpened(2, link);
      faults.reached("barrier", 1, 1);
      if (!link.destroyed && !link.writableEnded) link.write(Uint8Array.of(9));
      return link.destroyed ? ["destroyed"] : written;
    };
    expect(acts("cut_link")).toEqual([]);
    expect(acts("half_close")).toEqual(["ended"]);
    expect(acts("reset_link")).toEqual(["destroyed"]);
    expect(acts("corrupt_frame")).toEqual([[0xf2, 4, 1, 2, 3, 4], [9]]);
    expect(acts("delay_link")).toEqual([]);
  });
});

describe("sabotaged all_to_all", () => {
  it.each(["hand", "builtin"] as const)("with a flipped byte fails its check on that rank, %s", async (mode) => {
    const { error } = await fails(4, main, { testFault: "flip_byte:rank=2,nth=3", settings: { mode } });
    expect(error.code).toBe("ERR_WRONG_DATA");
    expect(error.message).toMatch(/^rank 2 row \d holds /u);
    expect(error.context.rank).toBe(2);
  });

  it.each(["hand", "builtin"] as const)("with misrouted puts names whose chunk it got, %s", async (mode) => {
    const { error } = await fails(4, main, { testFault: "misroute:rank=3,a=0,b=1", settings: { mode } });
    expect(error.code).toBe("ERR_WRONG_DATA");
    expect(error.message).toMatch(/^rank ([01]) row 3 holds rank 3's chunk for rank (?!\1)[01]; element \[3, 0\]/u);
  });

  it("with a frame beyond its window ends by the owner, which names the sender", async () => {
    const { error, suspect } = await fails(4, main, { testFault: "bad_frame:rank=1,nth=2" });
    expect(error.code).toBe("ERR_FRAME_BOUNDS");
    expect(error.message).toMatch(/^rank \d, frame from rank 1: put: 1 × 256 bytes at byte 1099511/u);
    expect(suspect).toBe(1);
  });
});
