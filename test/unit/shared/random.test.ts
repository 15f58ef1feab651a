import { describe, expect, it } from "vitest";
import { Random } from "../../../shared/random.ts";

const draw = (random: Random, count: number): number[] => Array.from({ length: count }, () => random.next());

describe("Random", () => {
  // golden: the reference mulberry32, so that a seed in a bug report means the same in every version
  it("gives mulberry32's numbers", () => {
    const bits = draw(new Random(1), 4).map((value) => value * 2 ** 32);
    expect(bits).toEqual([2693262067, 11749833, 2265367787, 4213581821]);
  });

  it("repeats a seed and differs between seeds", () => {
    expect(draw(new Random(42), 20)).toEqual(draw(new Random(42), 20));
    expect(draw(new Random(42), 20)).not.toEqual(draw(new Random(43), 20));
  });

  it("takes the seed modulo 2^32", () => {
    expect(draw(new Random(5), 3)).toEqual(draw(new Random(5 + 2 ** 32), 3));
    expect(draw(new Random(-1), 3)).toEqual(draw(new Random(2 ** 32 - 1), 3));
  });

  it("stays in [0, 1), and below() hits every integer of its range and no other", () => {
    const random = new Random(7);
    for (const value of draw(random, 2000)) {
      expect(value).toBeGreaterThanOrEqual(0);
      expect(value).toBeLessThan(1);
    }
    const hit = new Set(Array.from({ length: 500 }, () => random.below(7)));
    expect([...hit].sort()).toEqual([0, 1, 2, 3, 4, 5, 6]);
  });
});
