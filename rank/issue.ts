/**
 * The issuing side of every primitive: arguments are already checked, spans are known; here they become frames.
 *
 * Each function enqueues its frames before it returns, so that primitives issued one after another without an await
 * keep their order on the link.
 */
import { deferred } from "../shared/async.ts";
import { dtypes } from "../shared/dtype.ts";
import { RankwiseError } from "../shared/errors.ts";
import { blankHeader, FrameFlag, type FrameHeader, frameHeader, FrameKind } from "../shared/frame.ts";
import type { PendingWait } from "../shared/messages.ts";
import { cutSpan, type Span, spanBytes } from "../shared/shape.ts";
import { type CellCondition, CellWait } from "./cell-wait.ts";
import type { Engine } from "./engine.ts";
import type { CallContext } from "./group.ts";
import type { Allocation } from "./memory/registry.ts";
import { type AtomicDType, writeSpans } from "./memory/write.ts";
import { gather, scatter } from "./memory/spans.ts";
import { type GetPiece, type Peer, serialReached } from "./peer.ts";
import { NotifyOp } from "./primitives.ts";

/** A change of one cell of a signal. */
export interface CellChange {
  readonly signal: Allocation;
  readonly cell: number;
  readonly op: NotifyOp;
  readonly value: number;
  /** A number for the receiver of a builtin's credit, e.g. how many rows will follow. */
  readonly note?: number;
}

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

