import { beforeEach, describe, expect, it, vi } from "vitest";
import { Arena } from "../../../../rank/memory/arena.ts";
import { type Allocation, Registry } from "../../../../rank/memory/registry.ts";
import { WINDOW_BYTES_MAX } from "../../../../shared/constants.ts";
import { expectRefusal } from "../../../helpers/sim.ts";

// the real limits take a minute, and 64 GiB, to reach
const ALLOCATIONS_MAX = 5;
const RANK_WINDOW_BYTES_MAX = 2_000_000;
vi.mock(import("../../../../shared/constants.ts"), async (original) => ({
  ...(await original()),
  ALLOCATIONS_MAX: 5 as 65_536,
  RANK_WINDOW_BYTES_MAX: 2_000_000,
}));

let registry: Registry;
beforeEach(() => {
  registry = new Registry();
});

const make = (name: string, group = 0): Allocation => registry.allocate(group, "window", name, "int32", [2, 3]);

describe("allocate", () => {
  it("makes zeroed memory of the shape, with ordinals in order", () => {
    const [a, b] = [make("a"), make("b")];
    expect([a.ordinal, b.ordinal]).toEqual([0, 1]);
    expect(a).toMatchObject({ name: "a", dtype: "int32", shape: [2, 3], freed: false, cells: undefined });
    expect([...a.local.array]).toEqual([0, 0, 0, 0, 0, 0]);
    a.local.bytes.fill(1);
    expect([...b.local.array]).toEqual([0, 0, 0, 0, 0, 0]);
  });

  it("gives a signal cells over its own memory", () => {
    const signal = registry.allocate(0, "signal", "s", "int32", [2]);
    signal.cells?.apply(1, "set", 9, 0);
    expect([...signal.local.array]).toEqual([0, 9]);
  });

  it("numbers and names each group for itself", () => {
    make("a");
    const other = make("a", 77);
    expect(other.ordinal).toBe(0);
    expect(registry.lookup(77, 0)).toBe(other);
  });

  it("refuses a live name, of either kind, and keeps the ordinals whole", async () => {
    make("a");
    await expectRefusal(() => make("a"), "ERR_NAME_IN_USE");
    await expectRefusal(() => registry.allocate(0, "signal", "a", "int32", [1]), "ERR_NAME_IN_USE");
    expect(make("b").ordinal).toBe(1);
  });

  it("takes a name again once its window is freed, under a new ordinal", () => {
    const first = make("a");
    registry.release(first);
    const second = make("a");
    expect([second.ordinal, registry.lookup(0, 1)]).toEqual([1, second]);
  });

  it("refuses more than WINDOW_BYTES_MAX before it asks the platform", async () => {
    const tooLarge = (): Allocation => registry.allocate(0, "window", "huge", "int8", [WINDOW_BYTES_MAX + 1]);
    const error = await expectRefusal(tooLarge, "ERR_SIZE_LIMIT");
    expect(error.message).toBe(
      `window "huge": int8 [${WINDOW_BYTES_MAX + 1}] has ${WINDOW_BYTES_MAX + 1} bytes, above WINDOW_BYTES_MAX ${WINDOW_BYTES_MAX}`,
    );
    await expectRefusal(() => registry.allocate(0, "window", "huge", "int64", [2 ** 53 - 1]), "ERR_SIZE_LIMIT");
    expect(make("a").ordinal).toBe(0);
  });

  it("refuses more than RANK_WINDOW_BYTES_MAX of a rank's live windows and signals, of all groups together", async () => {
    const half = RANK_WINDOW_BYTES_MAX / 2;
    const first = registry.allocate(0, "window", "first", "int8", [half]);
    registry.allocate(7, "signal", "of another group", "int32", [half / 4]);
    const more = (): Allocation => registry.allocate(0, "window", "more", "int8", [1]);
    const error = await expectRefusal(more, "ERR_SIZE_LIMIT");
    expect(error.message).toBe(
      'window "more": with its 1 bytes this rank\'s windows would have 2000001, above RANK_WINDOW_BYTES_MAX 2000000; free some first',
    );
    registry.release(first);
    registry.release(first); // its bytes are given back once
    registry.allocate(0, "window", "as much as was freed", "int8", [half]);
    await expectRefusal(more, "ERR_SIZE_LIMIT");
  });

  it("refuses more than ALLOCATIONS_MAX over a group's life, freed ones counted", async () => {
    for (let i = 0; i < ALLOCATIONS_MAX; i++) registry.release(make(`w${i}`));
    const error = await expectRefusal(() => make("one more"), "ERR_LIMIT");
    expect(error.message).toContain(`ALLOCATIONS_MAX ${ALLOCATIONS_MAX}`);
    expect(make("in another group", 3).ordinal).toBe(0);
  });
});

