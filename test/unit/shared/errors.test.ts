import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import {
  type ErrorCode,
  type ErrorContext,
  errorTable,
  fromWireError,
  isErrorCode,
  RankwiseError,
  toWireError,
} from "../../../shared/errors.ts";

const codes = Object.keys(errorTable) as ErrorCode[];

const context: Required<ErrorContext> = {
  rank: 1,
  peer: 2,
  window: "data",
  offset: [3, 4],
  collective: "all_to_all",
  group: [0, 1, 2],
  seq: 5,
  missing: [2],
  argument: "dstOffset",
};

describe("errorTable", () => {
  it.each(codes)("%s is a stable name with one sentence", (code) => {
    expect(code).toMatch(/^ERR_[A-Z0-9]+(_[A-Z0-9]+)*$/u);
    expect(errorTable[code]).toMatch(/^[A-Z].*\.$/su);
    expect(isErrorCode(code)).toBe(true);
  });

  it("holds nothing that an object inherits", () => {
    for (const name of ["toString", "constructor", "__proto__", "", "err_usage"]) expect(isErrorCode(name)).toBe(false);
  });
});

describe("RankwiseError", () => {
  it("carries code, message, context and cause", () => {
    const cause = new Error("first");
    const error = new RankwiseError("ERR_PEER_LOST", "gone", context, cause);
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({ name: "RankwiseError", code: "ERR_PEER_LOST", message: "gone", context, cause });
  });

  it("has no cause when none was given", () => {
    expect("cause" in new RankwiseError("ERR_USAGE", "wrong")).toBe(false);
    expect(new RankwiseError("ERR_USAGE", "wrong").context).toEqual({});
  });
});

describe("wire form", () => {
  it.each(codes)("%s crosses the wire with all it says", (code) => {
    const there = toWireError(new RankwiseError(code, `message of ${code}`, context));
    const back = fromWireError(JSON.parse(JSON.stringify(there)) as typeof there);
    expect(back).toBeInstanceOf(RankwiseError);
    expect(back).toMatchObject({ code, message: `message of ${code}`, context });
  });

  it("of a stranger's error is ERR_PROGRAM_THREW with its stack", () => {
    const thrown = new TypeError("x is not a function");
    const wire = toWireError(thrown);
    expect(wire.code).toBe("ERR_PROGRAM_THREW");
    expect(wire.message).toContain("TypeError: x is not a function");
    expect(wire.message).toContain("errors.test.ts");
  });

  it("of an error without a stack is its message", () => {
    const thrown = new Error("bare");
    delete thrown.stack;
    expect(toWireError(thrown).message).toBe("bare");
  });

  // a program may throw anything at all
  it.each([
    ["text", "'text'"],
    [7, "7"],
    [undefined, "undefined"],
    [null, "null"],
    [Symbol("s"), "Symbol(s)"],
    [1n, "1n"],
    [{ code: 7 }, "{ code: 7 }"],
    [Object.create(null), "[Object: null prototype] {}"],
  ])("of %o says what it is, and that it is no error", (thrown, shown) => {
    const message = `thrown was ${shown}, which is no Error and so tells no place; throw new Error(…)`;
    expect(toWireError(thrown)).toEqual({ code: "ERR_PROGRAM_THREW", message, context: {} });
  });

  it("of what cannot become a text is still an error", () => {
    const hidden = {
      [inspect.custom]: () => {
        throw new Error("none of your business");
      },
    };
    expect(toWireError(hidden)).toEqual({
      code: "ERR_PROGRAM_THREW",
      message: "thrown was a value of type object without a text",
      context: {},
    });
    const odd = new Error("odd");
    Object.defineProperty(odd, "stack", { value: 7 });
    expect(toWireError(odd).message).toBe("7");
  });
});
