/**
 * Reductions by SIMD, in AssemblyScript; `tools/build.mjs` compiles it, `rank/memory/kernels.ts` calls it.
 *
 * Each kernel reduces any number of operands of one length into `target`, which may be one of them, in their order:
 * `operands` is the address of their addresses. The rules are those of `rank/memory/reduce.ts`, bit for bit. A block is
 * read from all operands before it is written, so a partial result never leaves the registers.
 */

const SUM = 0;
const MAX = 1;
const MIN = 2;
const PROD = 3;

const FLOAT32_NAN: u32 = 0x7fc0_0000;
const FLOAT64_NAN: u64 = 0x7ff8_0000_0000_0000;
const FLOAT16_NAN: u32 = 0x7e00;
const BFLOAT16_NAN: u32 = 0x7fc0;

/** Address of the operand whose address stands at `at`, plus an offset. */
@inline
function operand(at: usize, offset: usize): usize {
  return <usize>load<u32>(at) + offset;
}

@inline
function combine<T>(op: i32, a: v128, b: v128): v128 {
  if (op == SUM) return v128.add<T>(a, b);
  if (op == MAX) return v128.max<T>(a, b);
  if (op == MIN) return v128.min<T>(a, b);
  if (sizeof<T>() == 1) return bytesProduct(a, b);
  return v128.mul<T>(a, b);
}

/** There is no product of bytes: that of the even ones and that of the odd ones, as halves of 16 bits. */
@inline
function bytesProduct(a: v128, b: v128): v128 {
  const even = v128.and(i16x8.mul(a, b), i16x8.splat(0x00ff));
  const odd = i16x8.shl(i16x8.mul(i16x8.shr_u(a, 8), i16x8.shr_u(b, 8)), 8);
  return v128.or(even, odd);
}

/** The result, with one NaN for all. */
@inline
function settled<T>(a: v128): v128 {
  if (isFloat<T>()) {
    const nan = sizeof<T>() == 4 ? i32x4.splat(FLOAT32_NAN) : i64x2.splat(FLOAT64_NAN);
    return v128.bitselect(a, nan, v128.eq<T>(a, a));
  }
  return a;
}

/** Blocks of 64 bytes, then element by element. */
@inline
function reduce<T>(op: i32, target: usize, operands: usize, count: usize, bytes: usize): void {
  const last = operands + (count << 2);
  let offset: usize = 0;
  for (const whole = bytes & ~63; offset < whole; offset += 64) {
    let from = operand(operands, offset);
    let a = v128.load(from);
    let b = v128.load(from, 16);
    let c = v128.load(from, 32);
    let d = v128.load(from, 48);
    for (let at = operands + 4; at < last; at += 4) {
      from = operand(at, offset);
      a = combine<T>(op, a, v128.load(from));
      b = combine<T>(op, b, v128.load(from, 16));
      c = combine<T>(op, c, v128.load(from, 32));
      d = combine<T>(op, d, v128.load(from, 48));
    }
    v128.store(target + offset, settled<T>(a));
    v128.store(target + offset, settled<T>(b), 16);
    v128.store(target + offset, settled<T>(c), 32);
    v128.store(target + offset, settled<T>(d), 48);
  }
  for (; offset < bytes; offset += sizeof<T>()) {
    let a = v128.load_splat<T>(operand(operands, offset));
    for (let at = operands + 4; at < last; at += 4) a = combine<T>(op, a, v128.load_splat<T>(operand(at, offset)));
    v128.store_lane<T>(target + offset, settled<T>(a), 0);
  }
}

