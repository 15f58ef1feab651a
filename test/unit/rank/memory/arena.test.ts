import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Arena, arenaOf, noArena, Scratch } from "../../../../rank/memory/arena.ts";
import { expectRefusal } from "../../../helpers/sim.ts";

const KIB = 1024;
/** Most tests work on one memory, as each reserves gigabytes of address space; every test gives back what it took. */
const arena = new Arena(1024 * KIB);

const take = (bytes: number, options?: { zeroed: boolean }): Uint8Array => {
  const view = arena.allocate(bytes, options);
  if (view === undefined) throw new Error(`no room for ${bytes} bytes`);
  return view;
};

describe("allocate", () => {
  it("gives zeroed, aligned memory of one shared buffer", () => {
    const views = [1, 63, 64, 65, 4096, 70_000].map((bytes) => take(bytes));
    for (const view of views) {
      expect(view.byteOffset % 64).toBe(0);
      expect(view.buffer).toBe(views[0]?.buffer);
      expect(view.buffer).toBeInstanceOf(SharedArrayBuffer);
      expect(view.every((byte) => byte === 0)).toBe(true);
    }
    expect(arenaOf(views[0]!.buffer)).toBe(arena);
    expect(arena.lentBytes).toBe(3 * 64 + 128 + 4096 + 70_016);
    for (const view of views) arena.release(view);
    expect(arena.lentBytes).toBe(0);
  });

  it("zeroes what was used before, unless that is not asked for", () => {
    const used = take(200_000);
    used.fill(7);
    arena.release(used);
    const dirty = take(200_000, { zeroed: false });
    expect([dirty.byteOffset, dirty[0], dirty[199_999]]).toEqual([used.byteOffset, 7, 7]);
    arena.release(dirty);
    const clean = take(200_001);
    expect(clean.byteOffset).toBe(used.byteOffset);
    expect(clean.every((byte) => byte === 0)).toBe(true);
    arena.release(clean);
  });

  it("gives nothing where it does not fit, and all of it after everything came back", () => {
    const half = take(512 * KIB);
    expect(arena.allocate(512 * KIB + 1)).toBeUndefined();
    const other = take(512 * KIB);
    expect(arena.allocate(1)).toBeUndefined();
    arena.release(half);
    arena.release(other);
    const whole = take(1024 * KIB);
    expect(arena.allocate(1)).toBeUndefined();
    arena.release(whole);
    expect(arena.allocate(1024 * KIB + 1)).toBeUndefined();
  });

  it("finds the one block that fits among many of nearly its size", () => {
    const views = Array.from({ length: 40 }, (_, i) => take(i === 3 ? 4160 : 4096));
    const fences = [take(1024 * KIB - arena.lentBytes)];
    for (const [i, view] of views.entries()) if (i % 2 === 1) arena.release(view);
    const found = take(4160);
    expect(found.byteOffset).toBe(views[3]?.byteOffset);
    expect(arena.allocate(4160)).toBeUndefined();
    for (const view of [found, ...fences, ...views.filter((_, i) => i % 2 === 0)]) arena.release(view);
    expect(arena.lentBytes).toBe(0);
  });

  it("of no bytes is empty and takes no room", () => {
    const none = take(0);
    expect(none).toHaveLength(0);
    expect(arena.lentBytes).toBe(0);
    arena.release(none);
  });
});

describe("release", () => {
  it("leaves memory of another kind alone, and refuses what is not lent", async () => {
    arena.release(new Uint8Array(64));
    const view = take(128);
    await expectRefusal(() => arena.release(view.subarray(64)), "ERR_INTERNAL");
    arena.release(view);
    await expectRefusal(() => arena.release(view), "ERR_INTERNAL");
  });
});

it("keeps lent blocks apart and whole, and is one block again in the end, in any order of calls", () => {
  const steps = fc.array(
    fc.record({ bytes: fc.integer({ min: 1, max: 60_000 }), index: fc.nat(), give: fc.boolean() }),
    {
      maxLength: 80,
    },
  );
  fc.assert(
    fc.property(steps, (list) => {
      const lent: { view: Uint8Array; mark: number }[] = [];
      const giveBack = (at: number): void => {
        const [gone] = lent.splice(at, 1);
        expect(gone?.view.every((byte) => byte === gone.mark)).toBe(true);
        arena.release(gone!.view);
      };
      for (const [i, { bytes, index, give }] of list.entries()) {
        if (give && lent.length > 0) giveBack(index % lent.length);
        const view = arena.allocate(bytes, { zeroed: i % 2 === 0 });
        if (view === undefined) continue;
        if (i % 2 === 0) expect(view.some((byte) => byte !== 0)).toBe(false);
        view.fill((i % 255) + 1);
        lent.push({ view, mark: (i % 255) + 1 });
      }
      while (lent.length > 0) giveBack(lent.length >>> 1);
      const whole = take(1024 * KIB, { zeroed: false });
      arena.release(whole);
    }),
    { numRuns: 60 },
  );
});

it("scratch is of the arena, or of its own where that is full, and goes back as a whole", () => {
  const scratch = new Scratch(arena);
  const [one, large, two] = [scratch.take(1000), scratch.take(2048 * KIB), scratch.take(1)];
  expect(arenaOf(one.buffer)).toBe(arena);
  expect([arenaOf(large.buffer), large.byteLength]).toEqual([undefined, 2048 * KIB]);
  expect(two.byteOffset).not.toBe(one.byteOffset);
  expect(arena.lentBytes).toBe(1024 + 64);
  scratch.giveBack();
  scratch.giveBack();
  expect(arena.lentBytes).toBe(0);
});

describe("where there is no arena", () => {
  it("allocate gives nothing, and scratch has memory of its own", () => {
    expect(noArena.allocate(64)).toBeUndefined();
    const scratch = new Scratch(noArena);
    const own = scratch.take(64);
    expect([own.byteLength, own.buffer instanceof ArrayBuffer]).toEqual([64, true]);
    scratch.giveBack();
    expect([noArena.memory, noArena.refused]).toEqual([undefined, undefined]);
  });

  it("because the platform refuses one, the reason is kept and nobody asks again", () => {
    const impossible = new Arena(2 ** 40);
    expect(impossible.allocate(64)).toBeUndefined();
    expect(impossible.refused).toBeInstanceOf(Error);
    expect(new Scratch(impossible).take(64)).toHaveLength(64);
  });
});
