/**
 * Whatever a rank waits for: a cell, an acknowledgement, local completion, a reply. Each is an entry of the pending waits,
 * and settles with its value, at its deadline, or when the group ends.
 */
import { deferred } from "../shared/async.ts";
import { RankwiseError } from "../shared/errors.ts";
import { frameHeader, FrameKind } from "../shared/frame.ts";
import type { PendingWait } from "../shared/messages.ts";
import { type CellCondition, CellWait } from "./cell-wait.ts";
import type { Engine } from "./engine.ts";
import type { CallContext } from "./group.ts";
import type { Allocation } from "./memory/registry.ts";
import { type Peer, serialReached } from "./peer.ts";

/**
 * Blocks on own cells of one signal until all conditions hold; resolves with the latched value of the cell that came last,
 * or of the last in the list where all hold at once.
 * `onExpired` is told of the error when the deadline passes.
 */
export function wait(
  engine: Engine,
  ctx: CallContext,
  signal: Allocation,
  conditions: readonly CellCondition[],
  timeoutMs: number,
  onExpired?: (error: RankwiseError) => void,
): Promise<number> {
  engine.throwIfEnded();
  engine.counters.waits += conditions.length;
  const { cells } = signal;
  if (cells === undefined) throw new RankwiseError("ERR_INTERNAL", `"${signal.name}" has no cells`);
  const missing = conditions.filter(({ cell, compare, expected }) => !cells.test(cell, compare, expected));
  if (missing.length === 0) return Promise.resolve(cells.value(conditions.at(-1)?.cell ?? 0));
  return new CellWait({ ctx, signal, cells, timeoutMs, pending: engine.pending, onExpired }, missing).promise;
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
    rows: () => [row],
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

/** Local completion of some frames; undefined where all of them were copied and taken at once. */
export function localCompletion(
  engine: Engine,
  ctx: CallContext,
  receiver: Peer,
  completions: readonly Promise<void>[],
): Promise<void> | undefined {
  if (completions.length === 0) return undefined;
  return tracked(engine, waitRow(ctx, "", "local completion of a put to", receiver.rank), Promise.all(completions));
}

/** Local completion of several operations; undefined where it is reached. */
export function allComplete(completions: readonly (Promise<void> | undefined)[]): Promise<unknown> | undefined {
  const open = completions.filter((completion) => completion !== undefined);
  return open.length === 0 ? undefined : Promise.all(open);
}
