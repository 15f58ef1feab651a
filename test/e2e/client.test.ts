import { describe, expect, test } from "vitest";
import { CLOSE_CODES, FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES_MAX, PROTOCOL_VERSION } from "../../shared/constants.ts";
import { FrameFlag, FrameKind } from "../../shared/frame.ts";
import { type Closing, ForeignClient, refusedUpgrade } from "../helpers/client.ts";
import { type Cluster, startCluster } from "../helpers/cluster.ts";
import { fixtureProgram } from "../helpers/run.ts";

const NRANKS = 2;

/** Ordinals by the order of allocation: the window comes first. */
const INBOX = 0;
const BELL = 1;

/** Row 1 of the inbox: 4 INT32 from byte 16 on. */
const row1 = { window: INBOX, offset: 16, rowBytes: 16, rows: 1, strideBytes: 16 };
const ring = { signal: BELL, cell: 1, value: 1, flags: FrameFlag.Signal | FrameFlag.SignalAdd };

describe("an ordinary WebSocket client", () => {
  test("with the token puts and notifies into ranks, which the program sees in order", async () => {
    await using service = await startService();
    const clients = await Promise.all(service.addresses.map((address) => service.connect(address)));
    for (const [rank, client] of clients.entries()) {
      // a put and a notify, both in one frame, and a last notify behind an acknowledgement
      client.send({ kind: FrameKind.Put, ...row1 }, values(7, 7, 7, 7));
      client.send({ kind: FrameKind.Notify, ...ring });
      client.send({ kind: FrameKind.Put, ...row1, ...ring }, rowFor(rank));
      expect(await client.fence(), "frames applied").toBe(4);
      client.send({ kind: FrameKind.Notify, ...ring });
    }
    const [coordinator] = await service.cluster.ended();
    expect(coordinator?.stdout, coordinator?.text).toBe("OK\n");
    expect(coordinator?.exitCode).toBe(0);
    // the ranks have gone, and with them the connections
    for (const client of clients) await client.closed;
  });

  test("without the token gets 401 from rank and coordinator, for upgrades and for GET /job", async () => {
    await using service = await startService();
    const { cluster } = service;
    const job = new URL("/job", cluster.url.replace(/^ws/u, "http"));
    const wrong = [
      {},
      { authorization: "Bearer " },
      { authorization: `Bearer ${cluster.token}x` },
      basic(cluster.token),
    ];
    for (const headers of wrong) {
      for (const address of service.addresses) expect(await refusedUpgrade(`${address}/link`, headers)).toBe(401);
      expect(await refusedUpgrade(cluster.url, headers)).toBe(401);
      expect((await fetch(job, { headers })).status).toBe(401);
    }
    await service.finish();
  });

  test("of another job, or of another version, is refused with its reason", async () => {
    await using service = await startService();
    const [address = ""] = service.addresses;
    const stranger = await service.connect(address, { job: "another" });
    const code = CLOSE_CODES.ERR_FOREIGN_JOB;
    expect(await stranger.closed).toMatchObject({
      code,
      reason: expect.stringMatching(/^ERR_FOREIGN_JOB: /u) as string,
    });
    const newer = await service.connect(address, { version: 99 });
    expect(await newer.closed).toEqual({
      code: CLOSE_CODES.ERR_PROTOCOL_VERSION,
      reason: `ERR_PROTOCOL_VERSION: protocol 99 where ${PROTOCOL_VERSION} is spoken`,
    });
    await service.finish();
  });

  const badFrames: [string, RegExp, (client: ForeignClient) => void][] = [
    [
      "a put beyond the window",
      /^ERR_FRAME_BOUNDS: .* exceed window "inbox" of 32 bytes/u,
      (client) => client.send({ kind: FrameKind.Put, ...row1, offset: 17 }, values(1, 1, 1, 1)),
    ],
    [
      "a put whose signal lies beyond its cells: nothing is written either",
      /^ERR_FRAME_BOUNDS: notify: cell 2 is outside signal "bell"/u,
      (client) => client.send({ kind: FrameKind.Put, ...row1, offset: 0, ...ring, cell: 2 }, values(1, 1, 1, 1)),
    ],
    [
      "a window that does not exist",
      /^ERR_FRAME_BOUNDS: there is no window 9 /u,
      (client) => client.send({ kind: FrameKind.Put, ...row1, window: 9 }, values(1, 1, 1, 1)),
    ],
    [
      "a put into a signal",
      /^ERR_NOT_A_SIGNAL: put into signal "bell"/u,
      (client) => client.send({ kind: FrameKind.Put, window: BELL, rows: 1, rowBytes: 4 }, values(99).subarray(0, 4)),
    ],
    [
      "a notify of a window",
      /^ERR_NOT_A_SIGNAL: notify of window "inbox"/u,
      (client) => client.send({ kind: FrameKind.Notify, ...ring, signal: INBOX }),
    ],
    [
      "a get",
      /^ERR_BAD_FRAME: a client may put, notify and fence, not get$/u,
      (client) => client.send({ kind: FrameKind.Get, ...row1 }),
    ],
    ["a goodbye", /^ERR_BAD_FRAME: .* not goodbye$/u, (client) => client.send({ kind: FrameKind.Goodbye })],
    [
      "less payload than announced",
      /^ERR_BAD_FRAME: frame: 12 bytes of payload where the header announces 16$/u,
      (client) => client.send({ kind: FrameKind.Put, ...row1 }, values(1, 1, 1)),
    ],
    ["half a header", /^ERR_BAD_FRAME: frame: 32 bytes/u, (client) => client.sendRaw(new Uint8Array(32))],
    ["text", /^ERR_BAD_FRAME: text message/u, (client) => client.sendRaw("put, please")],
  ];

  test("that sends a bad frame loses its connection, with the reason; the job goes on", async () => {
    await using service = await startService();
    const [address = ""] = service.addresses;
    const bystander = await service.connect(address);
    for (const [what, reason, send] of badFrames) {
      const client = await service.connect(address);
      send(client);
      const { code, reason: said } = await client.closed;
      expect(said, what).toMatch(reason);
      expect(code, what).toBe(CLOSE_CODES.ERR_BAD_FRAME);
    }
    expect(await bystander.fence(), "others keep their connection").toBe(1);
    await service.finish();
  });

  test("that sends an oversized frame, or breaks off, does the job no harm", async () => {
    await using service = await startService();
    const [address = ""] = service.addresses;
    const tooLarge = await service.connect(address);
    tooLarge.sendRaw(new Uint8Array(FRAME_HEADER_BYTES + FRAME_PAYLOAD_BYTES_MAX + 1));
    expect(await tooLarge.closed).toMatchObject<Partial<Closing>>({ code: 1009 }); // RFC 6455: message too big
    const gone = await service.connect(address);
    gone.terminate();
    await gone.closed;
    await service.finish();
  });
});

