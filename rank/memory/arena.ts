/**
 * The pooled memory of a rank: one shared WebAssembly memory, which SIMD kernels can work on.
 *
 * It has its full size from the start, so that its buffer is one object for life; the platform gives pages only when
 * they are touched. Blocks are found by size in bins and joined with free neighbours when they come back, both at a
 * cost that does not grow with their number.
 */
import { assert, present } from "../../shared/assert.ts";
import { ARENA_BYTES } from "../../shared/constants.ts";
import { Memory, type SharedMemory } from "./wasm.ts";

/** A piece of the arena, free or lent out, between its neighbours. */
interface Block {
  start: number;
  bytes: number;
  before: Block | undefined;
  after: Block | undefined;
  /** Where it stands in its bin, or IN_USE. */
  slot: number;
}

const IN_USE = -1;

/** Blocks start at multiples of this: a cache line, and more than any element. */
const GRAIN_BYTES = 64;
const PAGE_BYTES = 65_536;

/** Blocks of the own bin that are looked at before a larger one is cut. */
const LOOKS = 8;

/** What is copied over memory that must be zero: filling shared memory is ten times slower. */
const zeros = new Uint8Array(PAGE_BYTES);

const arenas = new WeakMap<ArrayBufferLike, Arena>();

/** The arena whose memory this is, if it is one's. */
export function arenaOf(buffer: ArrayBufferLike): Arena | undefined {
  return arenas.get(buffer);
}

export class Arena {
  readonly #bytes: number;
  #memory: SharedMemory | undefined;
  /** Why the platform has refused the memory. */
  #refused: unknown;
  /** Free blocks by size, four bins to a power of two. */
  readonly #bins: Block[][] = [];
  readonly #lent = new Map<number, Block>();
  /** Nothing was ever lent from here on, so it is still zero. */
  #touchedEnd = 0;

  /** An arena of so many bytes, of whole pages; of 0 bytes it grants nothing, and costs nothing. */
  constructor(bytes = ARENA_BYTES) {
    assert(bytes >= 0 && bytes % PAGE_BYTES === 0, `an arena of ${bytes} bytes`);
    this.#bytes = bytes;
  }

