/**
 * The symmetric allocations of a rank: every window and signal, by group and ordinal.
 *
 * An allocation is zeroed and registered before this rank publishes it, and a peer sends nothing to it before it has
 * seen that publication; so a frame for an unknown allocation is always a fault of its sender.
 */
import { ALLOCATIONS_MAX, WINDOW_BYTES_MAX } from "../../shared/constants.ts";
import { arrayOver, type DType } from "../../shared/dtype.ts";
import { RankwiseError } from "../../shared/errors.ts";
import { byteLength, elementCount, formatShape, type Shape } from "../../shared/shape.ts";
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
  /** Builtin calls that have had this window as their target; the first needs no ready round. */
  builtinCalls: number;
}

export class Registry {
  readonly #groups = new Map<number, (Allocation | undefined)[]>();

  /**
   * Allocates and registers the group's next window or signal, all zero.
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
    const local = new Tensor(dtype, shape, arrayOver(dtype, allocate(`${kind} "${name}"`, bytes), 0, count));
    const cells = kind === "signal" ? new SignalCells(local.array as Int32Array) : undefined;
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
    return allocation;
  }

  /** The allocation that a frame names. @throws {ERR_FRAME_BOUNDS} when this rank has no such allocation. */
  lookup(groupId: number, ordinal: number): Allocation {
    const allocation = this.#groups.get(groupId)?.[ordinal];
    if (allocation === undefined || allocation.freed) {
      const state = allocation === undefined ? "never been made" : `been freed ("${allocation.name}")`;
      throw new RankwiseError("ERR_FRAME_BOUNDS", `window ${ordinal} of group ${groupId} has ${state} here`);
    }
    return allocation;
  }

  /** Forgets a freed allocation's memory; its ordinal is not used again. */
  release(allocation: Allocation): void {
    allocation.freed = true;
    const list = this.#groups.get(allocation.groupId);
    if (list !== undefined) list[allocation.ordinal] = undefined;
  }

  #list(groupId: number): (Allocation | undefined)[] {
    let list = this.#groups.get(groupId);
    if (list === undefined) this.#groups.set(groupId, (list = []));
    return list;
  }
}
