import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { SignalCells } from "../../../../rank/memory/signal-cells.ts";
import { NotifyOp, WaitCmp } from "../../../../rank/primitives.ts";

const { Set, AtomicAdd } = NotifyOp;
const { Eq, Ge } = WaitCmp;

/** Cells of a signal of 4, and a spy that waits. */
function setup(): SignalCells {
  return new SignalCells(new Int32Array(4), "s", [2, 2]);
}

function waiter(
  compare: WaitCmp,
  expected: number,
): { compare: WaitCmp; expected: number; met: ReturnType<typeof vi.fn<(value: number) => void>> } {
  return { compare, expected, met: vi.fn<(value: number) => void>() };
}

describe("apply", () => {
  it("sets and adds, and touches no neighbour", () => {
    const cells = setup();
    cells.apply(1, Set, 7, 2);
    cells.apply(2, AtomicAdd, 5, 0);
    cells.apply(2, AtomicAdd, -8, 1);
    expect([...cells.values]).toEqual([0, 7, -3, 0]);
    expect([0, 1, 2, 3].map((cell) => cells.lastWriter(cell))).toEqual([null, 2, 1, null]);
  });

  it("adds modulo 2^32, in both directions", () => {
    const cells = setup();
    cells.apply(0, AtomicAdd, 2 ** 31 - 1, 0);
    cells.apply(0, AtomicAdd, 1, 0);
    expect(cells.value(0)).toBe(-(2 ** 31));
    cells.apply(0, AtomicAdd, -1, 0);
    expect(cells.value(0)).toBe(2 ** 31 - 1);
  });

  it("adds like INT32 for any run of values", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }), { maxLength: 20 }), (values) => {
        const cells = setup();
        for (const value of values) cells.apply(3, AtomicAdd, value, 0);
        expect(cells.value(3)).toBe(
          Number(
            BigInt.asIntN(
              32,
              values.reduce((sum, value) => sum + BigInt(value), 0n),
            ),
          ),
        );
      }),
    );
  });
});

describe("waiters", () => {
  it("are woken by the change that satisfies them, once, with its value", () => {
    const cells = setup();
    const ge = waiter(Ge, 3);
    cells.wait(0, ge);
    cells.apply(0, AtomicAdd, 2, 1);
    expect(ge.met).not.toHaveBeenCalled();
    cells.apply(0, AtomicAdd, 2, 1);
    cells.apply(0, AtomicAdd, 2, 1);
    expect(ge.met.mock.calls).toEqual([[4]]);
  });

  // memory model, line 10: an Eq value that passed by counts as met
  it("see an Eq value although it is gone by the next change", () => {
    const cells = setup();
    const eq = waiter(Eq, 2);
    cells.wait(0, eq);
    for (let i = 0; i < 3; i++) cells.apply(0, AtomicAdd, 1, 0);
    expect(eq.met.mock.calls).toEqual([[2]]);
    expect(cells.value(0)).toBe(3);
  });

  it("of one cell are all woken, each by its own condition", () => {
    const cells = setup();
    const [one, two, also, other] = [waiter(Ge, 1), waiter(Eq, 2), waiter(Ge, 1), waiter(Ge, 1)];
    for (const each of [one, two, also]) cells.wait(0, each);
    cells.wait(1, other);
    cells.apply(0, AtomicAdd, 1, 0);
    expect([one, two, also, other].map(({ met }) => met.mock.calls)).toEqual([[[1]], [], [[1]], []]);
    cells.apply(0, AtomicAdd, 1, 0);
    expect(two.met.mock.calls).toEqual([[2]]);
  });

  it("compare signed, and are woken by a decrease too", () => {
    const cells = setup();
    const [negative, below] = [waiter(Eq, -5), waiter(Ge, 1)];
    cells.wait(0, negative);
    cells.wait(0, below);
    cells.apply(0, AtomicAdd, -5, 0);
    expect(negative.met.mock.calls).toEqual([[-5]]);
    expect(below.met).not.toHaveBeenCalled();
  });

  it("that gave up are not woken", () => {
    const cells = setup();
    const gone = waiter(Ge, 1);
    cells.wait(0, gone);
    cells.forget(0, gone);
    cells.forget(0, gone);
    cells.apply(0, Set, 1, 0);
    expect(gone.met).not.toHaveBeenCalled();
  });

  it("may wait again, or forget each other, while they are woken", () => {
    const cells = setup();
    const later = waiter(Ge, 5);
    const first = { compare: Ge, expected: 1, met: vi.fn(() => cells.wait(0, later)) };
    cells.wait(0, first);
    cells.apply(0, AtomicAdd, 1, 0);
    expect(later.met).not.toHaveBeenCalled();
    cells.apply(0, AtomicAdd, 4, 0);
    expect(later.met.mock.calls).toEqual([[5]]);
    expect(first.met).toHaveBeenCalledOnce();
  });
});

