/**
 * SIMD reductions in an arena: the callers of what `simd/reduce.ts` is compiled to. Loaded at the first reduction, in a
 * few milliseconds; where there is none, because dist/ was built without its compiler, everybody does without.
 */
import { readFileSync } from "node:fs";
import { RANKS_MAX } from "../../shared/constants.ts";
import type { DType } from "../../shared/dtype.ts";
import { type Arena, arenaOf } from "./arena.ts";
import { Instance, Module } from "./wasm.ts";

/** What there are kernels for. */
export type KernelDType = Exclude<DType, "int64">;

type Kernel = (target: number, operands: number, count: number, bytes: number) => void;

/** The kernels of one arena. */
interface Kernels {
  readonly functions: Readonly<Record<string, Kernel>>;
  /** In the arena: the addresses of the operands of the call that is running. */
  readonly addresses: Uint32Array;
}

const loaded = new WeakMap<Arena, Kernels>();

/** The compiled module; null once none was found. */
let module: object | null | undefined;

/**
 * Reduces by a kernel, and says whether it could: not unless all of this lies in one arena. All have the same length,
 * in whole elements, and no operand overlaps the target unless it is the target.
 */
export function reduceByKernel(
  dtype: KernelDType,
  op: "sum" | "max" | "min" | "prod",
  target: Uint8Array,
  operands: readonly Uint8Array[],
): boolean {
  const { buffer, byteLength } = target;
  const arena = arenaOf(buffer);
  if (arena === undefined || operands.length > RANKS_MAX) return false;
  // a view of the same buffer and length lies within the memory, which is all that a kernel relies on
  if (!operands.every((operand) => operand.buffer === buffer && operand.byteLength === byteLength)) return false;
  const kernels = kernelsOf(arena);
  const kernel = kernels?.functions[`${dtype}_${op}`];
  if (kernels === undefined || kernel === undefined) return false;
  const { addresses } = kernels;
  for (const [index, operand] of operands.entries()) addresses[index] = operand.byteOffset;
  kernel(target.byteOffset, addresses.byteOffset, operands.length, byteLength);
  return true;
}

function kernelsOf(arena: Arena): Kernels | undefined {
  const known = loaded.get(arena);
  if (known !== undefined) return known;
  module ??= compiled();
  const place = module === null ? undefined : arena.allocate(RANKS_MAX * Uint32Array.BYTES_PER_ELEMENT);
  if (module === null || place === undefined) return undefined;
  const { exports } = new Instance(module, { env: { memory: arena.memory } });
  const addresses = new Uint32Array(place.buffer, place.byteOffset, RANKS_MAX);
  const kernels = { functions: exports as Readonly<Record<string, Kernel>>, addresses };
  loaded.set(arena, kernels);
  return kernels;
}

/** `reduce.wasm` lies in dist/, beside the bundled scripts and above their chunks. */
function compiled(): object | null {
  for (const place of ["reduce.wasm", "../reduce.wasm", "../../dist/reduce.wasm"]) {
    const binary = contentOf(new URL(place, import.meta.url));
    if (binary !== undefined) return new Module(binary);
  }
  return null;
}

function contentOf(file: URL): Uint8Array | undefined {
  try {
    return readFileSync(file);
  } catch {
    return undefined;
  }
}
