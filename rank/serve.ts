/**
 * The progress engine: it serves what peers send, whole frames in their link's order, between two turns of the program.
 *
 * Bounds are checked again, memory changes, waiters wake. What cannot be applied ends the group and names its sender,
 * or closes a foreign client's connection.
 */
import { decodePublication } from "../shared/codec.ts";
import { dtypes, elementBytes } from "../shared/dtype.ts";
import { RankwiseError, toWireError } from "../shared/errors.ts";
import { FrameFlag, type FrameHeader, frameHeader, FrameKind, frameKindName } from "../shared/frame.ts";
import { spanFits } from "../shared/shape.ts";
import type { Engine } from "./engine.ts";
import { type AtomicDType, isAtomicDType, writeSpans } from "./memory/write.ts";
import type { Allocation } from "./memory/registry.ts";
import { gather } from "./memory/spans.ts";
import { type Peer, serialReached } from "./peer.ts";
import { NotifyOp } from "./primitives.ts";
import type { ClientConnection, ClientSink, FrameSink } from "./transport/transport.ts";

/** Serves one rank's memory to its peers and to foreign clients. */
export class FrameServer implements FrameSink {
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  receive(from: number, header: FrameHeader, payload: Uint8Array): void {
    const engine = this.#engine;
    if (engine.ended) return;
    const peer = engine.peer(from);
    try {
      const expected = (peer.received + 1) >>> 0;
      if (header.serial !== expected) {
        throw new RankwiseError("ERR_BAD_FRAME", `frame ${header.serial} arrived where frame ${expected} was due`);
      }
      if (!serialReached(peer.sent, header.ack)) {
        throw new RankwiseError(
          "ERR_BAD_FRAME",
          `frame ${header.ack} is acknowledged, of which only ${peer.sent} were sent`,
        );
      }
      for (const fence of peer.acknowledge(header.ack)) {
        engine.pending.delete(fence.entry);
        fence.done.resolve();
      }
      serveFrame(engine, peer, header, payload);
      peer.received = expected;
      if (header.kind === FrameKind.Fence || (header.flags & FrameFlag.AckNow) !== 0)
        engine.post(peer, frameHeader({ kind: FrameKind.Ack }));
      engine.onFrame?.();
    } catch (error) {
      this.#fail(from, error);
    }
  }

  /** Window memory, the destination of a get, or where a staged block goes, which the payload of a frame fills as one run. */
  place(from: number, header: FrameHeader): Uint8Array | undefined {
    const engine = this.#engine;
    if (engine.ended || engine.faults !== undefined) return undefined;
    if (header.kind === FrameKind.GetReply) {
      const piece = engine.peer(from).gets.get(header.value);
      return piece?.memory?.byteLength === header.rowBytes ? piece.memory : undefined;
    }
    if (header.kind === FrameKind.Stage) {
      const peer = engine.peer(from);
      const bytes = header.rowBytes * header.rows;
      const { ledger } = engine.group(header.group) ?? {};
      const landing = ledger?.landingOf(from, header, bytes);
      peer.staging = { memory: landing ?? engine.arena.scratch(bytes), landed: landing !== undefined };
      return peer.staging.memory;
    }
    const plain = header.kind === FrameKind.Put && header.rows === 1 && (header.flags & FrameFlag.AtomicAdd) === 0;
    const target = plain ? engine.registry.find(header.group, header.window) : undefined;
    const member = header.group === 0 || engine.group(header.group)?.members.includes(from) === true;
    if (target === undefined || target.cells !== undefined || !member) return undefined;
    const { bytes } = target.local;
    return spanFits(header, bytes.byteLength)
      ? bytes.subarray(header.offset, header.offset + header.rowBytes)
      : undefined;
  }

  lost(from: number, error: RankwiseError): void {
    const engine = this.#engine;
    if (!engine.mayClose(from)) engine.fail({ error, call: engine.currentCall(), suspect: from });
  }

  client(connection: ClientConnection): ClientSink {
    const engine = this.#engine;
    let received = 0;
    return {
      receive: (header, payload) => {
        if (engine.ended) return;
        try {
          serveClient(engine, header, payload);
          received = (received + 1) >>> 0;
          if (header.kind === FrameKind.Fence)
            connection.send(frameHeader({ kind: FrameKind.Ack, ack: received }), undefined);
        } catch (error) {
          connection.close(asRankwiseError(error));
        }
      },
    };
  }

  #fail(from: number, cause: unknown): void {
    const engine = this.#engine;
    const error = asRankwiseError(cause);
    const named = new RankwiseError(error.code, `rank ${engine.rank}, frame from rank ${from}: ${error.message}`, {
      ...error.context,
      rank: engine.rank,
      peer: from,
    });
    // a mismatch has no culprit, and a broken invariant is ours
    const blameless = error.code === "ERR_MISMATCH" || error.code === "ERR_INTERNAL";
    engine.fail({ error: named, call: engine.currentCall(), suspect: blameless ? null : from });
  }
}

