/** The algorithms of the collectives, and which one a call takes. */
import { RankwiseError } from "../../shared/errors.ts";
import { describe } from "../../shared/shape.ts";
import type { Engine } from "../engine.ts";
import type { Group } from "../group.ts";
import type { CallOptions } from "./call.ts";

/** The algorithms of `barrier`. */
export const BarrierAlgo = { Auto: "auto", Direct: "direct", Hub: "hub" } as const;
export type BarrierAlgo = (typeof BarrierAlgo)[keyof typeof BarrierAlgo];

/** The algorithms of `all_to_all` and `allgather`. */
export const ExchangeAlgo = { Auto: "auto", Direct: "direct", Eager: "eager", Hub: "hub" } as const;
export type ExchangeAlgo = (typeof ExchangeAlgo)[keyof typeof ExchangeAlgo];

/** Options of `barrier`. */
export interface BarrierOptions extends CallOptions {
  /**
   * Default `direct`: a credit from every rank to every rank. `hub`: through rank 0 of the group, with 2 (P − 1)
   * messages in all. `auto` takes the one that is faster here.
   */
  readonly algo?: BarrierAlgo;
}

/** Options of `all_to_all` and `allgather`. */
export interface ExchangeOptions extends CallOptions {
  /**
   * Default `direct`: straight into the peers' windows, behind a ready round where one is due. `eager`: chunks that
   * come before the receiver's own call are kept there until it takes them, so that there is one round, always. `hub`: through rank 0
   * of the group, with 2 (P − 1) messages in all. `auto` takes the fastest for this size and number of ranks.
   */
  readonly algo?: ExchangeAlgo;
}

/** @throws {ERR_INVALID_ARGUMENT} unless the value is one of the algorithms. */
export function checkAlgo<A extends string>(op: string, algos: Readonly<Record<string, A>>, value: unknown): A {
  const known = Object.values(algos).find((algo) => algo === value);
  if (known !== undefined) return known;
  throw new RankwiseError(
    "ERR_INVALID_ARGUMENT",
    `${op}: algo must be one of ${Object.values(algos).join(", ")}, got ${describe(value)}`,
    { argument: "algo" },
  );
}

/** Whether the group's ranks are more than the processors that they share: then fewer messages win. */
export function isCrowded({ placement }: Engine, group: Group): boolean {
  return placement.hosts === 1 && group.members.length > placement.processors;
}
