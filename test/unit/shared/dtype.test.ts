import { describe, expect, it } from "vitest";
import { arrayOver, checkDType, type DType, dtypes, elementBytes, isDType } from "../../../shared/dtype.ts";

const names = Object.keys(dtypes) as DType[];

describe("dtypes", () => {
  it("are those of the documentation", () => {
    expect(names).toEqual("float32 float16 bfloat16 float64 int32 int16 int8 uint8 int64".split(" "));
  });

  it.each(names)("%s has the size of its typed array's element", (dtype) => {
    expect(elementBytes(dtype)).toBe(dtypes[dtype].array.BYTES_PER_ELEMENT);
  });

  it("have codes of their own, never 0: that is a frame without one", () => {
    const codes = names.map((name) => dtypes[name].code as number);
    expect(new Set(codes).size).toBe(names.length);
    for (const code of codes) expect(code).toBeGreaterThan(0);
    for (const code of codes) expect(code).toBeLessThan(256);
  });
});

describe("isDType", () => {
  it("knows the names and nothing else", () => {
    for (const name of names) expect(isDType(name)).toBe(true);
    for (const other of ["FP32", "float", "toString", "__proto__", "", 1, null, undefined, {}]) {
      expect(isDType(other)).toBe(false);
    }
  });
});

describe("checkDType", () => {
  it("returns the name", () => {
    expect(checkDType("window", "int8")).toBe("int8");
  });

  it.each([
    ["float8", '"float8"'],
    [undefined, "undefined"],
    [5, "5"],
  ])("refuses %o and lists what there is", (value, shown) => {
    const message = `window: dtype ${shown} is not one of ${names.join(", ")}`;
    expect(() => checkDType("window", value)).toThrow(
      expect.objectContaining({ code: "ERR_INVALID_ARGUMENT", message, context: { argument: "dtype" } }),
    );
  });

  it("refuses what JSON cannot show with the same error", () => {
    const circle: { self?: unknown } = {};
    circle.self = circle;
    for (const value of [1n, circle]) {
      expect(() => checkDType("window", value)).toThrow(expect.objectContaining({ code: "ERR_INVALID_ARGUMENT" }));
    }
  });
});

describe("arrayOver", () => {
  it.each(names)("takes %s elements from a byte offset on", (dtype) => {
    const size = elementBytes(dtype);
    const buffer = new ArrayBuffer(size * 8);
    const array = arrayOver(dtype, buffer, size * 2, 3);
    expect(array).toBeInstanceOf(dtypes[dtype].array);
    expect([array.buffer, array.byteOffset, array.length]).toEqual([buffer, size * 2, 3]);
  });
});
