import type { Span } from "../../shared/shape.ts";
import { type Block, notify, put } from "../issue.ts";
import { allComplete } from "../waits.ts";
import type { Allocation } from "../memory/registry.ts";
import type { CollectiveCall } from "./call.ts";
import type { CreditBarrier } from "./credits.ts";

/** What one rank writes into one member's target. */
export interface Transfer {
  readonly spans: readonly Span[];
  readonly source: Block;
}

/**
 * The complete round of a pushing builtin: every member gets its transfer, if there is one, and then the credit that
 * says so; resolves when every peer's credit has arrived here and all sources may be changed again.
 *
 * Rank r starts with peer r + 1, so that not all ranks write to the same one at once.
 */
export async function pushAndComplete(
  { engine, group }: CollectiveCall,
  credits: CreditBarrier,
  target: Allocation,
  transferTo: (peer: number) => Transfer | undefined,
): Promise<void> {
  const ctx = credits.begin();
  const { rank, members } = group;
  const sent: (Promise<void> | undefined)[] = [];
  for (let step = 1; step <= members.length; step++) {
    const peer = (rank + step) % members.length;
    const transfer = transferTo(peer);
    const change = peer === rank ? undefined : credits.credit();
    if (transfer !== undefined) sent.push(put(engine, ctx, { peer, target, ...transfer, change }));
    else if (change !== undefined) sent.push(notify(engine, ctx, peer, change));
  }
  await allComplete(sent);
  await credits.arrived(ctx);
}