export function float32_sum(t: usize, o: usize, n: usize, b: usize): void { reduce<f32>(SUM, t, o, n, b); }
export function float32_max(t: usize, o: usize, n: usize, b: usize): void { reduce<f32>(MAX, t, o, n, b); }
export function float32_min(t: usize, o: usize, n: usize, b: usize): void { reduce<f32>(MIN, t, o, n, b); }
export function float32_prod(t: usize, o: usize, n: usize, b: usize): void { reduce<f32>(PROD, t, o, n, b); }
export function float64_sum(t: usize, o: usize, n: usize, b: usize): void { reduce<f64>(SUM, t, o, n, b); }
export function float64_max(t: usize, o: usize, n: usize, b: usize): void { reduce<f64>(MAX, t, o, n, b); }
export function float64_min(t: usize, o: usize, n: usize, b: usize): void { reduce<f64>(MIN, t, o, n, b); }
export function float64_prod(t: usize, o: usize, n: usize, b: usize): void { reduce<f64>(PROD, t, o, n, b); }
export function int32_sum(t: usize, o: usize, n: usize, b: usize): void { reduce<i32>(SUM, t, o, n, b); }
export function int32_max(t: usize, o: usize, n: usize, b: usize): void { reduce<i32>(MAX, t, o, n, b); }
export function int32_min(t: usize, o: usize, n: usize, b: usize): void { reduce<i32>(MIN, t, o, n, b); }
export function int32_prod(t: usize, o: usize, n: usize, b: usize): void { reduce<i32>(PROD, t, o, n, b); }
export function int16_sum(t: usize, o: usize, n: usize, b: usize): void { reduce<i16>(SUM, t, o, n, b); }
export function int16_max(t: usize, o: usize, n: usize, b: usize): void { reduce<i16>(MAX, t, o, n, b); }
export function int16_min(t: usize, o: usize, n: usize, b: usize): void { reduce<i16>(MIN, t, o, n, b); }
export function int16_prod(t: usize, o: usize, n: usize, b: usize): void { reduce<i16>(PROD, t, o, n, b); }
export function int8_sum(t: usize, o: usize, n: usize, b: usize): void { reduce<i8>(SUM, t, o, n, b); }
export function int8_max(t: usize, o: usize, n: usize, b: usize): void { reduce<i8>(MAX, t, o, n, b); }
export function int8_min(t: usize, o: usize, n: usize, b: usize): void { reduce<i8>(MIN, t, o, n, b); }
export function int8_prod(t: usize, o: usize, n: usize, b: usize): void { reduce<i8>(PROD, t, o, n, b); }
export function uint8_sum(t: usize, o: usize, n: usize, b: usize): void { reduce<u8>(SUM, t, o, n, b); }
export function uint8_max(t: usize, o: usize, n: usize, b: usize): void { reduce<u8>(MAX, t, o, n, b); }
export function uint8_min(t: usize, o: usize, n: usize, b: usize): void { reduce<u8>(MIN, t, o, n, b); }
export function uint8_prod(t: usize, o: usize, n: usize, b: usize): void { reduce<u8>(PROD, t, o, n, b); }

/** How a half type becomes float32 and back: four halves in the low 16 bits of each lane. */
class float16 {
    @inline
  static wide(half: v128): v128 {
    const magnitude = i32x4.shl(v128.and(half, i32x4.splat(0x7fff)), 13);
    const sign = i32x4.shl(v128.and(half, i32x4.splat(0x8000)), 16);
    // the exponent is 15 too small for float32: scaling by 2^112 also makes subnormals normal
    const finite = f32x4.mul(magnitude, i32x4.splat(0x7780_0000));
    const special = v128.and(i32x4.gt_s(magnitude, i32x4.splat(0x0f7f_ffff)), i32x4.splat(0x7f80_0000));
    return v128.or(v128.or(finite, special), sign);
  }
    @inline
  static narrow(value: v128): v128 {
    const magnitude = v128.and(value, i32x4.splat(0x7fff_ffff));
    const sign = i32x4.shr_u(v128.and(value, i32x4.splat(0x8000_0000)), 16);
    const odd = v128.and(i32x4.shr_u(magnitude, 13), i32x4.splat(1));
    // takes 112 from the exponent and rounds to even; a carry moves into the exponent by itself
    const normal = i32x4.shr_u(i32x4.add(i32x4.add(magnitude, i32x4.splat(0xc800_0fff)), odd), 13);
    // adding 0.5 leaves a multiple of 2^-24 in the lowest bits
    const subnormal = i32x4.sub(f32x4.add(magnitude, i32x4.splat(0x3f00_0000)), i32x4.splat(0x3f00_0000));
    const small = v128.bitselect(subnormal, normal, i32x4.lt_s(magnitude, i32x4.splat(0x3880_0000)));
    const large = i32x4.gt_s(magnitude, i32x4.splat(0x477f_ffff));
    const half = v128.or(v128.bitselect(i32x4.splat(0x7c00), small, large), sign);
    return v128.bitselect(half, i32x4.splat(FLOAT16_NAN), f32x4.eq(value, value));
  }
}

