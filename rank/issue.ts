/**
 * The issuing side of every primitive: arguments are already checked, spans are known; here they become frames.
 *
 * Each function enqueues its frames before it returns, so that primitives issued one after another without an await
 * keep their order on the link.
 */
import { present } from "../shared/assert.ts";
import { dtypes } from "../shared/dtype.ts";
import { RankwiseError } from "../shared/errors.ts";
import { FrameFlag, FrameKind } from "../shared/frame.ts";
import { cutSpan, type Span, spanBytes } from "../shared/shape.ts";
import type { Engine } from "./engine.ts";
import type { CallContext } from "./group.ts";
import { addChange, callHeader, type CellChange, contextHeader } from "./headers.ts";
import type { Allocation } from "./memory/registry.ts";
import { gather } from "./memory/spans.ts";
import { type AtomicDType, writeSpans } from "./memory/write.ts";
import type { Peer } from "./peer.ts";
import { acknowledged, localCompletion } from "./waits.ts";

/** A block of private memory or of a window: its bytes and the spans of the block in them. */
export interface Block {
  readonly bytes: Uint8Array;
  readonly spans: readonly Span[];
}

/** One put: from a block of private memory into spans of a member's window, perhaps with a signal behind it. */
export interface PutOperation {
  /** Index in the group. */
  readonly peer: number;
  readonly target: Allocation;
  readonly spans: readonly Span[];
  readonly source: Block;
  readonly change?: CellChange | undefined;
  /** Add in this dtype instead of writing. */
  readonly atomic?: AtomicDType | undefined;
}

/** One-sided write; resolves at local completion, and is undefined where that is reached at once. */
export function put(engine: Engine, ctx: CallContext, operation: PutOperation): Promise<void> | undefined {
  const { peer, target, spans, source, change, atomic } = operation;
  engine.throwIfEnded();
  const destination = ctx.group.world(peer);
  const { packed } = gather(source.bytes, source.spans);
  if (destination === engine.rank) {
    writeSpans(target, spans, packed, atomic);
    applyOwn(engine, ctx, change);
    countPut(engine, change);
    return undefined;
  }
  const receiver = engine.peer(engine.faults?.destination(destination) ?? destination);
  const limit = engine.limits.framePayloadBytes;
  const pieces = packed.byteLength <= limit ? spans : spans.flatMap((span) => cutSpan(span, limit));
  const completions: Promise<void>[] = [];
  let position = 0;
  for (let index = 0; index < pieces.length; index++) {
    const span = present(pieces[index], "a piece of a put");
    const bytes = spanBytes(span);
    const header = contextHeader(ctx, FrameKind.Put, target, span);
    header.offset += engine.faults?.offsetError() ?? 0;
    if (index === pieces.length - 1) addChange(header, change);
    if (atomic !== undefined) {
      header.flags |= FrameFlag.AtomicAdd;
      header.dtype = dtypes[atomic].code;
    }
    // a full queue refuses an operation whole, never a part of one: of a put, or of a builtin that has begun
    const exempt = index > 0 || ctx.seq !== 0;
    const done = engine.send(receiver, header, packed.subarray(position, position + bytes), exempt);
    engine.counters.payloadBytesSent += bytes;
    if (done !== undefined) completions.push(done);
    position += bytes;
  }
  if (pieces.length === 0 && change !== undefined) {
    const done = sendNotify(engine, ctx, receiver, change);
    if (done !== undefined) completions.push(done);
  }
  countPut(engine, change);
  return localCompletion(engine, ctx, receiver, completions);
}

/** Counts a put that has been taken: a refused one has not happened. */
function countPut(engine: Engine, change: CellChange | undefined): void {
  engine.counters.puts += 1;
  if (change !== undefined) engine.counters.notifies += 1;
}

