/**
 * float16 (IEEE 754 binary16) and bfloat16 as bits, and as numbers. Rounding is to nearest, ties to even; NaN stays
 * NaN, overflow becomes infinity.
 */

const floats = new Float32Array(1);
const bits = new Uint32Array(floats.buffer);

/** Every float16 as a number; a look-up beats arithmetic by far. Made at first use: 256 KiB. */
let float16Table: Float32Array | undefined;

/** The number that float16 bits stand for. */
export function fromFloat16(half: number): number {
  return float16Numbers()[half & 0xffff] ?? Number.NaN;
}

function float16Numbers(): Float32Array {
  return (float16Table ??= Float32Array.from({ length: 65_536 }, (_, value) => decodeFloat16(value)));
}

/** Many float16 at once, as float32. */
export function widenFloat16(halves: Uint16Array, into: Float32Array): void {
  const table = float16Numbers();
  for (let i = 0; i < into.length; i++) into[i] = table[halves[i]!]!;
}

/** Many float32 at once, as the nearest float16. */
export function narrowFloat16(values: Float32Array, into: Uint16Array): void {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < into.length; i++) {
    const word = words[i]!;
    into[i] = (word & 0x7fff_ffff) > 0x7f80_0000 ? 0x7e00 : halfOfFloat32(word);
  }
}

/** Many bfloat16 at once, as float32. */
export function widenBfloat16(halves: Uint16Array, into: Float32Array): void {
  const words = new Uint32Array(into.buffer, into.byteOffset, into.length);
  for (let i = 0; i < into.length; i++) words[i] = halves[i]! << 16;
}

/** Many float32 at once, as the nearest bfloat16. */
export function narrowBfloat16(values: Float32Array, into: Uint16Array): void {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < into.length; i++) {
    const word = words[i]!;
    into[i] = (word & 0x7fff_ffff) > 0x7f80_0000 ? 0x7fc0 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  }
}

/** The float16 bits nearest to a number. The number is rounded once, from float64. */
export function toFloat16(value: number): number {
  if (Number.isNaN(value)) return 0x7e00;
  floats[0] = value;
  if (floats[0] === value) return halfOfFloat32(bits[0] ?? 0);
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  // 65520 lies half-way between the largest float16 and the next power; ties go to the even one, infinity
  if (magnitude >= 65_520) return sign | 0x7c00;
  if (magnitude < 2 ** -14) return sign | roundEven(magnitude * 2 ** 24);
  const exponent = exponentOf(magnitude);
  // the carry of a mantissa that rounds up to 1024 moves into the exponent by itself
  return sign | (((exponent + 15) << 10) + roundEven((magnitude / 2 ** exponent - 1) * 1024));
}

/** The number that bfloat16 bits stand for. */
export function fromBfloat16(half: number): number {
  bits[0] = (half & 0xffff) << 16;
  return floats[0] ?? Number.NaN;
}

/** The bfloat16 bits nearest to a number, by way of float32. */
export function toBfloat16(value: number): number {
  if (Number.isNaN(value)) return 0x7fc0;
  floats[0] = value;
  const word = bits[0] ?? 0;
  // adding half of the last place, and one less when the last place is even, rounds to even
  return ((word + 0x7fff + ((word >>> 16) & 1)) >>> 16) & 0xffff;
}

/** The float16 bits nearest to a float32, which is given by its bits and no NaN. */
function halfOfFloat32(word: number): number {
  const sign = (word >>> 16) & 0x8000;
  const magnitude = word & 0x7fff_ffff;
  // from 65536 on it is infinity; a carry from below becomes it by itself
  if (magnitude >= 0x4780_0000) return sign | 0x7c00;
  // below 2^-14 the last place is 2^-24
  if (magnitude < 0x3880_0000) {
    bits[0] = magnitude;
    return sign | roundEven((floats[0] ?? 0) * 2 ** 24);
  }
  // the exponent is 112 larger in float32; adding half of the last place, and one less when that is even, rounds to even
  return sign | ((magnitude - 0x3800_0000 + 0xfff + ((magnitude >>> 13) & 1)) >>> 13);
}

function decodeFloat16(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 31;
  const mantissa = half & 1023;
  if (exponent === 31) return mantissa === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (exponent === 0) return sign * mantissa * 2 ** -24;
  return sign * (1 + mantissa / 1024) * 2 ** (exponent - 15);
}

/** The power of two at or below a normal positive number. */
function exponentOf(magnitude: number): number {
  const exponent = Math.floor(Math.log2(magnitude));
  if (2 ** exponent > magnitude) return exponent - 1;
  return 2 ** (exponent + 1) <= magnitude ? exponent + 1 : exponent;
}

function roundEven(value: number): number {
  const low = Math.floor(value);
  const rest = value - low;
  if (rest !== 0.5) return Math.round(value);
  return low % 2 === 0 ? low : low + 1;
}
