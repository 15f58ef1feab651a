/** Reductions against an independent oracle: with SIMD in an arena, and without. */
import { Float16Array, setFloat16 } from "@petamoriken/float16";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Arena } from "../../rank/memory/arena.ts";
import { type KernelDType, reduceByKernel } from "../../rank/memory/kernels.ts";
import { reduceInto, reduceNumbers, ReduceOp } from "../../rank/memory/reduce.ts";
import { dtypes, elementBytes, isDType } from "../../shared/dtype.ts";

const arena = new Arena(4 * 1024 * 1024);
const kinds = Object.keys(dtypes).filter((dtype): dtype is KernelDType => isDType(dtype) && dtype !== "int64");
const lengths = [0, 1, 2, 15, 16, 17, 63, 64, 65, 4097];

/** Bit patterns that deserve a look, by element size: zeros, ones, NaNs with payloads, infinities, subnormals, ends. */
const patterns: Readonly<Record<KernelDType, readonly bigint[]>> = {
  float32: [0x8000_0000n, 0x7f80_0000n, 0xff80_0000n, 0x7fc0_1234n, 0xffa0_0001n, 1n, 0x8000_0001n, 0x7f7f_ffffn, 0x3f80_0000n],
  float64: [1n << 63n, 0x7ff0n << 48n, 0xfff0n << 48n, (0x7ff8n << 48n) + 77n, (0xfff4n << 48n) + 1n, 1n, 0x3ff0n << 48n],
  float16: [0x8000n, 0x7c00n, 0xfc00n, 0x7e01n, 0xfd55n, 1n, 0x8001n, 0x03ffn, 0x7bffn, 0x3c00n, 0x0400n],
  bfloat16: [0x8000n, 0x7f80n, 0xff80n, 0x7fc1n, 0xffa5n, 1n, 0x8001n, 0x7f7fn, 0x3f80n, 0x0080n],
  int32: [0x8000_0000n, 0x7fff_ffffn, 0xffff_ffffn, 0x1_0001n],
  int16: [0x8000n, 0x7fffn, 0xffffn, 0x0101n],
  int8: [0x80n, 0x7fn, 0xffn, 0x11n],
  uint8: [0x80n, 0x7fn, 0xffn, 0x11n],
}; // prettier-ignore

/** Random bits, with the special patterns among them. */
function elements(dtype: KernelDType, length: number, random: () => number): Uint8Array {
  const size = elementBytes(dtype);
  const bytes = new Uint8Array(length * size);
  const view = new DataView(bytes.buffer);
  for (let at = 0; at < bytes.length; at += size) {
    const special = [0n, ...patterns[dtype]];
    const bits = random() < 0.3 ? special[Math.floor(random() * special.length)]! : undefined;
    for (let i = 0; i < size; i++) {
      view.setUint8(at + i, bits === undefined ? Math.floor(random() * 256) : Number((bits >> BigInt(8 * i)) & 255n));
    }
    // most random floats are far apart: give some of them nearby exponents
    if (bits === undefined && dtype.includes("float") && random() < 0.7) {
      const exponent = { float16: 0x38, bfloat16: 0x3f, float32: 0x3f, float64: 0x3f }[dtype as "float32"];
      view.setUint8(at + size - 1, (view.getUint8(at + size - 1) & 0x80) | (exponent + (random() < 0.5 ? 0 : 1)));
    }
  }
  return bytes;
}

/** One element as a number. */
function read(dtype: KernelDType, bytes: Uint8Array, index: number): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  switch (dtype) {
    case "float32":
      return view.getFloat32(index * 4, true);
    case "float64":
      return view.getFloat64(index * 8, true);
    case "float16":
      return new Float16Array(bytes.buffer, bytes.byteOffset + index * 2, 1)[0]!;
    case "bfloat16":
      return new DataView(Uint8Array.of(0, 0, bytes[2 * index]!, bytes[2 * index + 1]!).buffer).getFloat32(0, true);
    case "int32":
      return view.getInt32(index * 4, true);
    case "int16":
      return view.getInt16(index * 2, true);
    case "int8":
      return view.getInt8(index);
    case "uint8":
      return view.getUint8(index);
  }
}

/** Writes an element, rounded once; NaN has one form. */
function write(dtype: KernelDType, view: DataView, index: number, value: number): void {
  if (dtype === "float16") {
    if (Number.isNaN(value)) view.setUint16(index * 2, 0x7e00, true);
    else setFloat16(view, index * 2, value, true);
  } else if (dtype === "bfloat16") view.setUint16(index * 2, bfloat16Bits(value), true);
  else if (dtype === "float32") {
    if (Number.isNaN(value)) view.setUint32(index * 4, 0x7fc0_0000, true);
    else view.setFloat32(index * 4, value, true);
  } else if (dtype === "float64") {
    if (Number.isNaN(value)) view.setBigUint64(index * 8, 0x7ff8n << 48n, true);
    else view.setFloat64(index * 8, value, true);
  } else {
    const size = elementBytes(dtype);
    for (let i = 0; i < size; i++) view.setUint8(index * size + i, Number((BigInt(value) >> BigInt(8 * i)) & 255n));
  }
}

