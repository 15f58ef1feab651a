import { fingerprint } from "../shared/frame.ts";
import { CallLedger } from "./collectives/ledger.ts";

/**
 * An ordered set of ranks with its own windows, signals and sequence numbers. The world is the group of id 0.
 *
 * The id is drawn from the member list and its creation ordinal (the how-many-th group of that list), so that the
 * members agree on it without a word between them.
 */
export class Group {
  readonly id: number;
  /** World ranks of the members, in group order. */
  readonly members: readonly number[];
  readonly ordinal: number;
  /** This rank's index in the group. */
  readonly rank: number;
  readonly ledger = new CallLedger();
  readonly #peers: readonly number[];

  constructor(members: readonly number[], ordinal: number, worldRank: number, id: number) {
    this.members = members;
    this.ordinal = ordinal;
    this.rank = members.indexOf(worldRank);
    this.id = id;
    this.#peers = [...members.keys()].filter((index) => index !== this.rank);
  }

  /** Members other than oneself, as indices in the group, ascending. */
  peers(): readonly number[] {
    return this.#peers;
  }

  /** World rank of a member. */
  world(index: number): number {
    return this.members[index] ?? -1;
  }
}

/** Id of the group with these members; never that of the world. */
export function groupId(members: readonly number[], ordinal: number): number {
  return fingerprint(`${members.join(",")}#${ordinal}`) || 1;
}

/** What a primitive is issued for: a hand-written call, or a round of a builtin. */
export interface CallContext {
  /** As messages show it: `put`, `all_to_all #3`. Not needed unless something is told of the call. */
  readonly label: string;
  readonly group: Group;
  /** Number of the builtin call in its group; 0 for a hand-written primitive. */
  readonly seq: number;
  readonly fingerprint: number;
  readonly lane: number;
  readonly round: number;
}

/** Context of a hand-written primitive. */
export function handContext(group: Group, label: string): CallContext {
  return { label, group, seq: 0, fingerprint: 0, lane: 0, round: 0 };
}