class bfloat16 {
    @inline
  static wide(half: v128): v128 {
    return i32x4.shl(half, 16);
  }
    @inline
  static narrow(value: v128): v128 {
    const odd = v128.and(i32x4.shr_u(value, 16), i32x4.splat(1));
    const half = i32x4.shr_u(i32x4.add(i32x4.add(value, i32x4.splat(0x7fff)), odd), 16);
    return v128.bitselect(half, i32x4.splat(BFLOAT16_NAN), f32x4.eq(value, value));
  }
}

@inline
function widened<H>(halves: v128): v128 {
  if (idof<H>() == idof<float16>()) return float16.wide(halves);
  return bfloat16.wide(halves);
}

@inline
function narrowed<H>(low: v128, high: v128): v128 {
  if (idof<H>() == idof<float16>()) return i16x8.narrow_i32x4_u(float16.narrow(low), float16.narrow(high));
  return i16x8.narrow_i32x4_u(bfloat16.narrow(low), bfloat16.narrow(high));
}

/** As `reduce`, for halves, which accumulate in float32 over all operands and are rounded once: blocks of 16 bytes. */
@inline
function reduceHalves<H>(op: i32, target: usize, operands: usize, count: usize, bytes: usize): void {
  const last = operands + (count << 2);
  let offset: usize = 0;
  for (const whole = bytes & ~15; offset < whole; offset += 16) {
    let halves = v128.load(operand(operands, offset));
    let low = widened<H>(i32x4.extend_low_i16x8_u(halves));
    let high = widened<H>(i32x4.extend_high_i16x8_u(halves));
    for (let at = operands + 4; at < last; at += 4) {
      halves = v128.load(operand(at, offset));
      low = combine<f32>(op, low, widened<H>(i32x4.extend_low_i16x8_u(halves)));
      high = combine<f32>(op, high, widened<H>(i32x4.extend_high_i16x8_u(halves)));
    }
    v128.store(target + offset, narrowed<H>(low, high));
  }
  for (; offset < bytes; offset += 2) {
    let low = widened<H>(i32x4.extend_low_i16x8_u(v128.load_splat<u16>(operand(operands, offset))));
    for (let at = operands + 4; at < last; at += 4) {
      low = combine<f32>(op, low, widened<H>(i32x4.extend_low_i16x8_u(v128.load_splat<u16>(operand(at, offset)))));
    }
    v128.store_lane<u16>(target + offset, narrowed<H>(low, low), 0);
  }
}

export function float16_sum(t: usize, o: usize, n: usize, b: usize): void { reduceHalves<float16>(SUM, t, o, n, b); }
export function float16_max(t: usize, o: usize, n: usize, b: usize): void { reduceHalves<float16>(MAX, t, o, n, b); }
export function float16_min(t: usize, o: usize, n: usize, b: usize): void { reduceHalves<float16>(MIN, t, o, n, b); }
export function float16_prod(t: usize, o: usize, n: usize, b: usize): void { reduceHalves<float16>(PROD, t, o, n, b); }
export function bfloat16_sum(t: usize, o: usize, n: usize, b: usize): void { reduceHalves<bfloat16>(SUM, t, o, n, b); }
export function bfloat16_max(t: usize, o: usize, n: usize, b: usize): void { reduceHalves<bfloat16>(MAX, t, o, n, b); }
export function bfloat16_min(t: usize, o: usize, n: usize, b: usize): void { reduceHalves<bfloat16>(MIN, t, o, n, b); }
export function bfloat16_prod(t: usize, o: usize, n: usize, b: usize): void { reduceHalves<bfloat16>(PROD, t, o, n, b); }
