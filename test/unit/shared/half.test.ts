import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from "../../../shared/half.ts";

const forms = [
  { name: "float16", from: fromFloat16, to: toFloat16, infinity: 0x7c00, largest: 65_504, smallest: 2 ** -24 },
  {
    name: "bfloat16",
    from: fromBfloat16,
    to: toBfloat16,
    infinity: 0x7f80,
    largest: 2 ** 128 - 2 ** 120,
    smallest: 2 ** -133,
  },
];

describe.each(forms)("$name", ({ from, to, infinity, largest, smallest }) => {
  it("gives back all 65536 bit patterns, NaN as NaN", () => {
    const wrong: number[] = [];
    for (let bits = 0; bits < 65_536; bits++) {
      const value = from(bits);
      const isNaN = (bits & 0x7fff) > infinity;
      if (isNaN ? !Number.isNaN(value) || !Number.isNaN(from(to(value))) : to(value) !== bits) wrong.push(bits);
    }
    expect(wrong).toEqual([]);
  });

  it("grows with its bits, so that neighbours are neighbours", () => {
    for (let bits = 1; bits <= infinity; bits++) expect(from(bits) > from(bits - 1)).toBe(true);
  });

  it("has its landmarks", () => {
    expect([from(0), from(1), from(infinity - 1), from(infinity)]).toEqual([
      0,
      smallest,
      largest,
      Number.POSITIVE_INFINITY,
    ]);
    expect(Object.is(from(0x8000), -0)).toBe(true);
    expect([to(0), to(-0), to(1) === to(-1) - 0x8000]).toEqual([0, 0x8000, true]);
    expect([to(Number.POSITIVE_INFINITY), to(Number.NEGATIVE_INFINITY)]).toEqual([infinity, infinity | 0x8000]);
    expect(to(1e300)).toBe(infinity);
    expect(Number.isNaN(from(to(Number.NaN)))).toBe(true);
  });

  it("rounds half-way between neighbours to the even one, and otherwise to the nearer", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: infinity - 2 }), (bits) => {
        const [low, high] = [from(bits), from(bits + 1)];
        // exact: both have few digits
        const middle = low + (high - low) / 2;
        expect(to(middle)).toBe(bits % 2 === 0 ? bits : bits + 1);
        expect(to(low + (high - low) / 4)).toBe(bits);
        expect(to(low + ((high - low) * 3) / 4)).toBe(bits + 1);
        expect(to(-middle)).toBe((bits % 2 === 0 ? bits : bits + 1) | 0x8000);
      }),
      { numRuns: 2000 },
    );
  });
});

describe("float16", () => {
  it("becomes infinite from half-way to the next power on", () => {
    expect([toFloat16(65_519.99), toFloat16(65_520), toFloat16(-65_520)]).toEqual([0x7bff, 0x7c00, 0xfc00]);
  });

  // by way of float32 this would round twice, first up to the tie and then to the even neighbour
  it("is rounded once, from float64", () => {
    const aboveTie = 1 + 2 ** -11 + 2 ** -40;
    expect(toFloat16(aboveTie)).toBe(toFloat16(1) + 1);
    expect(toFloat16(1 + 2 ** -11)).toBe(toFloat16(1));
  });
});