/** The bfloat16 nearest to a float32: of its two neighbours the nearer one, or the even one. */
function bfloat16Bits(value: number): number {
  if (Number.isNaN(value)) return 0x7fc0;
  const word = new DataView(new ArrayBuffer(4));
  word.setFloat32(0, value);
  const low = word.getUint16(0);
  const rest = word.getUint16(2);
  return rest > 0x8000 || (rest === 0x8000 && low % 2 === 1) ? low + 1 : low;
}

/** One operand after another; integers without bounds, floats rounded at each step to what they accumulate in. */
function expected(dtype: KernelDType, op: ReduceOp, operands: readonly Uint8Array[]): Uint8Array {
  const result = new Uint8Array(operands[0]!.length);
  const view = new DataView(result.buffer);
  const isInteger = dtype.includes("int");
  const settle = dtype === "float64" || isInteger ? (value: number): number => value : Math.fround;
  for (let i = 0; i < result.length / elementBytes(dtype); i++) {
    const values = operands.map((operand) => read(dtype, operand, i));
    if (isInteger && (op === "sum" || op === "prod")) {
      const whole = values.map(BigInt).reduce((a, b) => (op === "sum" ? a + b : a * b));
      write(dtype, view, i, Number(BigInt.asIntN(elementBytes(dtype) * 8, whole)));
    } else write(dtype, view, i, values.reduce((a, b) => settle(step(op, a, b)))); // prettier-ignore
  }
  return result;
}

function step(op: ReduceOp, a: number, b: number): number {
  if (op === "sum") return a + b;
  if (op === "prod") return a * b;
  if (Number.isNaN(a) || Number.isNaN(b)) return Number.NaN;
  if (a === b) return (Object.is(a, -0) ? op === "max" : op === "min") ? b : a;
  return a > b === (op === "max") ? a : b;
}

/** The same bytes in the arena, at a place that is aligned to the element size alone. */
function inArena(bytes: Uint8Array, offset: number): { block: Uint8Array; view: Uint8Array } {
  const block = arena.allocate(bytes.length + 64, { zeroed: false })!;
  const view = block.subarray(offset, offset + bytes.length);
  view.set(bytes);
  return { block, view };
}

const cases = kinds.flatMap((dtype) => Object.values(ReduceOp).map((op) => ({ dtype, op })));

describe.each(cases)("$op of $dtype", ({ dtype, op }) => {
  const size = elementBytes(dtype);

  it("has the oracle's bits, with SIMD and without, at any length and place", () => {
    const arbitrary = fc.record({
      length: fc.oneof(fc.constantFrom(...lengths), fc.nat(200)),
      count: fc.integer({ min: 1, max: 5 }),
      seed: fc.integer(),
      places: fc.array(fc.nat(63), { minLength: 6, maxLength: 6 }),
      inPlace: fc.option(fc.nat(4)),
    });
    fc.assert(
      fc.property(arbitrary, ({ length, count, seed, places, inPlace }) => {
        let state = seed;
        const random = (): number => ((state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0) >>> 8) / 2 ** 24;
        const operands = Array.from({ length: count }, () => elements(dtype, length, random));
        const wanted = expected(dtype, op, operands);
        const plain = new Uint8Array(wanted.length);
        reduceNumbers(dtype, op, plain, operands);
        expect(Buffer.compare(plain, wanted)).toBe(0);
        const placed = operands.map((bytes, i) => inArena(bytes, Math.floor(places[i]! / size) * size));
        const target = inArena(wanted, Math.floor(places[5]! / size) * size);
        target.block.fill(0x55);
        const result = inPlace === null ? target.view : placed[inPlace % count]!.view;
        expect(reduceByKernel(dtype, op, result, placed.map(({ view }) => view))).toBe(true); // prettier-ignore
        expect(Buffer.compare(result, wanted)).toBe(0);
        // nothing else has changed
        const outside = target.block.filter((_, i) => i < target.view.byteOffset - target.block.byteOffset || i >= target.view.byteOffset - target.block.byteOffset + wanted.length); // prettier-ignore
        expect(outside.every((byte) => byte === 0x55)).toBe(true);
        for (const [i, { view }] of placed.entries()) {
          if (view !== result) expect(Buffer.compare(view, operands[i]!)).toBe(0);
        }
        for (const { block } of [...placed, target]) arena.release(block);
      }),
      { numRuns: 60 },
    );
  });

  it("does without SIMD where not everything lies in one arena", () => {
    const operands = [elements(dtype, 40, () => 0.4), elements(dtype, 40, () => 0.6)];
    const { block, view } = inArena(operands[0]!, 0);
    expect(reduceByKernel(dtype, op, view, [view, operands[1]!])).toBe(false);
    expect(reduceByKernel(dtype, op, operands[0]!, operands)).toBe(false);
    const shorter = view.subarray(0, view.length - size);
    expect(reduceByKernel(dtype, op, view, [view, shorter])).toBe(false);
    reduceInto(dtype, op, view, [view, operands[1]!]);
    expect(Buffer.compare(view, expected(dtype, op, operands))).toBe(0);
    expect(() => reduceInto(dtype, op, view, [view, shorter])).toThrow("invariant broken: operands of");
    arena.release(block);
  });
});
