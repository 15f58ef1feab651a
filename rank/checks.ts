/** Checks of arguments at the public border: what passes here is trusted below. */
import { DEFERRED_CONDITIONS_MAX, INT32_MAX, INT32_MIN, NAME_LENGTH_MAX } from "../shared/constants.ts";
import { RankwiseError } from "../shared/errors.ts";
import { checkBlock, describe, type Shape, strideElements } from "../shared/shape.ts";
import type { Group } from "./group.ts";
import type { Allocation } from "./memory/registry.ts";
import { NotifyOp, WaitCmp } from "./primitives.ts";

/** @throws {ERR_PEER_RANGE} unless the value is an index of the group. */
export function checkPeer(call: string, group: Group, peer: unknown, argument = "peer", shown = argument): number {
  if (typeof peer === "number" && Number.isInteger(peer) && peer >= 0 && peer < group.members.length) return peer;
  const hint =
    typeof peer === "number" && peer < 0
      ? "; in JavaScript (rank - 1) % nranks is negative for rank 0, write (rank - 1 + nranks) % nranks"
      : "";
  throw new RankwiseError(
    "ERR_PEER_RANGE",
    `${call}: ${shown} must be an integer in [0, ${group.members.length}), got ${describe(peer)}${hint}`,
    { argument, ...(typeof peer === "number" ? { peer } : {}) },
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

/** One condition of a deferred wait: the own cell at `offset` is at least `expected`. */
export interface DeferredCondition {
  readonly offset: Shape;
  /** In [0, INT32_MAX]. */
  readonly expected: number;
  /** `WaitCmp.Ge`, the only comparison that cannot pass unseen. */
  readonly compare?: WaitCmp;
}

/** A deferred wait's conditions, with their cells as indices. */
export function checkConditions(
  signal: Allocation,
  conditions: unknown,
): { cell: number; expected: number; compare: WaitCmp }[] {
  if (!Array.isArray(conditions)) {
    throw new RankwiseError(
      "ERR_INVALID_ARGUMENT",
      `deferWait: conditions must be an array, got ${describe(conditions)}`,
      { argument: "conditions" },
    );
  }
  if (conditions.length > DEFERRED_CONDITIONS_MAX) {
    throw new RankwiseError(
      "ERR_LIMIT",
      `deferWait: ${conditions.length} conditions exceed DEFERRED_CONDITIONS_MAX ${DEFERRED_CONDITIONS_MAX}`,
      { argument: "conditions" },
    );
  }
  return (conditions as DeferredCondition[]).map(({ offset, expected, compare = WaitCmp.Ge }) => {
    if (compare !== WaitCmp.Ge) {
      throw new RankwiseError(
        "ERR_INVALID_ARGUMENT",
        `deferWait: only WaitCmp.Ge can be deferred, got ${describe(compare)}`,
        { argument: "compare" },
      );
    }
    if (checkInt32("deferWait", "expected", expected) < 0) {
      throw new RankwiseError(
        "ERR_INVALID_ARGUMENT",
        `deferWait: expected must be in [0, ${INT32_MAX}], got ${expected}`,
        { argument: "expected" },
      );
    }
    return { cell: checkCell("deferWait", signal, offset), expected, compare };
  });
}

/** @throws {ERR_WINDOW_FREED} */
export function checkLive(call: string, allocation: Allocation): void {
  if (!allocation.closing) return;
  throw new RankwiseError("ERR_WINDOW_FREED", `${call}: "${allocation.name}" has been freed`, {
    window: allocation.name,
  });
}

/** Distinct indices of the group, the caller's own among them. @throws {ERR_INVALID_ARGUMENT | ERR_PEER_RANGE | ERR_NOT_MEMBER} */
export function checkRanks(group: Group, ranks: unknown): number[] {
  if (!Array.isArray(ranks) || ranks.length === 0) {
    throw new RankwiseError("ERR_INVALID_ARGUMENT", `group: ranks must be a non-empty array, got ${describe(ranks)}`, {
      argument: "ranks",
    });
  }
  const indices = ranks.map((rank, index) => checkPeer("group", group, rank, "ranks", `member ranks[${index}]`));
  if (new Set(indices).size < indices.length) {
    throw new RankwiseError("ERR_INVALID_ARGUMENT", `group: ranks ${describe(ranks)} name one rank twice`, {
      argument: "ranks",
    });
  }
  if (!indices.includes(group.rank)) {
    throw new RankwiseError(
      "ERR_NOT_MEMBER",
      `group: rank ${group.rank} is not in ${describe(ranks)}; only members make a group`,
      { argument: "ranks", rank: group.rank },
    );
  }
  return indices;
}

/** @throws {ERR_INVALID_ARGUMENT | ERR_LIMIT} unless the value is a launch width that the platform allows. */
export function checkLanes(call: string, lanes: unknown, lanesMax: number): number {
  if (typeof lanes !== "number" || !Number.isInteger(lanes) || lanes < 1) {
    throw new RankwiseError(
      "ERR_INVALID_ARGUMENT",
      `${call}: the number of lanes must be an integer > 0, got ${describe(lanes)}`,
      { argument: "lanes" },
    );
  }
  if (lanes <= lanesMax) return lanes;
  throw new RankwiseError(
    "ERR_LIMIT",
    `${call}: ${lanes} lanes exceed the platform's limit of ${lanesMax}; choose another platform with -p, or raise it with --lanes-max`,
    { argument: "lanes" },
  );
}
