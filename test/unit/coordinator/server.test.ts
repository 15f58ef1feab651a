import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { Coordinator, type CoordinatorOptions } from "../../../coordinator/coordinator.ts";
import { decodeMessage, encodeMessage } from "../../../shared/codec.ts";
import { CLOSE_CODES, CONTROL_MESSAGE_BYTES_MAX, PROTOCOL_VERSION } from "../../../shared/constants.ts";
import { type Message, type MessageOf, type MessageType, zeroCounters } from "../../../shared/messages.ts";

const options: CoordinatorOptions = {
  job: "the-job",
  token: "the-token",
  host: "127.0.0.1",
  port: 0,
  program: { kind: "builtin", name: "all_to_all" },
  programName: "all_to_all",
  env: {},
  timeoutMs: 60_000,
  settings: {
    nranks: 2,
    mode: "hand",
    platform: "a5sim",
    transport: "auto",
    args: [],
    seed: 0,
    waitTimeoutMs: 1000,
    joinTimeoutMs: 60_000,
    graceMs: 100,
    livenessMs: 3000,
    lanesMax: null,
    sqDepth: null,
  },
};
const ofJob = { job: "the-job", epoch: 0 };
const state = { counters: zeroCounters(), queues: [], calls: [], waits: [] };

let coordinator: Coordinator;
const peers: Peer[] = [];

/** One end of a control connection that a test plays. */
class Peer {
  readonly socket: WebSocket;
  readonly #received: Uint8Array[] = [];

