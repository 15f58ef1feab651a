import { request } from "node:http";
import { connect } from "node:net";
import { once } from "node:events";
import { describe, expect, it, vi } from "vitest";
import type { WebSocket } from "ws";
import { Listener } from "../../../../../rank/transport/websocket/listener.ts";
import { encodeHello } from "../../../../../shared/codec.ts";
import {
  CLOSE_CODES,
  FRAME_HEADER_BYTES,
  HANDSHAKES_MAX,
  HELLO_BYTES_MAX,
  PROTOCOL_VERSION,
} from "../../../../../shared/constants.ts";
import { decodeHeader, encodeHeader, type FrameHeader, frameHeader, FrameKind } from "../../../../../shared/frame.ts";
import { expectRefusal } from "../../../../helpers/sim.ts";
import { closeOf, identity, type LinkEnd, Links, peerHello, RecordingSink } from "../../../../helpers/links.ts";

const frame = (fields: Partial<FrameHeader> & { kind: FrameKind }, payloadBytes = 0): Uint8Array => {
  const bytes = new Uint8Array(FRAME_HEADER_BYTES + payloadBytes);
  encodeHeader(frameHeader(fields), new DataView(bytes.buffer), 0);
  return bytes;
};

/** Dials, sends something first, and returns how the connection ended. */
async function refusedAfter(
  links: Links,
  end: LinkEnd,
  first: Uint8Array | string,
): Promise<{ code: number; reason: string }> {
  const socket = links.dial(end);
  const closed = closeOf(socket);
  await once(socket, "open");
  socket.send(first);
  return await closed;
}

const clientHello = (): Uint8Array => encodeHello({ version: PROTOCOL_VERSION, role: "client", job: identity.job });

/** A client whose hello has passed. */
async function client(links: Links, end: LinkEnd): Promise<WebSocket> {
  const socket = links.dial(end);
  await once(socket, "open");
  const before = end.sink.clients.length;
  socket.send(clientHello());
  await vi.waitFor(() => expect(end.sink.clients).toHaveLength(before + 1));
  return socket;
}

/** HTTP status of an upgrade with these headers. */
async function upgradeStatus(end: LinkEnd, headers: Record<string, string>): Promise<number> {
  const url = end.transport.address.replace("ws:", "http:");
  const upgrade = request(url, { headers: { connection: "Upgrade", upgrade: "websocket", ...headers } });
  upgrade.end();
  const [response] = (await Promise.race([once(upgrade, "response"), once(upgrade, "upgrade")])) as [
    { statusCode: number; resume(): void },
  ];
  response.resume();
  return response.statusCode;
}

const websocketHeaders = { "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==", "sec-websocket-version": "13" };

describe("the first gate", () => {
  it.each([null, "", "wrong", `${identity.token}x`])("is 401 for the token %o", async (token) => {
    await using links = new Links();
    const end = await links.open();
    const socket = links.dial(end, token);
    const [error] = (await once(socket, "error")) as [Error];
    expect(error.message).toBe("Unexpected server response: 401");
    expect(end.sink.clients).toEqual([]);
  });

  it("answers plain HTTP with 426", async () => {
    await using links = new Links();
    const end = await links.open();
    const response = await fetch(end.transport.address.replace("ws:", "http:"));
    expect(response.status).toBe(426);
  });

  it("survives a connection that breaks in the middle of its request", async () => {
    await using links = new Links();
    const end = await links.open();
    const socket = connect(Number(new URL(end.transport.address).port), "127.0.0.1");
    await once(socket, "connect");
    socket.write("GET /link HTTP/1.1\r\nUpgrade: webso");
    socket.resetAndDestroy();
    await client(links, end);
  });

  it("takes HANDSHAKES_MAX handshakes at once, and more when they are over", async () => {
    await using links = new Links();
    const end = await links.open();
    const headers = { ...websocketHeaders, authorization: `Bearer ${identity.token}` };
    const silent = Array.from({ length: HANDSHAKES_MAX }, () => links.dial(end));
    await Promise.all(silent.map((socket) => once(socket, "open")));
    expect(await upgradeStatus(end, headers)).toBe(503);
    for (const socket of silent) socket.terminate();
    await vi.waitFor(async () => expect(await upgradeStatus(end, headers)).toBe(101));
  });

  // an upgrade that ws itself refuses is no handshake under way
  it("forgets upgrades that were no WebSocket", async () => {
    await using links = new Links();
    const end = await links.open();
    const authorization = `Bearer ${identity.token}`;
    for (let i = 0; i < HANDSHAKES_MAX; i++) {
      expect(await upgradeStatus(end, { ...websocketHeaders, "sec-websocket-version": "7", authorization })).toBe(400);
    }
    expect(await upgradeStatus(end, { ...websocketHeaders, authorization })).toBe(101);
  });
});

