import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DIMENSIONS_MAX } from "../../../shared/constants.ts";
import { elementBytes } from "../../../shared/dtype.ts";
import {
  byteLength,
  checkBlock,
  checkShape,
  cutSpan,
  describe as describeValue,
  elementCount,
  formatShape,
  offsetOf,
  rangesOverlap,
  sameShape,
  type Span,
  spanBytes,
  spanFits,
  spansOf,
  strideElements,
} from "../../../shared/shape.ts";

describe("checkShape", () => {
  it("takes lengths of 0 and more, and copies them", () => {
    const given = [2, 0, 5];
    const shape = checkShape("tensor", given);
    given[0] = 9;
    expect(shape).toEqual([2, 0, 5]);
  });

  it("takes DIMENSIONS_MAX dimensions and no more", () => {
    const most = new Array<number>(DIMENSIONS_MAX).fill(1);
    expect(checkShape("tensor", most)).toEqual(most);
    expect(() => checkShape("tensor", [...most, 1])).toThrow(
      expect.objectContaining({ code: "ERR_INVALID_ARGUMENT", context: { argument: "shape" } }),
    );
  });

  it.each([
    [[], "tensor: a shape is an array of 1 to 8 lengths, got []"],
    [4, "tensor: a shape is an array of 1 to 8 lengths, got 4"],
    ["4", 'tensor: a shape is an array of 1 to 8 lengths, got "4"'],
    [undefined, "tensor: a shape is an array of 1 to 8 lengths, got undefined"],
    [new Int32Array(2), "tensor: a shape is an array of 1 to 8 lengths, got a Int32Array"],
    [[2, -1], "tensor: a shape's lengths are integers ≥ 0, got [2, -1]"],
    [[2.5], "tensor: a shape's lengths are integers ≥ 0, got [2.5]"],
    [[Number.NaN], "tensor: a shape's lengths are integers ≥ 0, got [NaN]"],
    [[Number.POSITIVE_INFINITY], "tensor: a shape's lengths are integers ≥ 0, got [Infinity]"],
    [["3"], 'tensor: a shape\'s lengths are integers ≥ 0, got ["3"]'],
    [[1n], "tensor: a shape's lengths are integers ≥ 0, got [1]"],
  ])("refuses %o", (shape, message) => {
    expect(() => checkShape("tensor", shape)).toThrow(
      expect.objectContaining({ code: "ERR_INVALID_ARGUMENT", message, context: { argument: "shape" } }),
    );
  });

  it("refuses an object without a prototype like any other", () => {
    expect(() => checkShape("tensor", Object.create(null))).toThrow(
      expect.objectContaining({ code: "ERR_INVALID_ARGUMENT" }),
    );
  });

  // a length that is no safe integer cannot be published, also where another length is 0
  it("refuses a length beyond the safe integers although the tensor is empty", () => {
    const make = (): number => elementCount("tensor", checkShape("tensor", [0, 2 ** 60]));
    expect(make).toThrow(
      expect.objectContaining({ code: expect.stringMatching(/ERR_(SIZE_LIMIT|INVALID_ARGUMENT)/u) }),
    );
  });
});

describe("elementCount and byteLength", () => {
  it("multiply", () => {
    expect(elementCount("tensor", [2, 3, 4])).toBe(24);
    expect(byteLength("tensor", "int16", [2, 3, 4])).toBe(48);
    expect(byteLength("tensor", "int64", [2 ** 20, 0])).toBe(0);
  });

  it("go to the last safe integer and no further", () => {
    expect(elementCount("tensor", [2 ** 53 - 1])).toBe(Number.MAX_SAFE_INTEGER);
    expect(byteLength("tensor", "int8", [2 ** 53 - 1])).toBe(Number.MAX_SAFE_INTEGER);
    const elements = expect.objectContaining({
      code: "ERR_SIZE_LIMIT",
      message: `tensor: shape [${2 ** 53}] has more than 2^53 - 1 elements`,
    });
    expect(() => elementCount("tensor", [2 ** 53])).toThrow(elements);
    expect(() => elementCount("tensor", [2 ** 27, 2 ** 26])).toThrow(
      expect.objectContaining({ code: "ERR_SIZE_LIMIT" }),
    );
    const bytes = expect.objectContaining({
      code: "ERR_SIZE_LIMIT",
      message: `window: float64 [${2 ** 50}] has more than 2^53 - 1 bytes`,
    });
    expect(() => byteLength("window", "float64", [2 ** 50])).toThrow(bytes);
    expect(byteLength("window", "float64", [2 ** 50 - 1])).toBe(2 ** 53 - 8);
  });

  // 2^26 + 1 squared is above 2^53 and rounds: no product of lengths may slip through by rounding
  it("refuse every product above the limit, by BigInt", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(2 ** 31), { minLength: 1, maxLength: 4 }), (shape) => {
        const exact = shape.reduce((product, length) => product * BigInt(length), 1n);
        if (exact <= BigInt(Number.MAX_SAFE_INTEGER)) expect(BigInt(elementCount("tensor", shape))).toBe(exact);
        else expect(() => elementCount("tensor", shape)).toThrow(expect.objectContaining({ code: "ERR_SIZE_LIMIT" }));
      }),
    );
  });
});