/** One-sided write; resolves at local completion. */
export function put(engine: Engine, ctx: CallContext, operation: PutOperation): Promise<void> {
  const { peer, target, spans, source, change, atomic } = operation;
  engine.throwIfEnded();
  const destination = ctx.group.world(peer);
  const { packed } = gather(source.bytes, source.spans);
  if (destination === engine.rank) {
    writeSpans(target, spans, packed, atomic);
    applyOwn(engine, ctx, change);
    countPut(engine, change);
    return Promise.resolve();
  }
  const receiver = engine.peer(engine.faults?.destination(destination) ?? destination);
  const pieces = spans.flatMap((span) => cutSpan(span, engine.limits.framePayloadBytes));
  const completions: Promise<void>[] = [];
  let position = 0;
  for (const [index, span] of pieces.entries()) {
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

/** Changes one cell of a member's signal. */
export function notify(engine: Engine, ctx: CallContext, peer: number, change: CellChange): Promise<void> {
  engine.throwIfEnded();
  const destination = ctx.group.world(peer);
  if (destination === engine.rank) {
    applyOwn(engine, ctx, change);
    engine.counters.notifies += 1;
    return Promise.resolve();
  }
  const receiver = engine.peer(destination);
  const done = sendNotify(engine, ctx, receiver, change);
  engine.counters.notifies += 1;
  return localCompletion(engine, ctx, receiver, done === undefined ? [] : [done]);
}

/** One-sided read of a member's window into private memory; resolves when the bytes are there. */
export function get(
  engine: Engine,
  ctx: CallContext,
  peer: number,
  source: Allocation,
  sourceSpans: readonly Span[],
  target: Block,
): Promise<void> {
  engine.throwIfEnded();
  engine.counters.gets += 1;
  const owner = ctx.group.world(peer);
  if (owner === engine.rank) {
    scatter(target.bytes, target.spans, 0, gather(source.local.bytes, sourceSpans).packed);
    return Promise.resolve();
  }
  const server = engine.peer(owner);
  let position = 0;
  const pieces: Promise<void>[] = [];
  for (const span of sourceSpans.flatMap((whole) => cutSpan(whole, engine.limits.framePayloadBytes))) {
    const start = position;
    const bytes = spanBytes(span);
    const [only, ...others] = target.spans;
    const isRun = only !== undefined && others.length === 0 && only.rows === 1;
    const piece: GetPiece = {
      bytes,
      memory: isRun ? target.bytes.subarray(only.offset + start, only.offset + start + bytes) : undefined,
      place: (payload) => {
        scatter(target.bytes, target.spans, start, payload);
      },
      done: deferred<void>(),
    };
    position += piece.bytes;
    requestPiece(engine, server, piece, contextHeader(ctx, FrameKind.Get, source, span));
    pieces.push(piece.done.promise);
  }
  return tracked(engine, waitRow(ctx, source.name, "reply from", owner), Promise.all(pieces));
}

/** Blocks on one's own cell; resolves with the latched value. */
export function wait(
  engine: Engine,
  ctx: CallContext,
  signal: Allocation,
  condition: CellCondition,
  timeoutMs: number,
  onExpired?: (error: RankwiseError) => void,
): Promise<number> {
  engine.throwIfEnded();
  engine.counters.waits += 1;
  const { cells } = signal;
  if (cells === undefined) throw new RankwiseError("ERR_INTERNAL", `"${signal.name}" has no cells`);
  if (cells.test(condition.cell, condition.compare, condition.expected)) {
    return Promise.resolve(cells.value(condition.cell));
  }
  return new CellWait(ctx, signal, cells, condition, timeoutMs, engine.pending, onExpired).promise;
}

/** Resolves when everything sent to the peer so far has been applied there. */
export function fence(engine: Engine, ctx: CallContext, worldRank: number): Promise<void> {
  engine.throwIfEnded();
  if (worldRank === engine.rank) return Promise.resolve();
  const peer = engine.peer(worldRank);
  if (serialReached(peer.acked, peer.sent)) return Promise.resolve();
  engine.post(peer, frameHeader({ kind: FrameKind.Fence }));
  return acknowledged(engine, ctx, peer);
}

/** Resolves when the last frame sent to the peer has been acknowledged, which that frame has asked for. */
export function acknowledged(engine: Engine, ctx: CallContext, peer: Peer): Promise<void> {
  const done = deferred<void>();
  const entry = pendingEntry(engine, waitRow(ctx, "", "acknowledgement from", peer.rank), done.reject);
  peer.fences.push({ serial: peer.sent, entry, done });
  engine.pending.add(entry);
  return done.promise;
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
  /** Changes a cell behind the rows. */
  readonly change?: CellChange;
}

/** Writes rows by vectored frames; `local` resolves at local completion, `applied` when the owner has acknowledged. */
export function putRows(
  engine: Engine,
  ctx: CallContext,
  { peer, target, offset, pieces, completion = false, change }: RowsOperation,
): { readonly local: Promise<void>; readonly applied: Promise<void> | undefined } {
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
    if (index === frames.length - 1) addChange(header, change);
    const done = engine.send(receiver, header, parts, index > 0 || ctx.seq !== 0);
    engine.counters.puts += 1;
    engine.counters.payloadBytesSent += bytes;
    if (done !== undefined) completions.push(done);
    position += bytes;
  }
  if (frames.length === 0 && change !== undefined) {
    const done = sendNotify(engine, ctx, receiver, change);
    if (done !== undefined) completions.push(done);
  }
  if (change !== undefined) engine.counters.notifies += 1;
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

/** Resolves when everything sent to anybody so far has been applied. */
export async function quiet(engine: Engine, ctx: CallContext): Promise<void> {
  await Promise.all(Array.from({ length: engine.nranks }, (_, rank) => fence(engine, ctx, rank)));
}

/** Resolves like the promise, or rejects at the deadline or when the group ends: nothing waits for ever. */
export async function tracked(
  engine: Engine,
  row: Omit<PendingWait, "ageMs">,
  promise: Promise<unknown>,
): Promise<void> {
  const ended = deferred<never>();
  const entry = pendingEntry(engine, row, ended.reject);
  engine.pending.add(entry);
  try {
    await Promise.race([promise, ended.promise]);
  } finally {
    engine.pending.delete(entry);
  }
}

/** A row of the wait table for a wait that is not on a cell. */
export function waitRow(ctx: CallContext, name: string, what: string, worldRank: number): Omit<PendingWait, "ageMs"> {
  return {
    call: ctx.label,
    group: [...ctx.group.members],
    seq: ctx.seq,
    lane: ctx.lane,
    signal: name,
    cell: [],
    compare: what,
    expected: 0,
    current: 0,
    lastWriter: null,
    missing: [worldRank],
  };
}

function pendingEntry(
  engine: Engine,
  row: Omit<PendingWait, "ageMs">,
  reject: (error: RankwiseError) => void,
): Parameters<Engine["pending"]["add"]>[0] {
  const since = performance.now();
  return {
    since,
    deadline: since + engine.waitTimeoutMs,
    row: () => row,
    reject,
    expire: () => {
      const error = new RankwiseError(
        "ERR_WAIT_TIMEOUT",
        `${row.call}: waited ${engine.waitTimeoutMs} ms for the ${row.compare} rank ${row.missing.join(", ")}; raise --wait-timeout if that is legitimate`,
        { rank: engine.rank, missing: row.missing },
      );
      reject(error);
      engine.fail({ error, call: row.call, suspect: null });
    },
  };
}

/** Sends one get, or queues it until fewer bytes are in flight from that owner. */
function requestPiece(engine: Engine, server: Peer, piece: GetPiece, header: FrameHeader): void {
  const send = (): void => {
    server.getBytesInFlight += piece.bytes;
    header.value = server.nextRequest();
    server.gets.set(header.value, piece);
    engine.post(server, header);
  };
  if (server.getQueue.length === 0 && server.getFits(piece.bytes)) send();
  else server.getQueue.push({ bytes: piece.bytes, send });
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

export function addChange(header: FrameHeader, change: CellChange | undefined): void {
  if (change === undefined) return;
  header.flags |= FrameFlag.Signal | (change.op === NotifyOp.AtomicAdd ? FrameFlag.SignalAdd : 0);
  header.signal = change.signal.ordinal;
  header.cell = change.cell;
  header.value = change.value;
}

export function contextHeader(
  ctx: CallContext,
  kind: FrameKind,
  target: { readonly groupId: number; readonly ordinal: number },
  span: Span,
): FrameHeader {
  const header = callHeader(ctx, kind, target.groupId);
  header.window = target.ordinal;
  header.offset = span.offset;
  header.rowBytes = span.rowBytes;
  header.rows = span.rows;
  header.strideBytes = span.strideBytes;
  return header;
}

function callHeader(ctx: CallContext, kind: FrameKind, groupId: number): FrameHeader {
  const header = blankHeader(kind);
  header.lane = ctx.lane;
  header.group = groupId;
  header.seq = ctx.seq;
  header.round = ctx.round;
  header.fingerprint = ctx.fingerprint;
  return header;
}

/** Local completion of some frames: at once where all of them were copied and taken. */
export function localCompletion(
  engine: Engine,
  ctx: CallContext,
  receiver: Peer,
  completions: readonly Promise<void>[],
): Promise<void> {
  if (completions.length === 0) return Promise.resolve();
  return tracked(engine, waitRow(ctx, "", "local completion of a put to", receiver.rank), Promise.all(completions));
}