  constructor(token = "the-token") {
    this.socket = new WebSocket(`ws://127.0.0.1:${coordinator.port}`, { headers: authorization(token) });
    this.socket.on("message", (bytes: Buffer) => this.#received.push(bytes));
    peers.push(this);
  }

  send(message: Message): void {
    this.socket.send(encodeMessage(message));
  }

  async open(): Promise<this> {
    await once(this.socket, "open");
    return this;
  }

  async receive<T extends MessageType>(type: T): Promise<MessageOf<T>> {
    if (this.#received.length === 0) await once(this.socket, "message");
    return decodeMessage(this.#received.shift() ?? new Uint8Array(), [type]);
  }

  /** Close code and reason, once the coordinator has closed the connection. */
  async closed(): Promise<{ code: number; reason: string }> {
    const [code, reason] = (await once(this.socket, "close")) as [number, Buffer];
    return { code, reason: reason.toString() };
  }
}

async function supervisor(slots = 2): Promise<Peer> {
  const peer = await new Peer().open();
  peer.send({ type: "join_supervisor", version: PROTOCOL_VERSION, slots, host: "box", pid: 1 });
  return peer;
}

async function rank(index: number, overrides: Partial<MessageOf<"join_rank">> = {}): Promise<Peer> {
  const peer = await new Peer().open();
  const identity = {
    version: PROTOCOL_VERSION,
    ...ofJob,
    host: "box",
    pid: 100 + index,
    address: `ws://box:${index + 1}`,
    processors: 2,
  };
  peer.send({ type: "join_rank", rank: index, ...identity, ...overrides });
  return peer;
}

function get(path: string, token: string): Promise<Response> {
  return fetch(`http://127.0.0.1:${coordinator.port}${path}`, { headers: authorization(token) });
}

async function job(): Promise<{ ranks: { pid: number | null }[] }> {
  return (await (await get("/job", "the-token")).json()) as { ranks: { pid: number | null }[] };
}

function authorization(token: string): Record<string, string> {
  return token === "" ? {} : { authorization: `Bearer ${token}` };
}

beforeEach(async () => {
  coordinator = await Coordinator.start(options);
});
afterEach(async () => {
  for (const { socket } of peers.splice(0)) socket.terminate();
  await coordinator.close();
});

describe("the door", () => {
  test.each(["", "another-token"])("token %j is refused with 401, for both protocols", async (token) => {
    const response = await get("/job", token);
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toBe("Bearer");
    const peer = new Peer(token);
    const [error] = (await once(peer.socket, "error")) as [Error];
    expect(error.message).toContain("401");
  });

  test("GET /job tells where the ranks are", async () => {
    expect(await job()).toEqual({
      job: "the-job",
      epoch: 0,
      nranks: 2,
      ranks: [
        { rank: 0, pid: null, host: null, address: null },
        { rank: 1, pid: null, host: null, address: null },
      ],
    });
    const joined = await rank(1);
    await expect
      .poll(async () => (await job()).ranks[1])
      .toEqual({
        rank: 1,
        pid: 101,
        host: "box",
        address: "ws://box:2",
      });
    joined.socket.terminate();
  });

  test("nothing else is there", async () => {
    expect((await get("/", "the-token")).status).toBe(404);
    const post = await fetch(`http://127.0.0.1:${coordinator.port}/job`, {
      method: "POST",
      headers: { authorization: "Bearer the-token" },
    });
    expect(post.status).toBe(405);
  });

  test("garbage on the port harms nobody", async () => {
    const socket = connect(coordinator.port, "127.0.0.1");
    socket.write("\x00\x01garbage\r\n\r\n");
    socket.resume();
    await once(socket, "close");
    const upgrade = request({ port: coordinator.port, headers: { upgrade: "other", connection: "upgrade" } });
    upgrade.on("error", () => {});
    upgrade.end();
    expect((await get("/job", "the-token")).status).toBe(200);
  });

  test("a taken port is named", async () => {
    const { port } = coordinator;
    await expect(Coordinator.start({ ...options, port })).rejects.toMatchObject({
      code: "ERR_PORT_IN_USE",
      message: expect.stringContaining(String(port)),
    });
  });

  test("an address of another machine is refused", async () => {
    await expect(Coordinator.start({ ...options, host: "192.0.2.1" })).rejects.toMatchObject({ code: "ERR_USAGE" });
  });
});

describe("hello", () => {
  test.each([
    ["no msgpack", Buffer.from([0xc1])],
    ["another type", encodeMessage({ type: "ready", ...ofJob })],
    ["a missing field", encodeMessage({ type: "join_supervisor", version: 1 } as Message)],
  ])("%s closes the connection", async (_name, bytes) => {
    const peer = await new Peer().open();
    peer.socket.send(bytes);
    expect(await peer.closed()).toMatchObject({
      code: CLOSE_CODES.ERR_BAD_HELLO,
      reason: expect.stringContaining("ERR_BAD_HELLO"),
    });
  });

  test.each([
    ["ERR_FOREIGN_JOB", { job: "another-job" }],
    ["ERR_STALE_EPOCH", { epoch: 3 }],
    ["ERR_PROTOCOL_VERSION", { version: PROTOCOL_VERSION + 1 }],
    ["ERR_BAD_HELLO", { rank: 2 }],
    ["ERR_DUPLICATE_RANK", {}],
  ] as const)("%s refuses a rank and leaves the group alone", async (code, overrides) => {
    const first = await rank(0);
    await expect.poll(async () => (await job()).ranks[0]?.pid).toBe(100);
    const second = await rank(0, overrides);
    expect(await second.closed()).toMatchObject({ code: CLOSE_CODES[code], reason: expect.stringContaining(code) });
    expect(first.socket.readyState).toBe(WebSocket.OPEN);
  });

  test("a supervisor too many is refused by name of the limit", async () => {
    await (await supervisor(2)).receive("assign");
    const { code, reason } = await (await supervisor(1)).closed();
    expect(code).toBe(CLOSE_CODES.ERR_LIMIT);
    expect(reason).toContain("(-n)");
  });

  test("an oversized message ends the connection", async () => {
    const peer = await new Peer().open();
    peer.socket.send(Buffer.alloc(CONTROL_MESSAGE_BYTES_MAX + 1));
    expect((await peer.closed()).code).toBe(1009);
  });
});

describe("a job", () => {
  test("is assigned, started, released, ended and reported", async () => {
    const one = await supervisor();
    expect(await one.receive("assign")).toMatchObject({ ranks: [0, 1], program: options.program });
    const ranks = [await rank(0), await rank(1)];
    for (const each of ranks) {
      expect((await each.receive("start")).addresses).toEqual(["ws://box:1", "ws://box:2"]);
      each.send({ type: "ready", ...ofJob });
    }
    for (const each of ranks) {
      await each.receive("go");
      each.send({ type: "goodbye", ...ofJob, state });
    }
    for (const each of ranks) {
      await each.receive("end");
      each.socket.close();
    }
    for (const index of [0, 1]) {
      one.send({ type: "exited", ...ofJob, rank: index, pid: 100 + index, exitCode: 0, signal: null });
    }
    await one.receive("terminate");
    one.send({ type: "cleared", ...ofJob });
    expect((await one.receive("finished")).exitCode).toBe(0);
    const { report, summary } = await coordinator.outcome;
    expect(summary).toBe("");
    expect(report).toMatchObject({ ok: true, exitCode: 0, failure: null, transport: "tcp", nranks: 2 });
    expect(report.ranks[1]).toMatchObject({ rank: 1, pid: 101, host: "box", exitCode: 0, counters: zeroCounters() });
  });

  test("a bad message of a joined rank fails the group, naming the rank", async () => {
    const one = await supervisor();
    await one.receive("assign");
    const [good, bad] = [await rank(0), await rank(1)];
    await good.receive("start");
    bad.socket.send(Buffer.from("nonsense"));
    expect((await good.receive("abort")).cause).toMatchObject({ rank: 1, code: "ERR_BAD_MESSAGE" });
    await one.receive("terminate");
    one.send({ type: "cleared", ...ofJob });
    expect((await coordinator.outcome).report).toMatchObject({ ok: false, exitCode: 1 });
  });

  test.each([7, -1, 0.5])("a report that accuses a rank %d, which there is not, is its sender's own", async (peer) => {
    const one = await supervisor();
    await one.receive("assign");
    const ranks = [await rank(0), await rank(1)];
    for (const each of ranks) await each.receive("start");
    const error = { code: "ERR_PEER_RANGE", message: "no such peer", context: { peer } } as const;
    ranks[1]?.send({ type: "failed", ...ofJob, error, call: null, suspect: null });
    expect((await ranks[0]?.receive("abort"))?.cause).toMatchObject({ rank: 1, code: "ERR_PEER_RANGE" });
  });

  test("a supervisor that hangs up is a lost host", async () => {
    const one = await supervisor();
    await one.receive("assign");
    const joined = await rank(0);
    await expect.poll(async () => (await job()).ranks[0]?.pid).toBe(100);
    one.socket.terminate();
    const { cause } = await joined.receive("abort");
    expect(cause).toMatchObject({ code: "ERR_HOST_LOST", host: "box" });
    expect(cause.message).toContain("ranks 0, 1");
    joined.socket.close();
    expect((await coordinator.outcome).report.exitCode).toBe(1);
  });

  test("whoever joins after the end is refused", async () => {
    const one = await supervisor();
    await one.receive("assign");
    coordinator.interrupt("SIGINT");
    await one.receive("terminate");
    expect((await (await rank(0)).closed()).reason).toContain("ERR_GROUP_ENDED");
  });
});

test("a supervisor that stays silent is lost within the liveness time", async () => {
  await coordinator.close();
  coordinator = await Coordinator.start({ ...options, settings: { ...options.settings, livenessMs: 200 } });
  const peer = await supervisor();
  await peer.receive("assign");
  const startMs = performance.now();
  peer.socket.pause(); // it does not even answer pings now
  const { report } = await coordinator.outcome;
  expect(report.failure).toMatchObject({ code: "ERR_HOST_LOST", host: "box" });
  expect(report.failure?.message).toContain("--liveness");
  expect(performance.now() - startMs).toBeLessThan(600);
});
