/** The requesting side of a get: pieces of at most a frame, few enough in flight. */
import { deferred } from "../shared/async.ts";
import { type FrameHeader, FrameKind } from "../shared/frame.ts";
import { cutSpan, type Span, spanBytes } from "../shared/shape.ts";
import type { Engine } from "./engine.ts";
import type { CallContext } from "./group.ts";
import { contextHeader } from "./headers.ts";
import type { Block } from "./issue.ts";
import type { Allocation } from "./memory/registry.ts";
import { gather, scatter } from "./memory/spans.ts";
import type { GetPiece, Peer } from "./peer.ts";
import { tracked, waitRow } from "./waits.ts";

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
