/** Blocks that builtins send ahead: the receiver keeps them until its own call takes them, so that no ready round is due. */
import { FrameKind } from "../shared/frame.ts";
import { RankwiseError } from "../shared/errors.ts";
import type { Engine } from "./engine.ts";
import type { CallContext } from "./group.ts";
import { addChange, type CellChange, contextHeader } from "./headers.ts";
import { localCompletion } from "./waits.ts";

/** One staged block. */
export interface StageOperation {
  /** Index in the group; not the own one. */
  readonly peer: number;
  /** At most the frame limit. */
  readonly bytes: Uint8Array;
  /** The credit that says that the block is there. */
  readonly change: CellChange;
}

/** Sends a block for this round of the call to a member; resolves at local completion, and is undefined where that is reached at once. */
export function stage(
  engine: Engine,
  ctx: CallContext,
  { peer, bytes, change }: StageOperation,
): Promise<void> | undefined {
  engine.throwIfEnded();
  const destination = ctx.group.world(peer);
  const receiver = engine.peer(engine.faults?.destination(destination) ?? destination);
  const span = { offset: 0, rowBytes: bytes.byteLength, rows: 1, strideBytes: bytes.byteLength };
  const header = contextHeader(ctx, FrameKind.Stage, { groupId: ctx.group.id, ordinal: 0 }, span);
  addChange(header, change);
  const done = engine.send(receiver, header, bytes, true);
  engine.counters.payloadBytesSent += bytes.byteLength;
  engine.counters.puts += 1;
  engine.counters.notifies += 1;
  return done === undefined ? undefined : localCompletion(engine, ctx, receiver, [done]);
}

/** Takes the block of this round from a member into memory of its size, unless it has landed there. @throws {ERR_BAD_FRAME} */
export function unstageInto(engine: Engine, ctx: CallContext, peer: number, memory: Uint8Array): void {
  const block = unstage(engine, ctx, peer, memory.byteLength);
  if (block.buffer === memory.buffer && block.byteOffset === memory.byteOffset) return;
  memory.set(block);
  engine.arena.release(block);
}

/**
 * Takes the block of this round from a member whose credit has arrived, in a call that lets none land. Its memory is the
 * arena's: release it.
 *
 * @throws {ERR_BAD_FRAME} when the member has sent another number of bytes; the group has failed then.
 */
export function unstage(engine: Engine, ctx: CallContext, peer: number, bytes: number): Uint8Array {
  const from = ctx.group.world(peer);
  const block = ctx.group.ledger.takeStaged(from, ctx.seq, ctx.round);
  if (block?.byteLength === bytes) return block;
  const error = new RankwiseError(
    "ERR_BAD_FRAME",
    `${ctx.label}: rank ${from} staged ${block?.byteLength ?? "no"} bytes for round ${ctx.round}, ${bytes} were due`,
    { rank: engine.rank, peer: from, seq: ctx.seq },
  );
  engine.fail({ error, call: ctx.label, suspect: from });
  throw error;
}