/** Applies one frame of a peer. */
function serveFrame(engine: Engine, peer: Peer, header: FrameHeader, payload: Uint8Array): void {
  if (header.group !== 0 && touchesMemory(header.kind)) checkMember(engine, peer, header);
  if (header.seq !== 0) engine.group(header.group)?.ledger.observe(peer.rank, header.seq, header.fingerprint);
  switch (header.kind) {
    case FrameKind.Put:
    case FrameKind.Notify:
      applyWrite(engine, peer.rank, header, payload);
      return;
    case FrameKind.Stage:
      applyStage(engine, peer, header, payload);
      return;
    case FrameKind.Get:
      serveGet(engine, peer, header);
      return;
    case FrameKind.GetReply:
      takeReply(engine, peer, header, payload);
      return;
    case FrameKind.Publish:
      engine.publications.publish(peer.rank, header.group, decodePublication(payload));
      return;
    case FrameKind.Free:
      engine.publications.free(peer.rank, header.group, header.window);
      return;
    case FrameKind.Checked:
      engine.peerChecked(header.group, peer.rank);
      return;
    case FrameKind.Goodbye:
      engine.peerSaidGoodbye(peer.rank);
      return;
    case FrameKind.Fence:
    case FrameKind.Ack:
      return;
    case FrameKind.Welcome:
      throw new RankwiseError("ERR_BAD_FRAME", "a second welcome on one link");
  }
}

function touchesMemory(kind: FrameKind): boolean {
  return kind === FrameKind.Put || kind === FrameKind.Get || kind === FrameKind.Notify || kind === FrameKind.Stage;
}

/** Only members reach a group's windows. The world has no strangers. */
function checkMember(engine: Engine, peer: Peer, header: FrameHeader): void {
  if (engine.group(header.group)?.members.includes(peer.rank) === true) return;
  throw new RankwiseError(
    "ERR_FRAME_BOUNDS",
    `${frameKindName(header.kind)} to group ${header.group}, of which rank ${peer.rank} is no member`,
  );
}

/** Flags that a client's frame may carry. */
const CLIENT_FLAGS = FrameFlag.Signal | FrameFlag.SignalAdd | FrameFlag.AtomicAdd;

/** Applies one frame of a foreign client, which may put, notify and fence in the world's windows. */
function serveClient(engine: Engine, header: FrameHeader, payload: Uint8Array): void {
  if (header.kind === FrameKind.Fence) return;
  if (header.kind !== FrameKind.Put && header.kind !== FrameKind.Notify) {
    throw new RankwiseError("ERR_BAD_FRAME", `a client may put, notify and fence, not ${frameKindName(header.kind)}`);
  }
  if (header.group !== 0 || header.seq !== 0 || (header.flags & CLIENT_FLAGS) !== header.flags) {
    throw new RankwiseError(
      "ERR_BAD_FRAME",
      `a client reaches the world's windows, outside of any call: group ${header.group}, seq ${header.seq}, flags ${header.flags}`,
    );
  }
  applyWrite(engine, -1, header, payload);
}

/** A put, with or without its signal, or a notify. Everything is checked before anything changes. */
function applyWrite(engine: Engine, from: number, header: FrameHeader, payload: Uint8Array): void {
  const target = header.kind === FrameKind.Put ? checkedTarget(engine, header) : undefined;
  const atomic = target === undefined ? undefined : checkedAtomic(target, header);
  const signal = (header.flags & FrameFlag.Signal) === 0 ? undefined : checkedSignal(engine, header);
  if (header.kind === FrameKind.Notify && signal === undefined) {
    throw new RankwiseError("ERR_BAD_FRAME", "a notify that changes no cell");
  }
  const op = (header.flags & FrameFlag.SignalAdd) === 0 ? NotifyOp.Set : NotifyOp.AtomicAdd;
  signal?.cells?.checkKind(header.cell, op);
  if (target !== undefined) {
    writeSpans(target, [header], engine.faults?.received(payload) ?? payload, atomic);
    engine.counters.payloadBytesReceived += payload.byteLength;
  }
  if ((header.flags & FrameFlag.Note) !== 0) engine.group(header.group)?.ledger.note(from, header.seq, header.rows);
  signal?.cells?.apply(header.cell, op, header.value, from);
}