describe("checkBlock", () => {
  const place = { call: "put", argument: "dstOffset", what: 'window "data"', shape: [4, 64] };

  it("takes blocks that touch the border, and empty ones on it", () => {
    checkBlock(place, [0, 0], [4, 64]);
    checkBlock(place, [3, 63], [1, 1]);
    checkBlock(place, [4, 64], [0, 0]);
  });

  it.each([
    ["rows beyond", [3, 0], [2, 64], 'put: rows [3, 5) exceed window "data" [4, 64]; check dstOffset'],
    [
      "columns beyond",
      [0, 60],
      [1, 5],
      'put: elements of dimension 1 [60, 65) exceed window "data" [4, 64]; check dstOffset',
    ],
    ["a start below 0", [-1, 0], [1, 64], 'put: rows [-1, 0) exceed window "data" [4, 64]; check dstOffset'],
    ["a negative extent", [2, 0], [-1, 64], 'put: rows [2, 1) run backwards in window "data" [4, 64]; check dstOffset'],
    ["an empty block outside", [5, 0], [0, 0], 'put: rows [5, 5) exceed window "data" [4, 64]; check dstOffset'],
  ])("refuses %s", (_, offset, extent, message) => {
    expect(() => checkBlock(place, offset, extent)).toThrow(
      expect.objectContaining({ code: "ERR_OUT_OF_BOUNDS", message, context: { argument: "dstOffset", offset } }),
    );
  });

  it.each([
    [
      [0],
      [1, 64],
      "dstOffset",
      'put: dstOffset [0] must have 2 entries, one for each dimension of window "data" [4, 64]',
    ],
    [
      [0, 0, 0],
      [1, 64],
      "dstOffset",
      'put: dstOffset [0, 0, 0] must have 2 entries, one for each dimension of window "data" [4, 64]',
    ],
    [[0, 0], [64], "shape", 'put: shape [64] must have 2 entries, one for each dimension of window "data" [4, 64]'],
    [
      undefined,
      [1, 64],
      "dstOffset",
      'put: dstOffset undefined must have 2 entries, one for each dimension of window "data" [4, 64]',
    ],
    [
      [0, 0],
      undefined,
      "shape",
      'put: shape undefined must have 2 entries, one for each dimension of window "data" [4, 64]',
    ],
    [[0.5, 0], [1, 64], "dstOffset", "put: dstOffset [0.5, 0] with shape [1, 64]: entry 0 is not a safe integer"],
    [
      [0, Number.NaN],
      [1, 64],
      "dstOffset",
      "put: dstOffset [0, NaN] with shape [1, 64]: entry 1 is not a safe integer",
    ],
    [
      [0, 0],
      [1, 2 ** 53],
      "dstOffset",
      `put: dstOffset [0, 0] with shape [1, ${2 ** 53}]: entry 1 is not a safe integer`,
    ],
    [["0", 0], [1, 64], "dstOffset", 'put: dstOffset ["0", 0] with shape [1, 64]: entry 0 is not a safe integer'],
  ])("refuses %o with shape %o as no block at all", (offset, extent, argument, message) => {
    expect(() => checkBlock(place, offset as number[], extent as number[])).toThrow(
      expect.objectContaining({ code: "ERR_INVALID_ARGUMENT", message, context: { argument } }),
    );
  });

  it("is not fooled by sums beyond the safe integers", () => {
    const last = Number.MAX_SAFE_INTEGER;
    expect(() => checkBlock(place, [last, 0], [last, 1])).toThrow(
      expect.objectContaining({ code: "ERR_OUT_OF_BOUNDS" }),
    );
  });
});