describe("lookup", () => {
  it("refuses what was never made, and what has been freed", async () => {
    const made = make("a");
    expect(registry.lookup(0, 0)).toBe(made);
    for (const [group, ordinal] of [
      [0, 1],
      [5, 0],
      [0, 2 ** 32 - 1],
    ] as const) {
      const error = await expectRefusal(() => registry.lookup(group, ordinal), "ERR_FRAME_BOUNDS");
      expect(error.message).toBe(
        `there is no window ${ordinal} of group ${group} here: it has not been made, or has been freed`,
      );
    }
    registry.release(made);
    await expectRefusal(() => registry.lookup(0, 0), "ERR_FRAME_BOUNDS");
  });

  it("says of a freed window that it was freed", async () => {
    registry.release(make("a"));
    expect((await expectRefusal(() => registry.lookup(0, 0), "ERR_FRAME_BOUNDS")).message).toContain("been freed");
  });
});

describe("on an arena", () => {
  const arena = new Arena(1024 * 1024);
  beforeEach(() => {
    registry = new Registry(arena);
  });

  it("windows and signals lie together, zeroed, and give their memory back", () => {
    const [a, b] = [make("a"), registry.allocate(0, "signal", "s", "int32", [2])];
    expect(a.local.array.buffer).toBe(b.local.array.buffer);
    expect([a.local.array.length, b.cells?.values.length, arena.lentBytes]).toEqual([6, 2, 128]);
    a.local.bytes.fill(1);
    registry.release(a);
    registry.release(a);
    const again = make("a");
    expect(again.local.bytes.byteOffset).toBe(a.local.bytes.byteOffset);
    expect([...again.local.array]).toEqual([0, 0, 0, 0, 0, 0]);
    registry.releaseAll();
    expect(arena.lentBytes).toBe(0);
  });

  it("what does not fit has memory of its own", () => {
    const large = registry.allocate(0, "window", "large", "int8", [1024 * 1024 + 1]);
    expect(large.local.array.buffer).toBeInstanceOf(ArrayBuffer);
    registry.release(large);
  });

  it("finds the windows that share memory with some bytes, of one group", () => {
    const windows = ["a", "b", "c", "d"].map((name) => make(name));
    const [, b, c] = windows.map(({ local }) => local.bytes);
    const foreign = make("x", 7);
    const names = (bytes: Uint8Array, group = 0): string[] => registry.sharing(group, bytes).map(({ name }) => name);
    for (const { name, local } of windows) expect(names(local.bytes)).toEqual([name]);
    expect(names(new Uint8Array(b!.buffer, b!.byteOffset + 23, c!.byteOffset - b!.byteOffset - 22))).toEqual([
      "b",
      "c",
    ]);
    expect(names(new Uint8Array(b!.buffer, b!.byteOffset + 24, 40))).toEqual([]);
    expect([names(b!.subarray(3, 3)), names(new Uint8Array(8))]).toEqual([[], []]);
    expect([names(foreign.local.bytes), names(foreign.local.bytes, 7)]).toEqual([[], ["x"]]);
    registry.release(windows[1]!);
    expect(names(b!)).toEqual([]);
    registry.releaseAll();
  });
});