/** A block for a builtin call, kept until the call takes it, and the credit that says so. */
function applyStage(engine: Engine, peer: Peer, header: FrameHeader, payload: Uint8Array): void {
  const { ledger } = engine.group(header.group) ?? {};
  const signal = (header.flags & FrameFlag.Signal) === 0 ? undefined : checkedSignal(engine, header);
  if (ledger === undefined || signal === undefined || (header.flags & FrameFlag.SignalAdd) === 0) {
    throw new RankwiseError("ERR_BAD_FRAME", "a staged block without the credit of a call");
  }
  signal.cells?.checkKind(header.cell, NotifyOp.AtomicAdd);
  const arrived = engine.faults?.received(payload) ?? payload;
  let [block, landed] = [arrived, peer.staging?.landed ?? false];
  if (arrived !== peer.staging?.memory) {
    // it came in memory that is lent for the time of this call
    const landing = ledger.landingOf(peer.rank, header, arrived.byteLength);
    landed = landing !== undefined;
    block = landing ?? engine.arena.scratch(arrived.byteLength);
    block.set(arrived);
  }
  peer.staging = undefined;
  ledger.stage(peer.rank, header, block, landed);
  engine.counters.payloadBytesReceived += payload.byteLength;
  signal.cells?.apply(header.cell, NotifyOp.AtomicAdd, header.value, peer.rank);
}

function serveGet(engine: Engine, peer: Peer, header: FrameHeader): void {
  const source = engine.registry.lookup(header.group, header.window);
  checkSpan(engine, source, header);
  const { packed } = gather(source.local.bytes, [header]);
  const reply = frameHeader({
    kind: FrameKind.GetReply,
    group: header.group,
    window: header.window,
    rowBytes: packed.byteLength,
    rows: 1,
    value: header.value,
  });
  engine.counters.payloadBytesSent += packed.byteLength;
  engine.post(peer, reply, packed);
}

function takeReply(engine: Engine, peer: Peer, header: FrameHeader, payload: Uint8Array): void {
  const piece = peer.gets.get(header.value);
  if (piece === undefined || piece.bytes !== payload.byteLength) {
    throw new RankwiseError(
      "ERR_BAD_FRAME",
      `a reply of ${payload.byteLength} bytes to get ${header.value}, which ${piece === undefined ? "is not pending" : `asked for ${piece.bytes}`}`,
    );
  }
  peer.gets.delete(header.value);
  peer.getBytesInFlight -= piece.bytes;
  if (payload !== piece.memory) piece.place(payload);
  engine.counters.payloadBytesReceived += payload.byteLength;
  piece.done.resolve();
  peer.sendQueuedGets();
}

function checkedTarget(engine: Engine, header: FrameHeader): Allocation {
  const target = engine.registry.lookup(header.group, header.window);
  if (target.cells !== undefined) {
    throw new RankwiseError("ERR_NOT_A_SIGNAL", `put into signal "${target.name}": only notify changes a signal`);
  }
  checkSpan(engine, target, header);
  return target;
}

/** The dtype of an atomic put (undefined for a plain one), which must be the window's, in whole elements. */
function checkedAtomic(target: Allocation, header: FrameHeader): AtomicDType | undefined {
  if ((header.flags & FrameFlag.AtomicAdd) === 0) return undefined;
  const { dtype } = target;
  const size = elementBytes(dtype);
  const whole = [header.offset, header.rowBytes, header.strideBytes].every((bytes) => bytes % size === 0);
  if (isAtomicDType(dtype) && dtypes[dtype].code === header.dtype && whole) return dtype;
  throw new RankwiseError(
    "ERR_BAD_FRAME",
    `atomic put of dtype code ${header.dtype}, ${header.rowBytes} bytes a row at byte ${header.offset}, into ${dtype} window "${target.name}"`,
    { window: target.name, offset: header.offset },
  );
}

function checkedSignal(engine: Engine, header: FrameHeader): Allocation {
  const signal = engine.registry.lookup(header.group, header.signal);
  if (signal.cells === undefined) {
    throw new RankwiseError("ERR_NOT_A_SIGNAL", `notify of window "${signal.name}": only signals are notified`);
  }
  if (header.cell >= signal.local.array.length) {
    throw new RankwiseError(
      "ERR_FRAME_BOUNDS",
      `notify: cell ${header.cell} is outside signal "${signal.name}" with ${signal.local.array.length} cells`,
      { window: signal.name, offset: header.cell },
    );
  }
  return signal;
}

function checkSpan(engine: Engine, target: Allocation, header: FrameHeader): void {
  const bytes = target.local.bytes.byteLength;
  // many rows without bytes would be billions of turns of a loop that moves nothing
  const idle = header.rows > 1 && header.rowBytes === 0;
  if (spanFits(header, bytes) && !idle) return;
  throw new RankwiseError(
    "ERR_FRAME_BOUNDS",
    `${frameKindName(header.kind)}: ${header.rows} × ${header.rowBytes} bytes at byte ${header.offset} (stride ${header.strideBytes}) exceed window "${target.name}" of ${bytes} bytes on rank ${engine.rank}`,
    { window: target.name, offset: header.offset },
  );
}

function asRankwiseError(error: unknown): RankwiseError {
  if (error instanceof RankwiseError) return error;
  return new RankwiseError("ERR_INTERNAL", toWireError(error).message, {}, error);
}
