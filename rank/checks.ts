/** Checks of arguments at the public border: what passes here is trusted below. */
import { INT32_MAX, INT32_MIN, NAME_LENGTH_MAX } from "../shared/constants.ts";
import { RankwiseError } from "../shared/errors.ts";
import { checkBlock, describe, type Shape, strideElements } from "../shared/shape.ts";
import type { Group } from "./group.ts";
import type { Allocation } from "./memory/registry.ts";
import { NotifyOp, WaitCmp } from "./primitives.ts";

/** @throws {ERR_PEER_RANGE} unless the value is an index of the group. */
export function checkPeer(call: string, group: Group, peer: unknown): number {
  if (typeof peer === "number" && Number.isInteger(peer) && peer >= 0 && peer < group.members.length) return peer;
  const hint =
    typeof peer === "number" && peer < 0
      ? "; in JavaScript (rank - 1) % nranks is negative for rank 0, write (rank - 1 + nranks) % nranks"
      : "";
  throw new RankwiseError(
    "ERR_PEER_RANGE",
    `${call}: peer must be an integer in [0, ${group.members.length}), got ${describe(peer)}${hint}`,
    { argument: "peer", ...(typeof peer === "number" ? { peer } : {}) },
  );
}

/** @throws {ERR_INVALID_ARGUMENT} unless the value is an INT32. */
export function checkInt32(call: string, argument: string, value: unknown): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= INT32_MIN && value <= INT32_MAX) return value;
  throw new RankwiseError("ERR_INVALID_ARGUMENT", `${call}: ${argument} must be an INT32, got ${describe(value)}`, {
    argument,
  });
}

/** @throws {ERR_INVALID_ARGUMENT} unless the value is a time in milliseconds above 0. */
export function checkTimeout(call: string, timeoutMs: unknown): number {
  if (typeof timeoutMs === "number" && timeoutMs > 0 && timeoutMs <= INT32_MAX) return timeoutMs;
  throw new RankwiseError(
    "ERR_INVALID_ARGUMENT",
    `${call}: timeoutMs must be in (0, ${INT32_MAX}], got ${describe(timeoutMs)}`,
    { argument: "timeoutMs" },
  );
}

/** @throws {ERR_INVALID_ARGUMENT} */
export function checkNotifyOp(call: string, op: unknown): NotifyOp {
  if (op === NotifyOp.Set || op === NotifyOp.AtomicAdd) return op;
  throw new RankwiseError(
    "ERR_INVALID_ARGUMENT",
    `${call}: op must be NotifyOp.Set or NotifyOp.AtomicAdd, got ${describe(op)}`,
    { argument: "op" },
  );
}

/** @throws {ERR_INVALID_ARGUMENT} */
export function checkWaitCmp(call: string, compare: unknown): WaitCmp {
  if (compare === WaitCmp.Eq || compare === WaitCmp.Ge) return compare;
  throw new RankwiseError(
    "ERR_INVALID_ARGUMENT",
    `${call}: cmp must be WaitCmp.Eq or WaitCmp.Ge, got ${describe(compare)}`,
    { argument: "cmp" },
  );
}

/** @throws {ERR_INVALID_ARGUMENT} unless the value is a name of 1 to NAME_LENGTH_MAX characters. */
export function checkName(call: string, name: unknown): string {
  if (typeof name === "string" && name.length > 0 && name.length <= NAME_LENGTH_MAX) return name;
  throw new RankwiseError(
    "ERR_INVALID_ARGUMENT",
    `${call}: a name has 1 to ${NAME_LENGTH_MAX} characters, got ${describe(name)}`,
    { argument: "name" },
  );
}

/** The cell at an offset, as an index. @throws {ERR_OUT_OF_BOUNDS | ERR_INVALID_ARGUMENT} */
export function checkCell(call: string, signal: Allocation, offset: Shape): number {
  const where = { call, argument: "offset", what: `signal "${signal.name}"`, shape: signal.shape };
  const one = Array.isArray(offset) ? offset.map(() => 1) : [];
  checkBlock(where, offset, one);
  const strides = strideElements(signal.shape);
  return offset.reduce((cell, index, dimension) => cell + index * (strides[dimension] ?? 0), 0);
}

/** @throws {ERR_WINDOW_FREED} */
export function checkLive(call: string, allocation: Allocation): void {
  if (!allocation.freed) return;
  throw new RankwiseError("ERR_WINDOW_FREED", `${call}: "${allocation.name}" has been freed`, {
    window: allocation.name,
  });
}
