/** Forms that go through one member: everybody's messages to it, and one back to everybody. */
import type { Group } from "../group.ts";

/** The member. */
export const HUB = 0;

/** Whom a member hears from in a call through the hub. */
export function hubHears(group: Group): readonly number[] {
  return group.rank === HUB ? group.peers() : [HUB];
}
