import { readdir } from "node:fs/promises";
import { describe, expect, it, vi } from "vitest";
import { FRAME_HEADER_BYTES, SOCKET_PATH_BYTES_MAX } from "../../../../../shared/constants.ts";
import { frameHeader, FrameKind } from "../../../../../shared/frame.ts";
import { errorOf, expectRefusal } from "../../../../helpers/sim.ts";
import { type LinkEnd, Links } from "../../../../helpers/links.ts";

const arrived = async (end: LinkEnd, count: number): Promise<void> => {
  await vi.waitFor(() => expect(end.sink.arrivals).toHaveLength(count), { timeout: 10_000, interval: 5 });
};

const put = (serial: number, payload: Uint8Array): ReturnType<typeof frameHeader> =>
  frameHeader({ kind: FrameKind.Put, rows: 1, rowBytes: payload.byteLength, serial });

describe.each(["tcp", "unix"] as const)("links over %s", (kind) => {
  it("carry frames between all ranks, whole and in order", async () => {
    await using links = new Links();
    const ends = await links.connect(3, kind);
    const sizes = [0, 1, 61, 62, 4096, 4097, 65_471, 65_472, 200_000];
    const work: Promise<void>[] = [];
    for (const [from, { transport }] of ends.entries()) {
      for (const to of [0, 1, 2].filter((rank) => rank !== from)) {
        for (const [index, size] of sizes.entries()) {
          const payload = new Uint8Array(size).fill(from * 16 + index);
          work.push(transport.send(to, put(index + 1, payload), payload, false) ?? Promise.resolve());
        }
      }
    }
    await Promise.all(work);
    for (const [to, end] of ends.entries()) {
      await arrived(end, 2 * sizes.length);
      for (const from of [0, 1, 2].filter((rank) => rank !== to)) {
        const own = end.sink.arrivals.filter(({ peer }) => peer === from);
        expect(own.map(({ header }) => header.serial)).toEqual(sizes.map((_, index) => index + 1));
        expect(own.map(({ payload }) => payload.byteLength)).toEqual(sizes);
        for (const [index, { payload }] of own.entries()) {
          expect(payload.every((byte) => byte === from * 16 + index)).toBe(true);
        }
      }
      expect(end.sink.losses).toEqual([]);
    }
  });

  it("carry payloads of many megabytes, and count what they write", async () => {
    await using links = new Links();
    const [a, b] = (await links.connect(2, kind)) as [LinkEnd, LinkEnd];
    const before = { ...a.counters };
    const payload = new Uint8Array(16 * 1024 * 1024);
    for (let i = 0; i < payload.length; i += 4096) payload[i] = i / 4096;
    await a.transport.send(1, put(1, payload), payload, false);
    await arrived(b, 1);
    expect(Buffer.compare(b.sink.arrivals[0]!.payload, payload)).toBe(0);
    expect(a.counters.framesSent - before.framesSent).toBe(1);
    expect(a.counters.wireBytesSent - before.wireBytesSent).toBe(10 + FRAME_HEADER_BYTES + payload.byteLength);
  });

  it("tell both ends when one closes", async () => {
    await using links = new Links();
    const [a, b] = (await links.connect(2, kind)) as [LinkEnd, LinkEnd];
    await a.transport.close();
    await vi.waitFor(() => expect(b.sink.losses.length).toBeGreaterThan(0));
    for (const { peer, error } of b.sink.losses) {
      expect(peer).toBe(0);
      expect(error).toMatchObject({ code: "ERR_PEER_LOST", context: { peer: 0 } });
      expect(error.message).toMatch(/link (from|to) rank 0 closed without a goodbye/u);
    }
    // who closes is told nothing
    expect(a.sink.losses).toEqual([]);
  });

  it("stand still when nobody reads, take what is exempt, and go on when somebody does", async () => {
    await using links = new Links();
    const limits = { linkQueueBytes: 100_000, linkQueueFrames: 20 };
    const [a, b] = (await links.connect(2, kind, limits)) as [LinkEnd, LinkEnd];
    const payload = new Uint8Array(50_000);
    let sent = 0;
    let refused = false;
    // nothing is read while this turn lasts
    for (let i = 0; i < 2000 && !refused; i++) {
      try {
        void a.transport.send(1, put(i + 1, payload), payload, false);
        sent += 1;
      } catch (error) {
        expect(error).toMatchObject({ code: "ERR_QUEUE_FULL" });
        refused = true;
      }
    }
    expect(refused).toBe(true);
    void a.transport.send(1, frameHeader({ kind: FrameKind.Ack, serial: sent + 1 }), undefined, true);
    await arrived(b, sent + 1);
    expect(b.sink.arrivals.map(({ header }) => header.serial)).toEqual(
      Array.from({ length: sent + 1 }, (_, i) => i + 1),
    );
    await a.transport.send(1, put(sent + 2, payload), payload, false);
    await arrived(b, sent + 2);
  });
});

