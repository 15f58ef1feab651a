import { RankwiseError } from "./errors.ts";

/**
 * States an invariant of Rankwise itself. A false one is a bug here, never the caller's mistake, and ends the group.
 *
 * @throws {ERR_INTERNAL} when the condition does not hold.
 */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new RankwiseError("ERR_INTERNAL", `invariant broken: ${message}`);
}

/** The value, which an invariant says is there. */
export function present<T>(value: T | undefined | null, what: string): T {
  assert(value !== undefined && value !== null, `${what} is missing`);
  return value;
}

/** Marks a branch that no value can reach. */
export function unreachable(value: never): never {
  throw new RankwiseError("ERR_INTERNAL", `invariant broken: unexpected ${JSON.stringify(value)}`);
}
