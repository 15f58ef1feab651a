import { describe, expect, it } from "vitest";
import { Registry } from "../../../../rank/memory/registry.ts";
import { atomicDtypes, isAtomicDType, writeSpans } from "../../../../rank/memory/write.ts";
import { type DType, dtypes } from "../../../../shared/dtype.ts";

/** Two rows of two elements, two apart. */
const spans = (size: number): Parameters<typeof writeSpans>[1] => [
  { offset: size, rowBytes: 2 * size, rows: 2, strideBytes: 4 * size },
];

describe("writeSpans", () => {
  it.each(atomicDtypes)("adds in %s, or writes over, and leaves what is beside", (dtype) => {
    const { bytes: size, array: ArrayType } = dtypes[dtype];
    // 1.0 and 2.0 in float16 and bfloat16 are these bits; the others are plain numbers
    const [one, two] = dtype === "float16" ? [0x3c00, 0x4000] : dtype === "bfloat16" ? [0x3f80, 0x4000] : [1, 2];
    const target = new Registry().allocate(0, "window", "w", dtype, [8]);
    const array = target.local.array as Int32Array;
    array.fill(one);
    const payload = new Uint8Array(ArrayType.from([one, one, one, one] as never).buffer);
    writeSpans(target, spans(size), payload, dtype);
    expect([...array]).toEqual([one, two, two, one, one, two, two, one]);
    writeSpans(target, spans(size), payload, undefined);
    expect([...array]).toEqual(new Array(8).fill(one));
  });

  it("wraps integers", () => {
    const target = new Registry().allocate(0, "window", "w", "int8", [1]);
    const span = [{ offset: 0, rowBytes: 1, rows: 1, strideBytes: 1 }];
    target.local.bytes[0] = 127;
    writeSpans(target, span, Uint8Array.of(2), "int8");
    expect(target.local.array[0]).toBe(-127);
  });

  // payloads arrive inside of WebSocket messages, at any address
  it("adds a payload that does not start at a multiple of its element size", () => {
    const target = new Registry().allocate(0, "window", "w", "int32", [2]);
    const message = new Uint8Array(9);
    message.set(new Uint8Array(Int32Array.of(5, -6).buffer), 1);
    writeSpans(target, [{ offset: 0, rowBytes: 8, rows: 1, strideBytes: 8 }], message.subarray(1), "int32");
    expect([...target.local.array]).toEqual([5, -6]);
  });

  it("knows the dtypes that can be added", () => {
    const others: DType[] = ["float64", "int64", "uint8"];
    expect(others.filter(isAtomicDType)).toEqual([]);
    expect(atomicDtypes.every(isAtomicDType)).toBe(true);
  });
});