/** Changes one cell of a member's signal; resolves at local completion, and is undefined where that is reached at once. */
export function notify(engine: Engine, ctx: CallContext, peer: number, change: CellChange): Promise<void> | undefined {
  engine.throwIfEnded();
  const destination = ctx.group.world(peer);
  if (destination === engine.rank) {
    applyOwn(engine, ctx, change);
    engine.counters.notifies += 1;
    return undefined;
  }
  const receiver = engine.peer(destination);
  const done = sendNotify(engine, ctx, receiver, change);
  engine.counters.notifies += 1;
  return done === undefined ? undefined : localCompletion(engine, ctx, receiver, [done]);
}

/** Rows that lie apart here and together in a member's window: one frame, or several where the frame limit asks. */
export interface RowsOperation {
  /** Index in the group; not the own one. */
  readonly peer: number;
  readonly target: Allocation;
  /** First byte in the target. */
  readonly offset: number;
  /** The rows' bytes, in order, all pieces of whole rows. */
  readonly pieces: readonly Uint8Array[];
  /** Ask for an acknowledgement of all that went before. */
  readonly completion?: boolean;
}

/** Writes rows by vectored frames; `local` as of a put, `applied` resolves when the owner has acknowledged. */
export function putRows(
  engine: Engine,
  ctx: CallContext,
  { peer, target, offset, pieces, completion = false }: RowsOperation,
): { readonly local: Promise<void> | undefined; readonly applied: Promise<void> | undefined } {
  engine.throwIfEnded();
  const destination = ctx.group.world(peer);
  const receiver = engine.peer(engine.faults?.destination(destination) ?? destination);
  const frames = framesOf(pieces, engine.limits.framePayloadBytes);
  const completions: Promise<void>[] = [];
  let position = offset;
  for (const [index, { bytes, parts }] of frames.entries()) {
    const span = { offset: position, rowBytes: bytes, rows: 1, strideBytes: bytes };
    const header = contextHeader(ctx, FrameKind.Put, target, span);
    header.offset += engine.faults?.offsetError() ?? 0;
    if (completion && index === frames.length - 1) header.flags |= FrameFlag.AckNow;
    const done = engine.send(receiver, header, parts, index > 0 || ctx.seq !== 0);
    engine.counters.puts += 1;
    engine.counters.payloadBytesSent += bytes;
    if (done !== undefined) completions.push(done);
    position += bytes;
  }
  const applied = completion ? acknowledged(engine, ctx, receiver) : undefined;
  return { local: localCompletion(engine, ctx, receiver, completions), applied };
}

/** Pieces in runs of at most `limit` bytes; a piece above it is cut. */
function framesOf(pieces: readonly Uint8Array[], limit: number): { bytes: number; parts: Uint8Array[] }[] {
  const frames: { bytes: number; parts: Uint8Array[] }[] = [];
  for (const piece of pieces) {
    for (let start = 0; start < piece.byteLength; start += limit) {
      const part = piece.subarray(start, start + limit);
      const last = frames.at(-1);
      if (last === undefined || last.bytes + part.byteLength > limit) {
        frames.push({ bytes: part.byteLength, parts: [part] });
      } else {
        last.parts.push(part);
        last.bytes += part.byteLength;
      }
    }
  }
  return frames;
}

function sendNotify(engine: Engine, ctx: CallContext, receiver: Peer, change: CellChange): Promise<void> | undefined {
  const header = callHeader(ctx, FrameKind.Notify, change.signal.groupId);
  addChange(header, change);
  if (change.note !== undefined) {
    header.flags |= FrameFlag.Note;
    header.rows = engine.faults?.announced(change.note) ?? change.note;
  }
  return engine.send(receiver, header, undefined, ctx.seq !== 0);
}

/** A notify to oneself acts on the same cell, by the same rules. */
function applyOwn(engine: Engine, ctx: CallContext, change: CellChange | undefined): void {
  try {
    change?.signal.cells?.apply(change.cell, change.op, change.value, engine.rank);
  } catch (error) {
    if (error instanceof RankwiseError) engine.fail({ error, call: ctx.label, suspect: null });
    throw error;
  }
}
