import { once } from "node:events";
import type { AddressInfo, Socket } from "node:net";
import { describe, expect, it, vi } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { dial, type ReceivePath } from "../../../../../rank/transport/websocket/receiver.ts";
import { frameHead } from "../../../../../rank/transport/websocket/wire.ts";
import { decodeHello } from "../../../../../shared/codec.ts";
import { FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES_MAX, PROTOCOL_VERSION } from "../../../../../shared/constants.ts";
import type { RankwiseError } from "../../../../../shared/errors.ts";
import { frameHeader, FrameKind } from "../../../../../shared/frame.ts";
import { errorOf } from "../../../../helpers/sim.ts";
import { identity, Links, RecordingSink } from "../../../../helpers/links.ts";

const ack = (serial: number): Buffer => frameHead(frameHeader({ kind: FrameKind.Ack, serial }), 0, undefined);
const welcome = frameHead(frameHeader({ kind: FrameKind.Welcome }), 0, undefined);

/** A server that answers a hello as the test likes, byte by byte. */
class FakePeer implements AsyncDisposable {
  readonly #server = new WebSocketServer({ port: 0, host: "127.0.0.1", perMessageDeflate: false });
  readonly hellos: unknown[] = [];
  readonly authorizations: (string | undefined)[] = [];

