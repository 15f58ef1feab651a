/** Broken input for handshakes and frames: recorded bytes, changed at random, and what must come of them. */
import { randomBytes } from "node:crypto";
import { connect, type Socket } from "node:net";
import { FrameServer } from "../../rank/serve.ts";
import { decodeHello, decodeMessage, decodePublication, encodeHello, encodeMessage } from "../../shared/codec.ts";
import { FRAME_HEADER_BYTES, PROTOCOL_VERSION } from "../../shared/constants.ts";
import { isErrorCode, RankwiseError } from "../../shared/errors.ts";
import { decodeHeader, encodeHeader, FrameFlag, type FrameHeader, frameHeader, FrameKind } from "../../shared/frame.ts";
import type { MessageType } from "../../shared/messages.ts";
import type { Random } from "../../shared/random.ts";
import { sampleMessages } from "./messages.ts";
import { Rig } from "./sim.ts";

/** Longest time that one broken connection is held open. */
const CONNECTION_MS_MAX = 40;

/** Some bytes of an input changed, taken out, doubled or put in, or its end cut off. */
function mutate(random: Random, bytes: Uint8Array): Uint8Array {
  let result = [...bytes];
  for (let change = random.below(4); change >= 0; change--) {
    const at = random.below(result.length + 1);
    const length = random.below(8) + 1;
    switch (random.below(6)) {
      case 0:
        result[at] = random.below(256);
        break;
      case 1:
        result[at] = (result[at] ?? 0) ^ (1 << random.below(8));
        break;
      case 2:
        result.splice(at, length);
        break;
      case 3:
        result.splice(at, 0, ...result.slice(at, at + length));
        break;
      case 4:
        result.splice(at, 0, ...Array.from({ length }, () => random.below(256)));
        break;
      default:
        result = result.slice(0, at);
    }
  }
  return Uint8Array.from(result);
}

/** Decodes changed control messages and handshakes; every refusal must be an error of ours with a reason. */
export function fuzzMessages(random: Random, runs: number): void {
  const types = Object.keys(sampleMessages) as MessageType[];
  const hello = encodeHello({ version: PROTOCOL_VERSION, role: "peer", job: "job-1", epoch: 0, rank: 1 });
  for (let run = 0; run < runs; run++) {
    const type = types[random.below(types.length)] as MessageType;
    const bytes = mutate(random, random.below(3) === 0 ? hello : encodeMessage(sampleMessages[type]));
    for (const decode of [
      () => decodeMessage(bytes, types),
      () => decodeHello(bytes),
      () => decodePublication(bytes),
    ]) {
      try {
        decode();
      } catch (error) {
        expectReason(error, bytes);
      }
    }
  }
}

/**
 * Feeds changed frames to a rank. What does not fit must end the group with its reason; what fits may change the
 * window and the cell that it names, and nothing else.
 */
export async function fuzzFrames(random: Random, runs: number): Promise<void> {
  let stage = await makeStage();
  for (let run = 0; run < runs; run++) {
    const serial = stage.received + 1;
    const bytes = mutateFrame(random, stage.frames[random.below(stage.frames.length)] as Uint8Array, serial);
    let header: FrameHeader;
    try {
      header = decodeHeader(bytes);
    } catch (error) {
      expectReason(error, bytes);
      continue;
    }
    const before = stage.snapshot();
    stage.server.receive(0, header, bytes.subarray(FRAME_HEADER_BYTES));
    stage.received += 1;
    const changed = stage.changed(before);
    const [failure] = stage.rig.failures;
    if (failure !== undefined) {
      expectReason(failure.error, bytes);
      if (changed.length > 0) throw new Error(`refused, and yet it changed ${changed.join(", ")}: ${hex(bytes)}`);
      stage = await makeStage();
      continue;
    }
    const named = [header.window, header.signal].map((ordinal) => stage.names[ordinal]);
    const others = changed.filter((name) => !named.includes(name));
    if (others.length > 0) throw new Error(`changed ${others.join(", ")}: ${hex(bytes)}`);
    stage.rig.sent.length = 0;
  }
}

interface Stage {
  readonly rig: Rig;
  readonly server: FrameServer;
  readonly names: readonly string[];
  readonly frames: readonly Uint8Array[];
  received: number;
  snapshot(): readonly Uint8Array[];
  changed(before: readonly Uint8Array[]): string[];
}

async function makeStage(): Promise<Stage> {
  const rig = new Rig({ rank: 1, nranks: 3 });
  const windows = [await rig.window("before", "int32", [4, 4]), await rig.window("data", "int32", [4, 4])];
  const signal = await rig.signal("signal", [3, 1]);
  const after = await rig.window("after", "int32", [4, 4]);
  const memory = [...windows, signal, after].map(({ local }) => {
    return new Uint8Array(local.array.buffer, local.array.byteOffset, local.array.byteLength);
  });
  return {
    rig,
    // its own count of what has come, since the rig has fed frames of other senders only
    server: new FrameServer(rig.engine),
    names: ["before", "data", "signal", "after"],
    frames: recordedFrames(),
    received: rig.engine.peer(0).received,
    snapshot: () => memory.map((bytes) => bytes.slice()),
    changed: (before) => ["before", "data", "signal", "after"].filter((_, at) => !same(memory[at], before[at])),
  };
}

