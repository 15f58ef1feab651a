import { Duplex } from "node:stream";
import { beforeEach, describe, expect, it } from "vitest";
import { LinkSender, Turn } from "../../../../../rank/transport/websocket/sender.ts";
import { SNAPSHOT_BYTES_MAX } from "../../../../../shared/constants.ts";
import { frameHeader, FrameKind } from "../../../../../shared/frame.ts";
import { type Counters, zeroCounters } from "../../../../../shared/messages.ts";
import { expectRefusal, settled } from "../../../../helpers/sim.ts";

/** A socket whose kernel takes bytes only when the test says so. */
class SlowSocket extends Duplex {
  readonly writes: Buffer[] = [];
  #taken: (() => void)[] = [];

  constructor() {
    super({ writableHighWaterMark: 16 });
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, callback: () => void): void {
    this.#take([chunk], callback);
  }

  override _writev(chunks: { chunk: Buffer }[], callback: () => void): void {
    this.#take(
      chunks.map(({ chunk }) => chunk),
      callback,
    );
  }

  /** Takes what stands in the current write. */
  async flush(): Promise<void> {
    for (const callback of this.#taken.splice(0)) callback();
    await new Promise(setImmediate);
  }

  #take(chunks: Buffer[], callback: () => void): void {
    this.writes.push(Buffer.concat(chunks));
    this.#taken.push(callback);
  }
}

const limits = {
  framePayloadBytes: 2 ** 26,
  linkQueueBytes: 10_000,
  linkQueueFrames: 5,
  getInFlightBytes: 2 ** 26,
  meshChunkBytes: 2 ** 23,
};

let socket: SlowSocket;
let counters: Counters;
let sender: LinkSender;
beforeEach(() => {
  socket = new SlowSocket();
  counters = zeroCounters();
  sender = new LinkSender(socket, 3, counters, limits);
});

let serial = 0;
const send = (payload?: Uint8Array, exempt = false): Promise<void> | undefined => {
  const header = frameHeader({ kind: FrameKind.Put, rows: 1, rowBytes: payload?.byteLength ?? 0, serial: ++serial });
  return sender.send(header, payload, exempt);
};