describe("the hello", () => {
  const text = "hello";
  const cases: [string, Uint8Array | string, number, RegExp][] = [
    [
      "of a foreign job",
      encodeHello(peerHello({ job: "job-2" })),
      CLOSE_CODES.ERR_FOREIGN_JOB,
      /^ERR_FOREIGN_JOB: hello of job job-2/u,
    ],
    [
      "of a client of a foreign job",
      encodeHello({ version: PROTOCOL_VERSION, role: "client", job: "job-2" }),
      CLOSE_CODES.ERR_FOREIGN_JOB,
      /^ERR_FOREIGN_JOB/u,
    ],
    [
      "of an earlier epoch",
      encodeHello(peerHello({ epoch: 2 })),
      CLOSE_CODES.ERR_STALE_EPOCH,
      /^ERR_STALE_EPOCH: hello of epoch 2 in epoch 3/u,
    ],
    [
      "of another version",
      encodeHello(peerHello({ version: PROTOCOL_VERSION + 1 })),
      CLOSE_CODES.ERR_PROTOCOL_VERSION,
      /^ERR_PROTOCOL_VERSION: protocol \d+ where \d+/u,
    ],
    [
      "of the rank itself",
      encodeHello(peerHello({ rank: 0 })),
      CLOSE_CODES.ERR_DUPLICATE_RANK,
      /no peer of this group/u,
    ],
    [
      "of a rank beyond the group",
      encodeHello(peerHello({ rank: 2 })),
      CLOSE_CODES.ERR_DUPLICATE_RANK,
      /no peer of this group/u,
    ],
    ["as text", text, CLOSE_CODES.ERR_BAD_HELLO, /^ERR_BAD_HELLO: the hello must be a binary message/u],
    ["that is no msgpack", Uint8Array.of(0xc1), CLOSE_CODES.ERR_BAD_HELLO, /^ERR_BAD_HELLO/u],
    ["that is empty", new Uint8Array(), CLOSE_CODES.ERR_BAD_HELLO, /^ERR_BAD_HELLO/u],
    ["that is a frame", frame({ kind: FrameKind.Fence }), CLOSE_CODES.ERR_BAD_HELLO, /^ERR_BAD_HELLO/u],
  ];

  it.each(cases)("%s is refused with its code and reason", async (_, first, code, reason) => {
    await using links = new Links();
    const end = await links.open();
    const closed = await refusedAfter(links, end, first);
    expect(closed.code).toBe(code);
    expect(closed.reason).toMatch(reason);
    expect(end.sink).toMatchObject({ arrivals: [], losses: [], clients: [] });
  });

  it("of a rank that has joined already is refused, and the first link stays", async () => {
    await using links = new Links();
    const end = await links.open();
    const first = links.dial(end);
    await once(first, "open");
    first.send(encodeHello(peerHello()));
    const [welcome] = (await once(first, "message")) as [Buffer];
    expect(decodeHeader(welcome)).toMatchObject({ kind: FrameKind.Welcome, serial: 0 });
    const closed = await refusedAfter(links, end, encodeHello(peerHello()));
    expect(closed.code).toBe(CLOSE_CODES.ERR_DUPLICATE_RANK);
    expect(closed.reason).toContain("already connected");
    const next = once(first, "message");
    void end.transport.send(1, frameHeader({ kind: FrameKind.Ack, serial: 1 }), undefined, true);
    const [ack] = (await next) as [Buffer];
    expect(decodeHeader(ack)).toMatchObject({ kind: FrameKind.Ack, serial: 1 });
    expect(end.sink.losses).toEqual([]);
  });

  it("is awaited before anything is sent", async () => {
    await using links = new Links();
    const end = await links.open();
    const socket = links.dial(end);
    const received = vi.fn();
    socket.on("message", received);
    await once(socket, "open");
    // a pong proves that the server had its turn
    socket.ping();
    await once(socket, "pong");
    expect(received).not.toHaveBeenCalled();
  });

  // HELLO_BYTES_MAX: whoever has the token may still not make a rank buffer 64 MiB for a hello
  it("has a limit", async () => {
    await using links = new Links();
    const end = await links.open();
    const socket = links.dial(end);
    const outcome = Promise.race([closeOf(socket), once(socket, "message").then(() => "welcomed")]);
    await once(socket, "open");
    // valid but for its length: what a schema does not know it drops
    socket.send(encodeHello(peerHello({ padding: "p".repeat(HELLO_BYTES_MAX) })));
    expect(await outcome).toMatchObject({ code: expect.any(Number) });
  });

  it("may be followed by a peer's silence only: a receiving peer must not send", async () => {
    await using links = new Links();
    const end = await links.open();
    const socket = links.dial(end);
    const closed = closeOf(socket);
    await once(socket, "open");
    socket.send(encodeHello(peerHello()));
    await once(socket, "message");
    socket.send(frame({ kind: FrameKind.Fence }));
    expect(await closed).toMatchObject({ code: CLOSE_CODES.ERR_BAD_FRAME });
    await vi.waitFor(() => expect(end.sink.losses.map(({ peer }) => peer)).toEqual([1]));
    expect(end.sink.arrivals).toEqual([]);
  });
});