/** One good frame of each kind, as rank 0 sends them to rank 1. */
function recordedFrames(): Uint8Array[] {
  const span = { window: 1, offset: 16, rows: 2, rowBytes: 8, strideBytes: 16 };
  const frames: [Partial<FrameHeader> & { kind: FrameKind }, number][] = [
    [{ kind: FrameKind.Put, ...span }, 16],
    [{ kind: FrameKind.Put, ...span, flags: FrameFlag.Signal | FrameFlag.SignalAdd, signal: 2, cell: 1, value: 1 }, 16],
    [{ kind: FrameKind.Notify, flags: FrameFlag.Signal, signal: 2, cell: 2, value: 7 }, 0],
    [{ kind: FrameKind.Get, ...span, value: 1 }, 0],
    [{ kind: FrameKind.GetReply, window: 1, rows: 1, rowBytes: 16, value: 1 }, 16],
    [{ kind: FrameKind.Fence }, 0],
    [{ kind: FrameKind.Ack }, 0],
    [{ kind: FrameKind.Checked }, 0],
    [{ kind: FrameKind.Publish, window: 9 }, 20],
    [{ kind: FrameKind.Free, window: 1 }, 0],
    [{ kind: FrameKind.Goodbye }, 0],
    [
      {
        kind: FrameKind.Stage,
        rows: 1,
        rowBytes: 16,
        seq: 1,
        round: 1,
        flags: FrameFlag.Signal | FrameFlag.SignalAdd,
        signal: 2,
        cell: 1,
        value: 1,
      },
      16,
    ],
  ];
  return frames.map(([fields, payloadBytes]) => frameBytes(fields, payloadBytes));
}

function frameBytes(fields: Partial<FrameHeader> & { kind: FrameKind }, payloadBytes: number): Uint8Array {
  const bytes = new Uint8Array(FRAME_HEADER_BYTES + payloadBytes).fill(0xa5);
  encodeHeader(frameHeader(fields), new DataView(bytes.buffer), 0);
  return bytes;
}

/** Most changed frames keep their serial: a rank refuses any other before it looks further. */
function mutateFrame(random: Random, frame: Uint8Array, serial: number): Uint8Array {
  const bytes = mutate(random, frame);
  if (random.below(20) === 0 || bytes.byteLength < FRAME_HEADER_BYTES) return bytes;
  try {
    const header = { ...decodeHeader(bytes), serial };
    encodeHeader(header, new DataView(bytes.buffer), 0);
  } catch {
    // it is refused for another reason
  }
  return bytes;
}

/** Where a listener of ours is, and what lets one in. */
export interface Target {
  readonly port: number;
  readonly token: string;
  readonly path: string;
  /** First message of a good connection, and one behind it. */
  readonly hello: Uint8Array;
  readonly next: Uint8Array;
}

/** How a connection with broken bytes ended: `held` until we closed it, or closed with what had been answered. */
export interface BrokenConnection {
  readonly held: boolean;
  readonly answer: string;
}

/** Opens a connection and sends a changed stream: request, hello and a further message, in one go. */
export async function sendBroken(random: Random, target: Target): Promise<BrokenConnection> {
  const stream = Buffer.concat([request(target), masked(target.hello), masked(target.next)]);
  const bytes = mutate(random, stream);
  const socket = connect(target.port, "127.0.0.1");
  let answer = "";
  socket.on("data", (chunk: Buffer) => (answer += chunk.toString("latin1")));
  socket.on("error", () => undefined); // reset is an answer, too
  socket.write(bytes);
  const held = await Promise.race([closed(socket), timeout()]);
  socket.destroy();
  return { held, answer };
}

function request({ path, token, port }: Target): Buffer {
  const key = randomBytes(16).toString("base64");
  return Buffer.from(
    `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
      `Sec-WebSocket-Key: ${key}\r\nSec-WebSocket-Version: 13\r\nAuthorization: Bearer ${token}\r\n\r\n`,
  );
}

/** A message as a client sends it: masked, with a mask of zeros. */
function masked(message: Uint8Array): Buffer {
  const { byteLength } = message;
  const head =
    byteLength < 126
      ? Buffer.from([0x82, 0x80 | byteLength])
      : Buffer.from([0x82, 0x80 | 126, byteLength >> 8, byteLength & 0xff]);
  return Buffer.concat([head, Buffer.alloc(4), message]);
}

function closed(socket: Socket): Promise<false> {
  return new Promise((resolve) => socket.once("close", () => resolve(false)));
}

function timeout(): Promise<true> {
  return new Promise((resolve) => setTimeout(() => resolve(true), CONNECTION_MS_MAX));
}

function expectReason(error: unknown, bytes: Uint8Array): void {
  if (
    error instanceof RankwiseError &&
    isErrorCode(error.code) &&
    error.message !== "" &&
    error.code !== "ERR_INTERNAL"
  ) {
    return;
  }
  throw new Error(`refused without a reason of ours: ${hex(bytes)}`, { cause: error });
}

function same(a: Uint8Array | undefined, b: Uint8Array | undefined): boolean {
  return a !== undefined && b !== undefined && Buffer.compare(a, b) === 0;
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
