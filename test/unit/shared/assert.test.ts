import { describe, expect, it } from "vitest";
import { assert, present, unreachable } from "../../../shared/assert.ts";

describe("assert", () => {
  it("passes what holds and reports what does not as an internal error", () => {
    expect(() => assert(1 + 1 === 2, "sums")).not.toThrow();
    expect(() => assert(Number.isNaN(1), "numbers are none")).toThrow(
      expect.objectContaining({ code: "ERR_INTERNAL", message: "invariant broken: numbers are none" }),
    );
  });
});

describe("present", () => {
  it("takes every value but undefined and null", () => {
    for (const value of [0, "", false, Number.NaN]) expect(present(value, "value")).toBe(value);
    for (const value of [undefined, null]) {
      expect(() => present(value, "the link")).toThrow(
        expect.objectContaining({ code: "ERR_INTERNAL", message: "invariant broken: the link is missing" }),
      );
    }
  });
});

describe("unreachable", () => {
  it("names the value that should not be", () => {
    expect(() => unreachable("surprise" as never)).toThrow(
      expect.objectContaining({ code: "ERR_INTERNAL", message: 'invariant broken: unexpected "surprise"' }),
    );
  });
});
