import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { gather, scatter, spansBytes } from "../../../../rank/memory/spans.ts";
import type { Span } from "../../../../shared/shape.ts";

const MEMORY_BYTES = 200;

/** Spans that lie in the memory and do not meet each other: each in its own fifth of it. */
const spans: fc.Arbitrary<Span[]> = fc
  .array(fc.record({ start: fc.nat(4), rowBytes: fc.integer({ min: 1, max: 6 }), rows: fc.nat(4), gap: fc.nat(3) }), {
    maxLength: 5,
  })
  .map((list) =>
    list.map(({ start, rowBytes, rows, gap }, index) => ({
      offset: index * 40 + start,
      rowBytes,
      rows,
      strideBytes: rowBytes + gap,
    })),
  );

/** The positions of all bytes of spans, one by one. */
function positions(list: readonly Span[]): number[] {
  const found: number[] = [];
  for (const { offset, rowBytes, rows, strideBytes } of list) {
    for (let row = 0; row < rows; row++) {
      for (let byte = 0; byte < rowBytes; byte++) found.push(offset + row * strideBytes + byte);
    }
  }
  return found;
}

/** Every byte names its place, so that a misplaced one is seen. */
const memory = (): Uint8Array => Uint8Array.from({ length: MEMORY_BYTES }, (_, i) => i);

describe("gather", () => {
  it("packs the bytes of the spans in order", () => {
    fc.assert(
      fc.property(spans, (list) => {
        expect([...gather(memory(), list).packed]).toEqual(positions(list));
        expect(spansBytes(list)).toBe(positions(list).length);
      }),
    );
  });

  it("lends the memory itself where it is one run, and copies it where it is not", () => {
    const bytes = memory();
    const one = gather(bytes, [{ offset: 10, rowBytes: 20, rows: 1, strideBytes: 20 }]);
    expect(one.copied).toBe(false);
    expect([one.packed.buffer, one.packed.byteOffset, one.packed.byteLength]).toEqual([bytes.buffer, 10, 20]);
    const two = gather(bytes, [{ offset: 10, rowBytes: 2, rows: 2, strideBytes: 4 }]);
    expect(two.copied).toBe(true);
    bytes.fill(0);
    expect([...two.packed]).toEqual([10, 11, 14, 15]);
  });

  it("of nothing is empty", () => {
    expect(gather(memory(), []).packed).toHaveLength(0);
  });
});

describe("scatter", () => {
  it("writes a payload to its place among the spans' bytes, and nothing else", () => {
    fc.assert(
      fc.property(spans, fc.nat(), fc.nat(), (list, a, b) => {
        const places = positions(list);
        const start = places.length === 0 ? 0 : a % places.length;
        const length = places.length === 0 ? 0 : b % (places.length - start + 1);
        const payload = Uint8Array.from({ length }, (_, i) => 255 - i);
        const expected = memory();
        for (let i = 0; i < length; i++) expected[places[start + i]!] = 255 - i;
        const bytes = memory();
        scatter(bytes, list, start, payload);
        expect(bytes).toEqual(expected);
      }),
      { numRuns: 500 },
    );
  });

  it("undoes gather", () => {
    fc.assert(
      fc.property(spans, (list) => {
        const bytes = memory();
        const { packed } = gather(bytes, list);
        const copy = packed.slice();
        for (const place of positions(list)) bytes[place] = 0;
        scatter(bytes, list, 0, copy);
        expect(bytes).toEqual(memory());
      }),
    );
  });

  it("passes over rows without bytes", () => {
    const bytes = memory();
    const empty = { offset: 0, rowBytes: 0, rows: 3, strideBytes: 0 };
    scatter(bytes, [empty, { offset: 5, rowBytes: 1, rows: 1, strideBytes: 1 }], 0, Uint8Array.of(77));
    expect(bytes[5]).toBe(77);
  });
});