describe("a client", () => {
  it("has its frames delivered, and gets its answers on the same socket", async () => {
    await using links = new Links();
    const end = await links.open();
    const socket = await client(links, end);
    socket.send(frame({ kind: FrameKind.Put, rows: 1, rowBytes: 8 }, 8));
    socket.send(frame({ kind: FrameKind.Fence }));
    await vi.waitFor(() =>
      expect(end.sink.fromClients.map(({ kind }) => kind)).toEqual([FrameKind.Put, FrameKind.Fence]),
    );
    const answer = once(socket, "message");
    end.sink.clients[0]!.send(frameHeader({ kind: FrameKind.Ack, ack: 2 }), undefined);
    const [ack] = (await answer) as [Buffer];
    expect(decodeHeader(ack)).toMatchObject({ kind: FrameKind.Ack, ack: 2 });
  });

  it.each([
    ["text", "put", /text message/u],
    ["what is no frame", Uint8Array.of(1, 2, 3), /shorter than the header/u],
    ["a put without its payload", frame({ kind: FrameKind.Put, rows: 1, rowBytes: 8 }), /0 bytes of payload/u],
  ])("that sends %s is closed with the reason, and nobody else is", async (_, message, reason) => {
    await using links = new Links();
    const end = await links.open();
    const [bad, good] = [await client(links, end), await client(links, end)];
    const closed = closeOf(bad);
    bad.send(message);
    bad.send(frame({ kind: FrameKind.Fence }));
    expect(await closed).toMatchObject({ code: CLOSE_CODES.ERR_BAD_FRAME, reason: expect.stringMatching(reason) });
    good.send(frame({ kind: FrameKind.Notify }));
    await vi.waitFor(() => expect(end.sink.fromClients.map(({ kind }) => kind)).toEqual([FrameKind.Notify]));
    expect(end.sink.losses).toEqual([]);
  });

  it("is closed when its sink says so, with code and reason", async () => {
    await using links = new Links();
    const end = await links.open();
    const socket = await client(links, end);
    const closed = closeOf(socket);
    const { RankwiseError } = await import("../../../../../shared/errors.ts");
    end.sink.clients[0]!.close(new RankwiseError("ERR_FRAME_BOUNDS", "outside of the window"));
    expect(await closed).toEqual({
      code: CLOSE_CODES.ERR_BAD_FRAME,
      reason: "ERR_FRAME_BOUNDS: outside of the window",
    });
  });
});

describe("listen", () => {
  it("says which port is taken", async () => {
    await using links = new Links();
    const end = await links.open();
    const port = Number(new URL(end.transport.address).port);
    const second = new Listener(identity, new RecordingSink(), { peerJoined: () => {} });
    const error = await expectRefusal(() => second.listen({ host: "127.0.0.1", port }), "ERR_PORT_IN_USE");
    expect(error.message).toContain(`cannot listen at 127.0.0.1:${port}`);
  });

  it("says of a folder for sockets that cannot be used how to name another one", async () => {
    const listener = new Listener(identity, new RecordingSink(), { peerJoined: () => {} });
    const error = await expectRefusal(() => listener.listen({ path: "/nowhere/at/all/0" }), "ERR_TEMP_DIR");
    expect(error.message).toMatch(
      /^cannot listen at \/nowhere\/at\/all\/0: .*; name another folder by RANKWISE_SOCKET_DIR or TMPDIR$/u,
    );
  });

  it("says of an address that is none of this host's that it cannot listen there", async () => {
    const listener = new Listener(identity, new RecordingSink(), { peerJoined: () => {} });
    await expectRefusal(() => listener.listen({ host: "192.0.2.1", port: 0 }), "ERR_INVALID_ARGUMENT");
  });
});