  /**
   * Memory at a multiple of 64 bytes, zero unless `zeroed` is false; undefined when it does not fit, or when the
   * platform grants no arena. Made at the first call.
   */
  allocate(bytes: number, { zeroed = true }: { readonly zeroed?: boolean } = {}): Uint8Array | undefined {
    if (bytes === 0) return new Uint8Array();
    const { memory } = this;
    if (memory === undefined) return undefined;
    const size = Math.ceil(bytes / GRAIN_BYTES) * GRAIN_BYTES;
    const block = this.#take(size);
    if (block === undefined) return undefined;
    this.#cut(block, size);
    this.#lent.set(block.start, block);
    const view = new Uint8Array(memory.buffer, block.start, bytes);
    if (zeroed) clear(view.subarray(0, Math.max(0, this.#touchedEnd - block.start)));
    this.#touchedEnd = Math.max(this.#touchedEnd, block.start + block.bytes);
    return view;
  }

  /** Memory of any content: of the arena where it fits, else of its own. `release` takes both. */
  scratch(bytes: number): Uint8Array {
    return this.allocate(bytes, { zeroed: false }) ?? new Uint8Array(bytes);
  }

  /**
   * Takes back what `allocate` gave; nobody may touch it any more. Memory of another kind is left to the collector.
   */
  release(view: Uint8Array): void {
    if (this.#memory === undefined || view.buffer !== this.#memory.buffer) return;
    const block = present(this.#lent.get(view.byteOffset), `the block at byte ${view.byteOffset} of the arena`);
    this.#lent.delete(block.start);
    this.#file(this.#join(block));
  }

  /** Bytes lent out now. */
  get lentBytes(): number {
    let bytes = 0;
    for (const block of this.#lent.values()) bytes += block.bytes;
    return bytes;
  }

  /** Why the platform granted no memory, once it has been asked. */
  get refused(): unknown {
    return this.#refused;
  }

  /** The memory itself, or undefined where there is none. */
  get memory(): SharedMemory | undefined {
    if (this.#memory !== undefined || this.#refused !== undefined || this.#bytes === 0) return this.#memory;
    try {
      const pages = this.#bytes / PAGE_BYTES;
      this.#memory = new Memory({ initial: pages, maximum: pages, shared: true });
    } catch (error) {
      this.#refused = error;
      return undefined;
    }
    arenas.set(this.#memory.buffer, this);
    this.#file({ start: 0, bytes: this.#bytes, before: undefined, after: undefined, slot: IN_USE });
    return this.#memory;
  }

  /** A free block of at least so many bytes, out of its bin. */
  #take(bytes: number): Block | undefined {
    const own = binOf(bytes);
    const block = this.#fitting(own, bytes, LOOKS) ?? this.#larger(own) ?? this.#fitting(own, bytes, Infinity);
    if (block !== undefined) this.#unfile(block);
    return block;
  }

  /** A block of this bin that is large enough, among the latest. */
  #fitting(bin: number, bytes: number, looks: number): Block | undefined {
    const blocks = this.#bins[bin] ?? [];
    for (let slot = blocks.length - 1; slot >= Math.max(0, blocks.length - looks); slot--) {
      const block = blocks[slot];
      if (block !== undefined && block.bytes >= bytes) return block;
    }
    return undefined;
  }

  /** The latest block of the next bin above that has one; any of them is large enough. */
  #larger(bin: number): Block | undefined {
    for (let above = bin + 1; above < this.#bins.length; above++) {
      const block = this.#bins[above]?.at(-1);
      if (block !== undefined) return block;
    }
    return undefined;
  }

  /** Leaves a block of exactly so many bytes, and files the rest. */
  #cut(block: Block, bytes: number): void {
    if (block.bytes === bytes) return;
    const { start, after } = block;
    const rest = { start: start + bytes, bytes: block.bytes - bytes, before: block, after, slot: IN_USE };
    if (after !== undefined) after.before = rest;
    block.after = rest;
    block.bytes = bytes;
    this.#file(rest);
  }

  /** The block together with its free neighbours, which leave their bins. */
  #join(block: Block): Block {
    const { before, after } = block;
    if (after !== undefined && after.slot !== IN_USE) {
      this.#unfile(after);
      absorb(block, after);
    }
    if (before === undefined || before.slot === IN_USE) return block;
    this.#unfile(before);
    absorb(before, block);
    return before;
  }

  #file(block: Block): void {
    const bin = binOf(block.bytes);
    while (this.#bins.length <= bin) this.#bins.push([]);
    const blocks = present(this.#bins[bin], `bin ${bin}`);
    block.slot = blocks.push(block) - 1;
  }

  #unfile(block: Block): void {
    const blocks = present(this.#bins[binOf(block.bytes)], "the bin of a free block");
    const last = present(blocks.pop(), "a block of a bin");
    if (last !== block) {
      blocks[block.slot] = last;
      last.slot = block.slot;
    }
    block.slot = IN_USE;
  }
}

/**
 * Memory for one piece of work, given back as a whole at its end. Work that fails keeps it: a reply that it asked for may
 * still be landing there.
 */
export class Scratch {
  readonly #arena: Arena;
  readonly #taken: Uint8Array[] = [];

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  /** So many bytes, of any content. */
  take(bytes: number): Uint8Array {
    const memory = this.#arena.scratch(bytes);
    this.#taken.push(memory);
    return memory;
  }

  /** Nobody touches any of it any more. */
  giveBack(): void {
    for (const memory of this.#taken.splice(0)) this.#arena.release(memory);
  }
}

/** Grants nothing: for engines that have only memory of their own. */
export const noArena = new Arena(0);

/** The bin of blocks of this size: four to a power of two. */
function binOf(bytes: number): number {
  const grains = bytes / GRAIN_BYTES;
  const power = 31 - Math.clz32(grains);
  const quarter = power < 2 ? (grains << (2 - power)) & 3 : (grains >>> (power - 2)) & 3;
  return power * 4 + quarter;
}

/** Adds the block behind to a block. */
function absorb(block: Block, behind: Block): void {
  block.bytes += behind.bytes;
  block.after = behind.after;
  if (behind.after !== undefined) behind.after.before = block;
}

function clear(bytes: Uint8Array): void {
  for (let at = 0; at < bytes.byteLength; at += zeros.byteLength) {
    bytes.set(bytes.byteLength - at < zeros.byteLength ? zeros.subarray(0, bytes.byteLength - at) : zeros, at);
  }
}