/** A shape of up to 4 dimensions and a block in it. */
const block = fc
  .array(fc.record({ length: fc.integer({ min: 0, max: 5 }), a: fc.nat(5), b: fc.nat(5) }), {
    minLength: 1,
    maxLength: 4,
  })
  .map((dimensions) => ({
    shape: dimensions.map(({ length }) => length),
    offset: dimensions.map(({ length, a, b }) => Math.min(a, b, length)),
    extent: dimensions.map(({ length, a, b }) => Math.min(Math.max(a, b), length) - Math.min(a, b, length)),
  }));

/** Every byte of a block, element by element, in row-major order. */
function bytesOfBlock(size: number, shape: number[], offset: number[], extent: number[]): number[] {
  const strides = strideElements(shape);
  let elements = [0];
  for (let d = 0; d < shape.length; d++) {
    elements = elements.flatMap((base) =>
      Array.from({ length: extent[d]! }, (_, i) => base + (offset[d]! + i) * strides[d]!),
    );
  }
  return elements.flatMap((element) => Array.from({ length: size }, (_, byte) => element * size + byte));
}

/** Every byte of spans, in order. */
function bytesOfSpans(spans: readonly Span[]): number[] {
  return spans.flatMap(({ offset, rowBytes, rows, strideBytes }) =>
    Array.from({ length: rows }, (_, row) =>
      Array.from({ length: rowBytes }, (__, byte) => offset + row * strideBytes + byte),
    ).flat(),
  );
}

describe("spansOf", () => {
  it("covers exactly the bytes of the block, in row-major order", () => {
    fc.assert(
      fc.property(
        fc.constantFrom("int8", "int16", "float32", "int64" as const),
        block,
        (dtype, { shape, offset, extent }) => {
          const spans = spansOf(dtype, shape, offset, extent);
          expect(bytesOfSpans(spans)).toEqual(bytesOfBlock(elementBytes(dtype), shape, offset, extent));
        },
      ),
      { numRuns: 500 },
    );
  });

  it("makes spans that fit the tensor", () => {
    fc.assert(
      fc.property(block, ({ shape, offset, extent }) => {
        const bytes = byteLength("tensor", "int32", shape);
        for (const span of spansOf("int32", shape, offset, extent)) expect(spanFits(span, bytes)).toBe(true);
      }),
    );
  });

  it("takes a whole tensor as one row", () => {
    expect(spansOf("float32", [4, 8, 2], [0, 0, 0], [4, 8, 2])).toEqual([
      { offset: 0, rowBytes: 256, rows: 1, strideBytes: 256 },
    ]);
  });

  it("takes whole rows as one row, a column as one span, and a box as one span for each outer index", () => {
    expect(spansOf("float32", [4, 8], [1, 0], [2, 8])).toEqual([
      { offset: 32, rowBytes: 64, rows: 1, strideBytes: 64 },
    ]);
    expect(spansOf("float32", [4, 8], [0, 3], [4, 1])).toEqual([{ offset: 12, rowBytes: 4, rows: 4, strideBytes: 32 }]);
    expect(spansOf("int8", [3, 4, 5], [1, 1, 1], [2, 2, 3])).toEqual([
      { offset: 26, rowBytes: 3, rows: 2, strideBytes: 5 },
      { offset: 46, rowBytes: 3, rows: 2, strideBytes: 5 },
    ]);
  });

  // one span is one frame
  it("takes rows from the innermost dimension that is cut, past those of length 1", () => {
    expect(spansOf("int8", [3, 4, 5], [1, 2, 1], [2, 1, 3])).toEqual([
      { offset: 31, rowBytes: 3, rows: 2, strideBytes: 20 },
    ]);
  });

  it("has no span for an empty block", () => {
    expect(spansOf("float32", [4, 8], [1, 8], [2, 0])).toEqual([]);
  });
});

