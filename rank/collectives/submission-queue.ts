/**
 * The submission queue of one lane to one remote peer: entries of at most 12 rows in slots of 4 WQEBBs, doorbells of at
 * most 64 entries, one completion for a transfer.
 *
 * A doorbell is one vectored write that carries its whole segment. Counters rise where an entry is encoded, a doorbell
 * is written or a completion is drained, and nowhere else.
 */
import { DOORBELL_SQES_MAX, GATHER_COPY_BYTES_MAX, SQE_ROWS_MAX, SQE_WQEBBS } from "../../shared/constants.ts";
import type { QueueCounters } from "../../shared/messages.ts";
import type { Engine } from "../engine.ts";
import type { CallContext } from "../group.ts";
import { putRows } from "../issue.ts";
import type { Allocation } from "../memory/registry.ts";

/** One transfer: rows of a private tensor, by index, to consecutive rows of a peer's window. */
export interface IndexedTransfer {
  /** Index in the group. */
  readonly peer: number;
  readonly input: Uint8Array;
  readonly rowBytes: number;
  /** Rows of the input, in the order of the target. */
  readonly rows: Int32Array;
  readonly target: Allocation;
  /** First row in the target. */
  readonly firstRow: number;
}

/** WQEBBs that a transfer takes in its queue. */
export function queueSlots(rows: number): number {
  return Math.ceil(rows / SQE_ROWS_MAX) * SQE_WQEBBS;
}

/** Posts a transfer that is not empty; the returned function drains its completion. */
export function postTransfer(
  engine: Engine,
  ctx: CallContext,
  queue: QueueCounters,
  transfer: IndexedTransfer,
): () => Promise<void> {
  const { input, rows, rowBytes, peer, target, firstRow } = transfer;
  // pieces of a Buffer are Buffers: a socket makes one of anything else, for each piece
  const source = Buffer.from(input.buffer, input.byteOffset, input.byteLength);
  const segmentRows = SQE_ROWS_MAX * DOORBELL_SQES_MAX;
  const locals: (Promise<void> | undefined)[] = [];
  let completion: Promise<void> | undefined;
  for (let start = 0; start < rows.length; start += segmentRows) {
    const segment = rows.subarray(start, start + segmentRows);
    const entries: Uint8Array[] = [];
    for (let row = 0; row < segment.length; row += SQE_ROWS_MAX) {
      entries.push(...encodeEntry(source, rowBytes, segment.subarray(row, row + SQE_ROWS_MAX), queue));
    }
    const offset = (firstRow + start) * rowBytes;
    const pieces = rowBytes < GATHER_COPY_BYTES_MAX ? [merge(entries)] : entries;
    const last = start + segmentRows >= rows.length;
    const written = putRows(engine, ctx, { peer, target, offset, pieces, completion: last });
    queue.doorbells += 1;
    locals.push(written.local);
    completion = written.applied;
  }
  queue.submittedWqeCount += 1;
  return async () => {
    await Promise.all([...locals, completion]);
    queue.cqes += 1;
  };
}

/** One WRITE entry: where its rows lie. Consecutive rows are one piece. */
function encodeEntry(input: Buffer, rowBytes: number, rows: Int32Array, queue: QueueCounters): Uint8Array[] {
  queue.sqes += 1;
  queue.wqebbs += SQE_WQEBBS;
  return runsOf(rows).map(([first, count]) => input.subarray(first * rowBytes, (first + count) * rowBytes));
}

/** Runs of consecutive rows: first row and length. */
export function runsOf(rows: Int32Array): [number, number][] {
  const runs: [number, number][] = [];
  for (const row of rows) {
    const last = runs.at(-1);
    if (last !== undefined && last[0] + last[1] === row) last[1] += 1;
    else runs.push([row, 1]);
  }
  return runs;
}

function merge(pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = pieces.reduce((sum, piece) => sum + piece.byteLength, 0);
  const merged = new Uint8Array(bytes);
  let position = 0;
  for (const piece of pieces) {
    merged.set(piece, position);
    position += piece.byteLength;
  }
  return merged;
}