interface Service extends AsyncDisposable {
  readonly cluster: Cluster;
  readonly addresses: readonly string[];
  connect(address: string, hello?: { job?: string; version?: number }): Promise<ForeignClient>;
  /** Gives every rank what it waits for, and expects a good end. */
  finish(): Promise<void>;
}

/** Ranks that listen on TCP and have all made their window and signal. */
async function startService(): Promise<Service> {
  const program = fixtureProgram("serves-clients");
  const cluster = await startCluster({ program, nranks: NRANKS, coordinatorArgs: ["--transport", "tcp"] });
  try {
    const { job, ranks } = await cluster.joined();
    const addresses = ranks.map(({ address }) => address ?? "");
    for (const rank of addresses.keys()) await cluster.supervisors[0]?.says(new RegExp(`rank ${rank} serves`, "u"));
    const connect: Service["connect"] = (address, hello = {}) =>
      ForeignClient.open(address, { token: cluster.token, job, ...hello });
    const finish = async (): Promise<void> => {
      for (const [rank, address] of addresses.entries()) {
        const client = await connect(address);
        for (let times = 0; times < 3; times++) client.send({ kind: FrameKind.Put, ...row1, ...ring }, rowFor(rank));
      }
      const [coordinator] = await cluster.ended();
      expect(coordinator?.stdout, coordinator?.text).toBe("OK\n");
      expect(coordinator?.exitCode).toBe(0);
    };
    return { cluster, addresses, connect, finish, [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose]() };
  } catch (error) {
    await cluster[Symbol.asyncDispose]();
    throw error;
  }
}

/** What the program expects of its clients in row 1. */
function rowFor(rank: number): Uint8Array {
  return values(...[0, 1, 2, 3].map((j) => 100 * (rank + 1) + j));
}

function values(...numbers: number[]): Uint8Array {
  return new Uint8Array(Int32Array.from(numbers).buffer);
}

function basic(token: string): { authorization: string } {
  return { authorization: `Basic ${Buffer.from(`user:${token}`).toString("base64")}` };
}