describe("WebSocketTransport", () => {
  it("of one rank has nobody to wait for", async () => {
    await using links = new Links();
    await links.connect(1, "tcp");
  });

  it("advertises the name that it was given, never the port 0, and brackets IPv6", async () => {
    await using links = new Links();
    const { transport } = await links.open();
    expect(transport.address).toMatch(/^ws:\/\/127\.0\.0\.1:[1-9]\d*$/u);
  });

  it("removes its socket's file when all have joined, and at the latest at its end", async () => {
    await using links = new Links();
    const [a, b] = (await links.connect(2, "unix")) as [LinkEnd, LinkEnd];
    const files = async (): Promise<number> => (await readdir(await links.directory())).length;
    expect(await files()).toBe(2);
    a.transport.unlink();
    expect(await files()).toBe(1);
    await b.transport.close();
    expect(await files()).toBe(0);
  });

  it("refuses a socket path that the platform would cut, naming the limit and the settings", async () => {
    await using links = new Links();
    const directory = `${await links.directory()}/${"d".repeat(SOCKET_PATH_BYTES_MAX)}`;
    const { WebSocketTransport } = await import("../../../../../rank/transport/websocket/transport.ts");
    const end = await links.open();
    const error = await errorOf(() =>
      WebSocketTransport.open(
        {
          identity: { rank: 0, nranks: 1, job: "j", epoch: 0, token: "t" },
          listen: { directory },
          joinTimeoutMs: 1,
          counters: end.counters,
        },
        end.sink,
      ),
    );
    expect(error.code).toBe("ERR_LIMIT");
    expect(error.message).toContain(`SOCKET_PATH_BYTES_MAX ${SOCKET_PATH_BYTES_MAX}`);
    expect(error.message).toContain("RANKWISE_SOCKET_DIR");
  });

  it("has no link to a rank that has not joined", async () => {
    await using links = new Links();
    const { transport } = await links.open();
    await expectRefusal(
      () => transport.send(1, frameHeader({ kind: FrameKind.Ack }), undefined, false),
      "ERR_INTERNAL",
    );
  });

  it("names the ranks that are missing at the join deadline", async () => {
    await using links = new Links();
    const waiting = await links.open({ nranks: 3 }, "tcp", { joinTimeoutMs: 300 });
    const other = await links.open({ rank: 1, nranks: 3 }, "tcp", { joinTimeoutMs: 300 });
    // rank 2 listens and never dials
    const silent = await links.open({ rank: 2, nranks: 3 });
    const addresses = [waiting, other, silent].map(({ transport }) => transport.address);
    const errors = await Promise.all(
      [waiting, other].map(({ transport }) => errorOf(() => transport.connect(addresses))),
    );
    for (const error of errors) expect(error).toMatchObject({ code: "ERR_JOIN_TIMEOUT", context: { missing: [2] } });
  });
});
