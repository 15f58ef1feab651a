import { RankwiseError } from "../../shared/errors.ts";
import type { CollectiveCall } from "./call.ts";

/**
 * What each member has announced with its ready credit to send here; `own` is this rank's own count.
 * A count beyond the capacity, which no honest peer sends, ends the group.
 *
 * @throws {ERR_BAD_FRAME}
 */
export function announcedCounts(call: CollectiveCall, op: string, own: number, capacity: number): number[] {
  const { engine, group, seq } = call;
  return group.members.map((world, member) => {
    if (member === group.rank) return own;
    const count = group.ledger.noteOf(world, seq) ?? 0;
    if (count <= capacity) return count;
    const error = new RankwiseError(
      "ERR_BAD_FRAME",
      `${op}: rank ${world} announces ${count} rows for rank ${engine.rank}, above the capacity ${capacity}`,
      { peer: world, rank: engine.rank, collective: op, seq },
    );
    engine.fail({ error, call: `${op} #${seq}`, suspect: world });
    throw error;
  });
}