describe("LinkSender", () => {
  it("shares its turn with the other links of the rank: each lets its first frame go, and its next ones at the end", async () => {
    const turn = new Turn();
    const sockets = [new SlowSocket(), new SlowSocket()];
    const links = sockets.map((each, peer) => new LinkSender(each, peer, counters, limits, turn));
    const frame = (): void => {
      for (const link of links) void link.send(frameHeader({ kind: FrameKind.Notify }), undefined, false);
    };
    const writes = (): number[] => sockets.map((each) => each.writes.length);
    for (const round of [0, 1]) {
      for (let i = 0; i < 3; i++) frame();
      expect(writes()).toEqual([2 * round + 1, 2 * round + 1]);
      for (const each of sockets) await each.flush();
      expect(writes()).toEqual([2 * round + 2, 2 * round + 2]);
      for (const each of sockets) await each.flush();
    }
  });

  it("lets the first frame of a turn go at once, and those behind it together when something is awaited", async () => {
    for (let i = 0; i < 3; i++) void send(new Uint8Array(8));
    expect(socket.writes).toHaveLength(1);
    await socket.flush();
    expect(socket.writes).toHaveLength(2);
    expect(socket.writes[1]).toHaveLength(2 * (socket.writes[0]?.byteLength ?? 0));
    await socket.flush();
    await send(new Uint8Array(8));
    await send(new Uint8Array(8));
    expect(socket.writes).toHaveLength(3); // what is awaited is not held back for what follows
    await socket.flush();
    expect(socket.writes).toHaveLength(4);
  });

  it("copies a small payload at the call: the source may change at once", async () => {
    const payload = new Uint8Array(SNAPSHOT_BYTES_MAX).fill(7);
    const done = send(payload);
    payload.fill(9);
    if (done !== undefined) expect(await settled(done)).toBe(true);
    expect(socket.writes[0]?.at(-1)).toBe(7);
  });

  it("reads a large payload until its bytes are taken, and is local then", async () => {
    const payload = new Uint8Array(SNAPSHOT_BYTES_MAX + 1).fill(7);
    const done = send(payload)!;
    expect(await settled(done)).toBe(false);
    await socket.flush();
    await done;
  });

  // a pong that ws writes between the parts of a frame would land inside it
  it("writes head and payload of a frame in one turn, as one vectored write", async () => {
    void send(new Uint8Array(5000));
    socket.write("pong");
    await socket.flush();
    await socket.flush();
    const bytes = Buffer.concat(socket.writes);
    // 4 bytes of WebSocket header, 64 of frame header, the payload, and only then the pong
    expect(bytes.subarray(4 + 64 + 5000).toString()).toBe("pong");
  });

  it("queues in order behind linkQueueBytes unflushed bytes, whatever is exempt", async () => {
    const first = send(new Uint8Array(20_000))!;
    const small = send(Uint8Array.of(1));
    const exempt = send(Uint8Array.of(2), true);
    const large = send(new Uint8Array(6000).fill(3))!;
    expect(counters.framesSent).toBe(1);
    expect(await settled(first)).toBe(false);
    expect(await settled(large)).toBe(false);
    for (let i = 0; i < 5; i++) await socket.flush();
    await Promise.all([first, small, exempt, large]);
    expect(counters.framesSent).toBe(4);
    const bytes = Buffer.concat(socket.writes);
    expect(bytes.byteLength).toBe(counters.wireBytesSent);
    // where the four frame headers start, behind WebSocket headers of 4, 2, 2 and 4 bytes; a serial stands 4 bytes further
    const starts = [4, 20_070, 20_137, 20_206];
    const serials = starts.map((start) => bytes.readUInt32LE(start + 4));
    expect(serials).toEqual([serial - 3, serial - 2, serial - 1, serial]);
  });

  it("refuses to queue more than linkQueueFrames, but takes what is exempt", async () => {
    void send(new Uint8Array(20_000));
    for (let i = 0; i < limits.linkQueueFrames; i++) void send(Uint8Array.of(1));
    const error = await expectRefusal(() => send(Uint8Array.of(1)), "ERR_QUEUE_FULL");
    expect(error.message).toContain("link to rank 3");
    expect(error.message).toContain("await puts and notifies");
    expect(error.context.peer).toBe(3);
    void send(Uint8Array.of(1), true);
    for (let i = 0; i < 8; i++) await socket.flush();
    expect(counters.framesSent).toBe(limits.linkQueueFrames + 2);
    expect(() => void send(Uint8Array.of(1))).not.toThrow();
  });

  it("writes a payload of several pieces as one frame, complete with its last piece", async () => {
    const pieces = [1, 2, 3].map((byte) => new Uint8Array(3000).fill(byte));
    const header = frameHeader({ kind: FrameKind.Put, rows: 1, rowBytes: 9000 });
    const done = sender.send(header, pieces, false)!;
    expect(await settled(done)).toBe(false);
    for (let i = 0; i < 3; i++) await socket.flush();
    await done;
    const bytes = Buffer.concat(socket.writes);
    expect(bytes.byteLength).toBe(4 + 64 + 9000);
    expect([bytes[68], bytes[68 + 3000], bytes[68 + 6000]]).toEqual([1, 2, 3]);
    expect(counters).toMatchObject({ framesSent: 1, wireBytesSent: 4 + 64 + 9000 });
  });

  it("leaves a broken socket alone: who waits is told by the link's end", async () => {
    socket.on("error", () => {});
    const done = send(new Uint8Array(8000))!;
    void send(new Uint8Array(8000));
    void send(Uint8Array.of(1));
    socket.destroy(new Error("reset"));
    expect(await settled(done)).toBe(false);
  });
});
