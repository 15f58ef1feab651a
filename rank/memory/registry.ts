/**
 * The symmetric allocations of a rank: every window and signal, by group and ordinal.
 *
 * An allocation is zeroed and registered before this rank publishes it, and a peer sends nothing to it before it has
 * seen that publication; so a frame for an unknown allocation is always a fault of its sender.
 */
import { ALLOCATIONS_MAX, RANK_WINDOW_BYTES_MAX, WINDOW_BYTES_MAX } from "../../shared/constants.ts";
import { arrayOver, type DType } from "../../shared/dtype.ts";
import { RankwiseError } from "../../shared/errors.ts";
import { byteLength, elementCount, formatShape, type Shape } from "../../shared/shape.ts";
import { type Arena, noArena } from "./arena.ts";
import { SignalCells } from "./signal-cells.ts";
import { allocate, Tensor } from "./tensor.ts";

/** One rank's part of a window or signal. */
export interface Allocation {
  readonly groupId: number;
  readonly ordinal: number;
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
  readonly local: Tensor;
  /** The cells, if this is a signal. */
  readonly cells: SignalCells | undefined;
  /** This rank has asked for the window to be freed; peers may still write until all have. */
  closing: boolean;
  freed: boolean;
  /** Builtin calls of its group that have used this window, as target or as source; the first needs no ready round. */
  builtinCalls: number;
}

export class Registry {
  readonly #arena: Arena;
  readonly #groups = new Map<number, (Allocation | undefined)[]>();
  /** Of all live windows and signals. */
  #bytes = 0;
  /** The live allocations of each buffer, by place. */
  readonly #inBuffer = new WeakMap<ArrayBufferLike, Allocation[]>();

  constructor(arena = noArena) {
    this.#arena = arena;
  }

  /**
   * Allocates and registers the group's next window or signal, all zero: in the arena, or with memory of its own.
   *
   * @throws {ERR_SIZE_LIMIT | ERR_NAME_IN_USE | ERR_LIMIT}
   */
  allocate(groupId: number, kind: "window" | "signal", name: string, dtype: DType, shape: Shape): Allocation {
    const bytes = byteLength(kind, dtype, shape);
    if (bytes > WINDOW_BYTES_MAX) {
      throw new RankwiseError(
        "ERR_SIZE_LIMIT",
        `${kind} "${name}": ${dtype} ${formatShape(shape)} has ${bytes} bytes, above WINDOW_BYTES_MAX ${WINDOW_BYTES_MAX}`,
      );
    }
    if (this.#bytes + bytes > RANK_WINDOW_BYTES_MAX) {
      throw new RankwiseError(
        "ERR_SIZE_LIMIT",
        `${kind} "${name}": with its ${bytes} bytes this rank's windows would have ${this.#bytes + bytes}, above RANK_WINDOW_BYTES_MAX ${RANK_WINDOW_BYTES_MAX}; free some first`,
      );
    }
    const list = this.#list(groupId);
    if (list.some((other) => other?.name === name && !other.freed)) {
      throw new RankwiseError(
        "ERR_NAME_IN_USE",
        `${kind}: "${name}" is a live window or signal of this group; free it first`,
      );
    }
    if (list.length >= ALLOCATIONS_MAX) {
      throw new RankwiseError(
        "ERR_LIMIT",
        `${kind} "${name}": the group has made ALLOCATIONS_MAX ${ALLOCATIONS_MAX} windows and signals`,
      );
    }
    const count = elementCount(kind, shape);
    const memory = this.#arena.allocate(bytes) ?? new Uint8Array(allocate(`${kind} "${name}"`, bytes));
    const local = new Tensor(dtype, shape, arrayOver(dtype, memory.buffer, memory.byteOffset, count));
    const cells = kind === "signal" ? new SignalCells(local.array as Int32Array, name, shape) : undefined;
    const allocation: Allocation = {
      groupId,
      ordinal: list.length,
      name,
      dtype,
      shape,
      local,
      cells,
      closing: false,
      freed: false,
      builtinCalls: 0,
    };
    list.push(allocation);
    this.#bytes += bytes;
    const neighbours = this.#neighbours(memory.buffer);
    neighbours.splice(firstEndingBehind(neighbours, memory.byteOffset), 0, allocation);
    return allocation;
  }

  /** The allocation with an ordinal, or undefined. */
  find(groupId: number, ordinal: number): Allocation | undefined {
    return this.#groups.get(groupId)?.[ordinal];
  }

  /** The allocation that a frame names. @throws {ERR_FRAME_BOUNDS} when this rank has no such allocation. */
  lookup(groupId: number, ordinal: number): Allocation {
    const allocation = this.find(groupId, ordinal);
    if (allocation === undefined) {
      throw new RankwiseError(
        "ERR_FRAME_BOUNDS",
        `there is no window ${ordinal} of group ${groupId} here: it has not been made, or has been freed`,
      );
    }
    return allocation;
  }

  /** The live allocations of a group that share memory with these bytes. */
  sharing(groupId: number, bytes: Uint8Array): Allocation[] {
    if (bytes.byteLength === 0) return [];
    const neighbours = this.#inBuffer.get(bytes.buffer) ?? [];
    const shared: Allocation[] = [];
    const end = bytes.byteOffset + bytes.byteLength;
    for (let at = firstEndingBehind(neighbours, bytes.byteOffset); at < neighbours.length; at++) {
      const other = neighbours[at];
      if (other === undefined || other.local.bytes.byteOffset >= end) break;
      if (other.groupId === groupId) shared.push(other);
    }
    return shared;
  }

  /** Forgets a freed allocation and gives its memory back; its ordinal is not used again. */
  release(allocation: Allocation): void {
    if (allocation.freed) return;
    allocation.freed = true;
    const { bytes } = allocation.local;
    this.#bytes -= bytes.byteLength;
    const neighbours = this.#neighbours(bytes.buffer);
    neighbours.splice(neighbours.indexOf(allocation), 1);
    const list = this.#groups.get(allocation.groupId);
    if (list !== undefined) list[allocation.ordinal] = undefined;
    this.#arena.release(bytes);
  }

  /** Gives back whatever is left, when no frame can come any more. */
  releaseAll(): void {
    for (const allocation of [...this.#groups.values()].flat()) if (allocation !== undefined) this.release(allocation);
  }

  #neighbours(buffer: ArrayBufferLike): Allocation[] {
    let list = this.#inBuffer.get(buffer);
    if (list === undefined) this.#inBuffer.set(buffer, (list = []));
    return list;
  }

  #list(groupId: number): (Allocation | undefined)[] {
    let list = this.#groups.get(groupId);
    if (list === undefined) this.#groups.set(groupId, (list = []));
    return list;
  }
}

/** Index of the first of these allocations, which do not overlap and stand by place, that ends behind a byte. */
function firstEndingBehind(allocations: readonly Allocation[], byte: number): number {
  let [low, high] = [0, allocations.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const { byteOffset = 0, byteLength = 0 } = allocations[middle]?.local.bytes ?? {};
    if (byteOffset + byteLength > byte) high = middle;
    else low = middle + 1;
  }
  return low;
}