describe("test", () => {
  it("compares without changing or consuming", () => {
    const cells = setup();
    cells.apply(0, Set, 3, 0);
    expect([cells.test(0, Ge, 3), cells.test(0, Ge, 4), cells.test(0, Eq, 3), cells.test(0, Eq, 2)]).toEqual([
      true,
      false,
      true,
      false,
    ]);
    expect(cells.value(0)).toBe(3);
    expect(cells.test(0, Eq, 3)).toBe(true);
  });
});

describe("Set and AtomicAdd on one cell", () => {
  const mixed = (message: string): unknown => expect.objectContaining({ code: "ERR_NOTIFY_MIXED", message });

  it("are refused in either order, before the cell changes", () => {
    const cells = setup();
    cells.apply(0, Set, 4, 2);
    expect(() => cells.apply(0, AtomicAdd, 1, 1)).toThrow(
      mixed(
        'AtomicAdd on cell [0, 0] of signal "s", last changed by Set from rank 2, with no satisfied wait in between',
      ),
    );
    expect([cells.value(0), cells.lastWriter(0)]).toEqual([4, 2]);
    cells.apply(1, AtomicAdd, 4, -1);
    expect(() => cells.apply(1, Set, 1, 1)).toThrow(
      mixed(
        'Set on cell [0, 1] of signal "s", last changed by AtomicAdd from a client, with no satisfied wait in between',
      ),
    );
    expect(cells.value(1)).toBe(4);
  });

  it("may differ from cell to cell", () => {
    const cells = setup();
    cells.apply(0, Set, 1, 0);
    expect(() => cells.apply(1, AtomicAdd, 1, 0)).not.toThrow();
  });

  it("may follow each other once a wait was satisfied: by a test", () => {
    const cells = setup();
    cells.apply(0, Set, 1, 0);
    expect(cells.test(0, Ge, 1)).toBe(true);
    expect(() => cells.apply(0, AtomicAdd, 1, 0)).not.toThrow();
    expect(cells.value(0)).toBe(2);
  });

  it("may follow each other once a wait was satisfied: by the change itself", () => {
    const cells = setup();
    cells.wait(0, waiter(Ge, 1));
    cells.apply(0, Set, 1, 0);
    expect(() => cells.apply(0, AtomicAdd, 1, 0)).not.toThrow();
  });

  it("are refused again after the next change, and after a wait that was not satisfied", () => {
    const cells = setup();
    cells.apply(0, Set, 1, 0);
    cells.test(0, Ge, 1);
    cells.apply(0, Set, 2, 0);
    expect(() => cells.apply(0, AtomicAdd, 1, 0)).toThrow(expect.objectContaining({ code: "ERR_NOTIFY_MIXED" }));
    cells.test(0, Ge, 9);
    cells.wait(0, waiter(Eq, 7));
    expect(() => cells.apply(0, AtomicAdd, 1, 0)).toThrow(expect.objectContaining({ code: "ERR_NOTIFY_MIXED" }));
  });

  it("never meet while a builtin counts credits", () => {
    const cells = setup();
    cells.enterBuiltin();
    cells.enterBuiltin();
    cells.leaveBuiltin();
    expect(() => cells.apply(0, Set, 1, 0)).toThrow(
      mixed('a Set arrived at cell [0, 0] of signal "s" while a builtin counts credits there'),
    );
    expect(() => cells.apply(0, AtomicAdd, 1, 0)).not.toThrow();
    cells.leaveBuiltin();
    expect(() => cells.apply(1, Set, 1, 0)).not.toThrow();
  });
});

describe("uncleanCell", () => {
  it("is the first nonzero cell last changed by Set", () => {
    const cells = setup();
    expect(cells.uncleanCell()).toBeUndefined();
    cells.apply(0, AtomicAdd, 3, 0);
    expect(cells.uncleanCell()).toBeUndefined();
    cells.apply(3, Set, 1, 0);
    cells.apply(2, Set, 1, 0);
    expect(cells.uncleanCell()).toBe(2);
  });

  it("is none once Set has put the cell back to 0", () => {
    const cells = setup();
    cells.apply(2, Set, 1, 0);
    cells.apply(2, Set, 0, 0);
    expect(cells.uncleanCell()).toBeUndefined();
  });
});