  constructor(answer: (socket: Socket, connection: WebSocket) => void) {
    this.#server.on("connection", (connection, request) => {
      this.authorizations.push(request.headers.authorization);
      connection.on("error", () => {});
      connection.on("message", (data: Buffer) => {
        this.hellos.push(decodeHello(data));
        answer(request.socket, connection);
      });
    });
  }

  async address(): Promise<string> {
    if (this.#server.address() === null) await once(this.#server, "listening");
    return `ws://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async dial(sink: RecordingSink, path: ReceivePath): Promise<WebSocket> {
    return await dial(1, await this.address(), identity, sink, performance.now() + 5000, path);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const connection of this.#server.clients) connection.terminate();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** The error by which an open link ends. */
async function lossAfter(path: ReceivePath, bytes: Buffer): Promise<{ error: RankwiseError; sink: RecordingSink }> {
  await using peer = new FakePeer((socket) => socket.write(Buffer.concat([welcome, ack(1), bytes])));
  const sink = new RecordingSink();
  await peer.dial(sink, path);
  await vi.waitFor(() => expect(sink.losses).toHaveLength(1));
  expect(sink.losses[0]?.peer).toBe(1);
  return { error: sink.losses[0]!.error, sink };
}

/** A WebSocket frame of a server with this opcode byte. */
const raw = (first: number, payload: Uint8Array): Buffer =>
  Buffer.concat([Buffer.of(first, payload.byteLength), payload]);

const paths: ReceivePath[] = ["reference", "direct"];

describe.each(paths)("%s path", (path) => {
  describe("dial", () => {
    it("says hello with the token and who it is, and resolves with the welcome", async () => {
      await using peer = new FakePeer((socket) => socket.write(welcome));
      const sink = new RecordingSink();
      const link = await peer.dial(sink, path);
      expect(peer.authorizations).toEqual(["Bearer s3cret"]);
      expect(peer.hellos).toEqual([{ version: PROTOCOL_VERSION, role: "peer", job: "job-1", epoch: 3, rank: 0 }]);
      expect(sink.arrivals).toEqual([]);
      link.terminate();
    });

    it("delivers frames that come in one piece with the welcome, in order", async () => {
      await using peer = new FakePeer((socket) => socket.write(Buffer.concat([welcome, ack(1), ack(2), ack(3)])));
      const sink = new RecordingSink();
      const link = await peer.dial(sink, path);
      await vi.waitFor(() => expect(sink.arrivals.map(({ header }) => header.serial)).toEqual([1, 2, 3]));
      link.terminate();
    });

    it("reads frames that come byte by byte", async () => {
      const payload = Buffer.from("payload");
      const put = frameHead(frameHeader({ kind: FrameKind.Put, rows: 1, rowBytes: 7 }), 7, payload);
      await using peer = new FakePeer((socket) => {
        socket.setNoDelay(true);
        void (async () => {
          for (const byte of Buffer.concat([welcome, put])) {
            socket.write(Buffer.of(byte));
            await new Promise(setImmediate);
          }
        })();
      });
      const sink = new RecordingSink();
      const link = await peer.dial(sink, path);
      await vi.waitFor(() => expect(sink.arrivals).toHaveLength(1));
      expect(Buffer.from(sink.arrivals[0]!.payload).toString()).toBe("payload");
      link.terminate();
    });

    it("takes no other frame for the welcome", async () => {
      await using peer = new FakePeer((socket) => socket.write(ack(1)));
      const error = await errorOf(() => peer.dial(new RecordingSink(), path));
      expect(error).toMatchObject({
        code: "ERR_BAD_FRAME",
        message: "link from rank 1: the first frame of a link must be its welcome",
        context: { peer: 1 },
      });
    });

    it("tells the reason for which it was refused", async () => {
      await using links = new Links();
      const { transport } = await links.open({ rank: 1, epoch: 4 });
      const error = await errorOf(() =>
        dial(1, transport.address, identity, new RecordingSink(), performance.now() + 5000, path),
      );
      expect(error.code).toBe("ERR_PEER_LOST");
      expect(error.message).toContain("ERR_STALE_EPOCH: hello of epoch 3 in epoch 4");
      expect(error.context).toEqual({ peer: 1 });
    });

    it("tells of a wrong token", async () => {
      await using links = new Links();
      const { transport } = await links.open({ rank: 1, token: "another" });
      const error = await errorOf(() =>
        dial(1, transport.address, identity, new RecordingSink(), performance.now() + 5000, path),
      );
      expect(error.message).toContain("link from rank 1: Unexpected server response: 401");
    });

    // pytorch #73682: a peer that is not there yet is no failure
    it("dials a peer that does not listen yet until it does", async () => {
      await using links = new Links();
      const directory = await links.directory();
      const { WebSocketTransport } = await import("../../../../../rank/transport/websocket/transport.ts");
      const sink = new RecordingSink();
      const later = { ...identity, rank: 1 };
      const first = await links.open(later, "unix");
      const { address } = first.transport;
      await first.transport.close();
      const dialled = dial(1, address, identity, sink, performance.now() + 10_000, path);
      const transport = await WebSocketTransport.open(
        { identity: later, listen: { directory }, joinTimeoutMs: 1000, counters: first.counters },
        sink,
      );
      expect(transport.address).toBe(address);
      (await dialled).terminate();
      await transport.close();
    });

    it("gives up at its deadline, naming the peer", async () => {
      await using links = new Links();
      const { transport } = await links.open({ rank: 1 });
      const { address } = transport;
      await transport.close();
      const error = await errorOf(() => dial(1, address, identity, new RecordingSink(), performance.now() + 150, path));
      expect(error).toMatchObject({ code: "ERR_PEER_LOST", context: { peer: 1 } });
      expect(error.message).toContain("ECONNREFUSED");
    });
  });

  describe("an open link", () => {
    it("ends with what is no frame, and delivers nothing behind it", async () => {
      const { error, sink } = await lossAfter(path, Buffer.concat([raw(0x82, Buffer.from("no frame")), ack(2)]));
      expect(error).toMatchObject({ code: "ERR_BAD_FRAME", context: { peer: 1 } });
      expect(error.message).toBe("link from rank 1: frame: 8 bytes are shorter than the header of 64");
      expect(sink.arrivals.map(({ header }) => header.serial)).toEqual([1]);
    });

    it("ends with a text message", async () => {
      const { error } = await lossAfter(path, raw(0x81, Buffer.from("text")));
      expect(error).toMatchObject({ code: "ERR_BAD_FRAME" });
      expect(error.message).toContain("text message where a frame was due");
    });

    it("ends with a masked frame, and with a reserved bit", async () => {
      const masked = Buffer.concat([Buffer.of(0x82, 0x81, 1, 2, 3, 4, 5)]);
      for (const bytes of [masked, raw(0xc2, Buffer.of(1)), raw(0x83, Buffer.of(1))]) {
        expect((await lossAfter(path, bytes)).error.code).toBe("ERR_BAD_FRAME");
      }
    });

    // ws #2224: a frame above the limit must not be retried for ever; its announcement alone ends the link
    it("ends with the announcement of a frame above the limit", async () => {
      const announcement = Buffer.alloc(10);
      announcement.set([0x82, 127]);
      announcement.writeBigUInt64BE(BigInt(FRAME_HEADER_BYTES + FRAME_PAYLOAD_BYTES_MAX + 1), 2);
      const { error } = await lossAfter(path, announcement);
      expect(error).toMatchObject({ code: "ERR_FRAME_TOO_LARGE", context: { peer: 1 } });
      expect(error.message).toContain("FRAME_PAYLOAD_BYTES_MAX");
    });

    it("ends with its close, by frame or by socket", async () => {
      const closeFrame = Buffer.concat([Buffer.of(0x88, 2 + 5, 0x03, 0xe8), Buffer.from("enjoy")]);
      const { error } = await lossAfter(path, closeFrame);
      expect(error).toMatchObject({ code: "ERR_PEER_LOST", context: { peer: 1 } });
      expect(error.message).toBe("the link from rank 1 closed without a goodbye (enjoy)");

      await using peer = new FakePeer((socket) => {
        socket.write(welcome);
        setImmediate(() => socket.destroy());
      });
      const sink = new RecordingSink();
      await peer.dial(sink, path);
      await vi.waitFor(() => expect(sink.losses.map((loss) => loss.error.code)).toEqual(["ERR_PEER_LOST"]));
    });

    it("answers pings, also between two frames", async () => {
      const pongs: string[] = [];
      await using peer = new FakePeer((socket, connection) => {
        connection.on("pong", (data) => pongs.push(data.toString()));
        socket.write(Buffer.concat([welcome, ack(1), raw(0x89, Buffer.from("are you there")), ack(2)]));
      });
      const sink = new RecordingSink();
      const link = await peer.dial(sink, path);
      await vi.waitFor(() => expect(pongs).toEqual(["are you there"]));
      await vi.waitFor(() => expect(sink.arrivals).toHaveLength(2));
      link.terminate();
    });
  });
});