describe("cutSpan", () => {
  const span = fc
    .record({ offset: fc.nat(50), rowBytes: fc.integer({ min: 1, max: 40 }), rows: fc.nat(12), gap: fc.nat(9) })
    .map(({ gap, ...rest }) => ({ ...rest, strideBytes: rest.rowBytes + gap }));

  it("keeps every byte and the order, in pieces no larger than the limit", () => {
    fc.assert(
      fc.property(span, fc.integer({ min: 1, max: 100 }), (whole, limit) => {
        const pieces = cutSpan(whole, limit);
        expect(bytesOfSpans(pieces)).toEqual(bytesOfSpans([whole]));
        for (const piece of pieces) expect(spanBytes(piece)).toBeLessThanOrEqual(limit);
        if (spanBytes(whole) > 0) for (const piece of pieces) expect(spanBytes(piece)).toBeGreaterThan(0);
      }),
      { numRuns: 500 },
    );
  });

  it("leaves a span whole that just fits", () => {
    const whole = { offset: 8, rowBytes: 10, rows: 10, strideBytes: 12 };
    expect(cutSpan(whole, 100)).toEqual([whole]);
    expect(cutSpan(whole, 99)).toHaveLength(2);
  });

  it("cuts rows longer than the limit inside", () => {
    expect(cutSpan({ offset: 0, rowBytes: 5, rows: 2, strideBytes: 10 }, 2)).toEqual([
      { offset: 0, rowBytes: 2, rows: 1, strideBytes: 2 },
      { offset: 2, rowBytes: 2, rows: 1, strideBytes: 2 },
      { offset: 4, rowBytes: 1, rows: 1, strideBytes: 1 },
      { offset: 10, rowBytes: 2, rows: 1, strideBytes: 2 },
      { offset: 12, rowBytes: 2, rows: 1, strideBytes: 2 },
      { offset: 14, rowBytes: 1, rows: 1, strideBytes: 1 },
    ]);
  });
});

describe("spanFits", () => {
  const u32 = fc.oneof(fc.nat(40), fc.integer({ min: 0, max: 2 ** 32 - 1 }), fc.constantFrom(2 ** 32 - 1, 2 ** 31));
  const offset = fc.oneof(fc.nat(40), fc.maxSafeNat(), fc.constantFrom(2 ** 53 - 1, 2 ** 53 - 2, 2 ** 32));
  const header = fc.record({ offset, rowBytes: u32, rows: u32, strideBytes: u32 });
  const windowBytes = fc.oneof(fc.nat(60), fc.constantFrom(4 * 1024 ** 3, 2 ** 32 - 1));

  it("takes a span exactly when no row leaves the window and none meets another, by BigInt", () => {
    fc.assert(
      fc.property(header, windowBytes, (span, bytes) => {
        const [start, rowBytes, rows, stride] = [span.offset, span.rowBytes, span.rows, span.strideBytes].map(BigInt);
        const empty = rows === 0n || rowBytes === 0n;
        const end = empty ? start! : start! + (rows! - 1n) * stride! + rowBytes!;
        const apart = empty || rows === 1n || stride! >= rowBytes!;
        expect(spanFits(span, bytes)).toBe(end <= BigInt(bytes) && apart);
      }),
      { numRuns: 2000 },
    );
  });

  it("agrees with a count of the bytes for small headers", () => {
    const small = fc.record({ offset: fc.nat(12), rowBytes: fc.nat(6), rows: fc.nat(5), strideBytes: fc.nat(8) });
    fc.assert(
      fc.property(small, fc.nat(24), (span, bytes) => {
        if (!spanFits(span, bytes)) return;
        const touched = bytesOfSpans([span]);
        for (const byte of touched) expect(byte).toBeLessThan(bytes);
        expect(new Set(touched).size).toBe(touched.length);
      }),
      { numRuns: 1000 },
    );
  });
});

describe("small helpers", () => {
  it("compare and print shapes", () => {
    expect(sameShape([1, 2], [1, 2])).toBe(true);
    expect(sameShape([1, 2], [1, 2, 1])).toBe(false);
    expect(sameShape([1, 2], [2, 1])).toBe(false);
    expect(formatShape([4, 64])).toBe("[4, 64]");
    expect(strideElements([2, 3, 4])).toEqual([12, 4, 1]);
    const shape = [2, 3, 4];
    const offsets = Array.from({ length: 24 }, (_, index) => offsetOf(index, shape));
    expect(offsets.map(([a = 0, b = 0, c = 0]) => a * 12 + b * 4 + c)).toEqual([...offsets.keys()]);
    expect(offsets.at(-1)).toEqual([1, 2, 3]);
  });

  it("tell overlapping ranges from neighbours", () => {
    expect(rangesOverlap([0, 4], [3, 5])).toBe(true);
    expect(rangesOverlap([0, 4], [4, 5])).toBe(false);
    expect(rangesOverlap([4, 5], [0, 4])).toBe(false);
    expect(rangesOverlap([0, 10], [4, 5])).toBe(true);
  });

  it.each([
    ["text", '"text"'],
    [-1, "-1"],
    [null, "null"],
    [undefined, "undefined"],
    [{}, "a Object"],
    [new Float32Array(2), "a Float32Array"],
    [[1, "a", [2]], '[1, "a", [2]]'],
    [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "[1, 2, 3, 4, 5, 6, 7, 8, 9, …]"],
  ])("describe %o as %s", (value, text) => {
    expect(describeValue(value)).toBe(text);
  });
});
