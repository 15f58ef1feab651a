import { beforeEach, describe, expect, it } from "vitest";
import type { ClientSink } from "../../../rank/transport/transport.ts";
import type { Signal, Window } from "../../../rank/window.ts";
import { dtypes } from "../../../shared/dtype.ts";
import { type ErrorCode, RankwiseError } from "../../../shared/errors.ts";
import { FrameFlag, type FrameHeader, frameHeader, FrameKind } from "../../../shared/frame.ts";
import { ordinalOf, Rig, settled } from "../../helpers/sim.ts";

let rig: Rig;
let data: Window<"int32">;
let signal: Signal;

beforeEach(async () => {
  rig = new Rig({ rank: 1, nranks: 3 });
  data = await rig.window("data", "int32", [2, 4]);
  signal = await rig.signal("signal", [3, 1]);
});

/** A put header over `rows` rows of the window "data". */
const put = (fields: Partial<FrameHeader> = {}): FrameHeader =>
  frameHeader({ kind: FrameKind.Put, window: ordinalOf(data), rows: 1, rowBytes: 8, strideBytes: 8, ...fields });
const notify = (fields: Partial<FrameHeader> = {}): FrameHeader =>
  frameHeader({ kind: FrameKind.Notify, flags: FrameFlag.Signal, signal: ordinalOf(signal), value: 1, ...fields });
const payload = (...values: number[]): Uint8Array => new Uint8Array(Int32Array.from(values).buffer);

/** Feeds a header with the serial that is due. */
function feed(from: number, { serial: _serial, ...fields }: FrameHeader, bytes?: Uint8Array): void {
  rig.feed(from, fields, bytes);
}

/** What any refused frame must leave alone. */
function expectUntouched(): void {
  expect([...data.local.array]).toEqual([0, 0, 0, 0, 0, 0, 0, 0]);
  expect([...signal.local.array]).toEqual([0, 0, 0]);
}

describe("frames of a peer", () => {
  it("put bytes where their span says, and nowhere else", () => {
    feed(0, put({ offset: 4, rows: 2, rowBytes: 8, strideBytes: 16 }), payload(1, 2, 3, 4));
    expect([...data.local.array]).toEqual([0, 1, 2, 0, 0, 3, 4, 0]);
    expect(rig.engine.counters.payloadBytesReceived).toBe(16);
    expect(rig.failures).toEqual([]);
  });

  it("put, then signal, in one frame", async () => {
    const waiting = signal.wait([2, 0], 5, "ge").then(() => [...data.local.array.subarray(0, 2)]);
    feed(0, put({ flags: FrameFlag.Signal, signal: ordinalOf(signal), cell: 2, value: 5 }), payload(8, 9));
    expect(await waiting).toEqual([8, 9]);
  });

  it("add in the dtype of an atomic put", () => {
    data.local.array.fill(10);
    feed(2, put({ flags: FrameFlag.AtomicAdd, dtype: dtypes.int32.code, rows: 1, rowBytes: 8 }), payload(32, -11));
    expect([...data.local.array]).toEqual([42, -1, 10, 10, 10, 10, 10, 10]);
  });

  it("set and add cells, and are counted by who sent them", () => {
    feed(0, notify({ cell: 0, value: 3 }));
    feed(2, notify({ cell: 1, value: -4, flags: FrameFlag.Signal | FrameFlag.SignalAdd }));
    feed(2, notify({ cell: 1, value: -4, flags: FrameFlag.Signal | FrameFlag.SignalAdd }));
    expect([...signal.local.array]).toEqual([3, -8, 0]);
  });

  it("get a reply with the packed region, whatever is queued", () => {
    data.local.array.set([1, 2, 3, 4, 5, 6, 7, 8]);
    feed(2, { ...put({ offset: 4, rows: 2, rowBytes: 4, strideBytes: 16, value: 77 }), kind: FrameKind.Get });
    expect(rig.sent).toHaveLength(1);
    const [reply] = rig.sent;
    expect(reply).toMatchObject({ peer: 2, exempt: true });
    expect(reply?.header).toMatchObject({
      kind: FrameKind.GetReply,
      value: 77,
      rows: 1,
      rowBytes: 8,
      serial: 3,
    });
    expect([...reply!.payload]).toEqual([...payload(2, 6)]);
    expect(rig.engine.counters.payloadBytesSent).toBe(8);
  });

  it("fence: everything before has been applied, and is acknowledged at once", () => {
    feed(0, put(), payload(1, 1));
    feed(0, frameHeader({ kind: FrameKind.Fence }));
    // two publications, a put and the fence
    expect(rig.sent.map(({ peer, header, exempt }) => [peer, header.kind, header.ack, exempt])).toEqual([
      [0, FrameKind.Ack, 4, true],
    ]);
  });

  it("are ignored once the group has ended", () => {
    rig.end();
    feed(0, put(), payload(1, 1));
    feed(0, put({ window: 99 }), payload(1, 1));
    expectUntouched();
    expect(rig.failures).toEqual([]);
  });

  /** A frame that ends the group, its code, and what the message says. */
  const refused: [string, () => [FrameHeader, Uint8Array?], ErrorCode, string][] = [
    [
      "a put beyond the window",
      () => [put({ offset: 28 }), payload(1, 1)],
      "ERR_FRAME_BOUNDS",
      'put: 1 × 8 bytes at byte 28 (stride 8) exceed window "data" of 32 bytes on rank 1',
    ],
    [
      "a put whose last row is beyond the window",
      () => [put({ rows: 2, strideBytes: 28 }), payload(1, 1, 1, 1)],
      "ERR_FRAME_BOUNDS",
      'exceed window "data"',
    ],
    [
      "a put whose rows overlap",
      () => [put({ rows: 2, strideBytes: 4 }), payload(1, 1, 1, 1)],
      "ERR_FRAME_BOUNDS",
      'exceed window "data"',
    ],
    ["a put far away", () => [put({ offset: 2 ** 53 - 1 }), payload(1, 1)], "ERR_FRAME_BOUNDS", 'exceed window "data"'],
    [
      // a loop of that many turns, even if nothing moves in it, would stop the rank for minutes
      "a get of billions of empty rows",
      () => [put({ kind: FrameKind.Get, rows: 2 ** 32 - 1, rowBytes: 0 }), payload()],
      "ERR_FRAME_BOUNDS",
      'exceed window "data"',
    ],
    [
      "a put into no window",
      () => [put({ window: 9 }), payload(1, 1)],
      "ERR_FRAME_BOUNDS",
      "there is no window 9 of group 0 here",
    ],
    ["a put into no group", () => [put({ group: 5 }), payload(1, 1)], "ERR_FRAME_BOUNDS", "group 5"],
    [
      "a put into a signal",
      () => [put({ window: ordinalOf(signal) }), payload(1, 1)],
      "ERR_NOT_A_SIGNAL",
      'put into signal "signal"',
    ],
    [
      "a good put with a cell outside",
      () => [put({ flags: FrameFlag.Signal, signal: ordinalOf(signal), cell: 3 }), payload(1, 1)],
      "ERR_FRAME_BOUNDS",
      'cell 3 is outside signal "signal" with 3 cells',
    ],
    [
      "a good put that signals a window",
      () => [put({ flags: FrameFlag.Signal, signal: ordinalOf(data) }), payload(1, 1)],
      "ERR_NOT_A_SIGNAL",
      'notify of window "data"',
    ],
    [
      "an atomic put in another dtype",
      () => [put({ flags: FrameFlag.AtomicAdd, dtype: dtypes.float32.code }), payload(1, 1)],
      "ERR_BAD_FRAME",
      "",
    ],
    [
      "an atomic put of half an element",
      () => [put({ flags: FrameFlag.AtomicAdd, dtype: dtypes.int32.code, rowBytes: 6 }), new Uint8Array(6)],
      "ERR_BAD_FRAME",
      "",
    ],
    [
      "an atomic put between elements",
      () => [put({ flags: FrameFlag.AtomicAdd, dtype: dtypes.int32.code, offset: 2 }), payload(1, 1)],
      "ERR_BAD_FRAME",
      "",
    ],
    [
      "a notify of a window",
      () => [notify({ signal: ordinalOf(data) })],
      "ERR_NOT_A_SIGNAL",
      'notify of window "data"',
    ],
    [
      "a notify of a cell outside",
      () => [notify({ cell: 2 ** 32 - 1 })],
      "ERR_FRAME_BOUNDS",
      "cell 4294967295 is outside",
    ],
    [
      "a notify of no signal",
      () => [notify({ signal: 7 })],
      "ERR_FRAME_BOUNDS",
      "there is no window 7 of group 0 here",
    ],
    [
      "a get beyond the window",
      () => [{ ...put({ offset: 28 }), kind: FrameKind.Get }],
      "ERR_FRAME_BOUNDS",
      "get: 1 × 8 bytes",
    ],
    ["a get from no window", () => [{ ...put({ window: 9 }), kind: FrameKind.Get }], "ERR_FRAME_BOUNDS", "window 9"],
    [
      "a reply that nobody asked for",
      () => [frameHeader({ kind: FrameKind.GetReply, value: 4, rows: 1, rowBytes: 4 }), payload(1)],
      "ERR_BAD_FRAME",
      "a reply of 4 bytes to get 4, which is not pending",
    ],
    ["a second welcome", () => [frameHeader({ kind: FrameKind.Welcome })], "ERR_BAD_FRAME", "a second welcome"],
    [
      "a publication that is none",
      () => [frameHeader({ kind: FrameKind.Publish }), Uint8Array.of(0xc1)],
      "ERR_BAD_FRAME",
      "publication",
    ],
  ];

  it.each(refused)("end the group, naming the sender: %s", (_, frame, code, text) => {
    feed(2, ...frame());
    expectUntouched();
    expect(rig.sent).toEqual([]);
    const { error, suspect } = rig.failure;
    expect(`${error.code}: ${error.message}`).toMatch(new RegExp(`^${code}: rank 1, frame from rank 2: `, "u"));
    expect(error.message).toContain(text);
    expect(error.context).toMatchObject({ rank: 1, peer: 2 });
    expect(suspect).toBe(2);
  });

  it("with a serial that is not due end the group: lost, repeated and first ones", () => {
    for (const serial of [2, 4, 0, 2 ** 32 - 1]) {
      const fresh = new Rig({ rank: 1, nranks: 3 });
      fresh.feed(0, { kind: FrameKind.Ack });
      fresh.feed(0, { kind: FrameKind.Ack });
      fresh.server.receive(0, frameHeader({ kind: FrameKind.Ack, serial }), new Uint8Array());
      expect(fresh.failure.error).toMatchObject({
        code: "ERR_BAD_FRAME",
        message: `rank 1, frame from rank 0: frame ${serial} arrived where frame 3 was due`,
      });
      expect(fresh.failure.suspect).toBe(0);
    }
  });

  it("acknowledge what was never sent: that ends the group too", async () => {
    const x = rig.comm.tensor("int32", [2, 4]);
    await data.put(2, x);
    const fenced = rig.comm.fence(2);
    rig.feed(2, { kind: FrameKind.Ack, ack: 1000 });
    expect(await settled(fenced)).toBe(false);
    expect(rig.failure.error.code).toBe("ERR_BAD_FRAME");
  });

  it("that mix Set and AtomicAdd end the group", () => {
    feed(0, notify({ cell: 1 }));
    feed(2, notify({ cell: 1, flags: FrameFlag.Signal | FrameFlag.SignalAdd }));
    expect(rig.failure).toMatchObject({ error: { code: "ERR_NOTIFY_MIXED" }, suspect: 2 });
    expect(rig.failure.error.message).toContain("last changed by Set from rank 0");
    expect([...signal.local.array]).toEqual([0, 1, 0]);
  });

  it("of another call accuse nobody: a mismatch has no culprit", () => {
    void rig.comm.barrier(signal).catch(() => {});
    feed(2, notify({ cell: 2, seq: 1, fingerprint: 12345, flags: FrameFlag.Signal | FrameFlag.SignalAdd }));
    expect(rig.failure).toMatchObject({ error: { code: "ERR_MISMATCH" }, suspect: null });
  });
});

describe("a reply", () => {
  it("of another length than was asked for ends the group, and the get stays unanswered", async () => {
    const y = rig.comm.tensor("int32", [2, 4]);
    const got = data.get(2, y);
    const request = rig.sent[0]!.header;
    rig.feed(2, { kind: FrameKind.GetReply, value: request.value, rows: 1, rowBytes: 4 }, payload(1));
    expect(rig.failure.error).toMatchObject({ code: "ERR_BAD_FRAME" });
    expect(rig.failure.error.message).toContain("asked for 32");
    expect(await settled(got)).toBe(false);
    expect([...y.array]).toEqual([0, 0, 0, 0, 0, 0, 0, 0]);
    rig.end();
    await expect(got).rejects.toMatchObject({ code: "ERR_GROUP_ENDED" });
  });

  it("is taken once", async () => {
    const y = rig.comm.tensor("int32", [2, 4]);
    const got = data.get(2, y);
    const request = rig.sent[0]!.header;
    const reply = { kind: FrameKind.GetReply, value: request.value, rows: 1, rowBytes: 32 };
    rig.feed(2, reply, payload(1, 2, 3, 4, 5, 6, 7, 8));
    await got;
    expect([...y.array]).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    rig.feed(2, reply, payload(9, 9, 9, 9, 9, 9, 9, 9));
    expect(rig.failure.error.code).toBe("ERR_BAD_FRAME");
    expect([...y.array]).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it("of another owner than the one asked ends the group", () => {
    void data.get(2, rig.comm.tensor("int32", [2, 4])).catch(() => {});
    const { value } = rig.sent[0]!.header;
    rig.feed(0, { kind: FrameKind.GetReply, value, rows: 1, rowBytes: 32 }, new Uint8Array(32));
    expect(rig.failure).toMatchObject({ error: { code: "ERR_BAD_FRAME" }, suspect: 0 });
  });
});

describe("a block that is staged for a builtin call", () => {
  const credit = { flags: FrameFlag.Signal | FrameFlag.SignalAdd, cell: 0, value: 1 };
  const staged = (fields: Partial<FrameHeader> = {}): FrameHeader =>
    frameHeader({
      kind: FrameKind.Stage,
      signal: ordinalOf(signal),
      ...credit,
      seq: 1,
      round: 1,
      rows: 1,
      rowBytes: 8,
      ...fields,
    });

  it("waits for the call, whatever becomes of the bytes it came in, and its credit counts at once", () => {
    const bytes = payload(7, 8);
    feed(0, staged(), bytes);
    bytes.fill(0);
    const { ledger } = rig.engine.world;
    expect(ledger.takeStaged(0, 1, 1)).toEqual(payload(7, 8));
    expect(ledger.takeStaged(0, 1, 1)).toBeUndefined();
    expect([...signal.local.array]).toEqual([1, 0, 0]);
    expect(rig.engine.counters.payloadBytesReceived).toBe(8);
  });

  it("is told from one of another round, call or rank", () => {
    feed(0, staged(), payload(1, 1));
    feed(0, staged({ round: 2 }), payload(2, 2));
    feed(0, staged({ seq: 2 }), payload(3, 3));
    feed(2, staged({ cell: 2 }), payload(4, 4));
    const taken = [
      [0, 1, 1],
      [0, 1, 2],
      [0, 2, 1],
      [2, 1, 1],
    ].map(([peer = 0, seq = 0, round = 0]) => rig.engine.world.ledger.takeStaged(peer, seq, round));
    expect(taken).toEqual([payload(1, 1), payload(2, 2), payload(3, 3), payload(4, 4)]);
  });

  it.each<[string, Partial<FrameHeader>, ErrorCode]>([
    ["outside of a call", { seq: 0 }, "ERR_BAD_FRAME"],
    ["without a credit", { flags: 0 }, "ERR_BAD_FRAME"],
    ["with a Set", { flags: FrameFlag.Signal }, "ERR_BAD_FRAME"],
    ["with a cell that does not exist", { cell: 9 }, "ERR_FRAME_BOUNDS"],
    ["for a group that this rank knows nothing of", { group: 5 }, "ERR_FRAME_BOUNDS"],
    ["for a call far ahead", { seq: 100 }, "ERR_LIMIT"],
  ])("is refused %s", (_, fields, code) => {
    feed(0, staged(fields), payload(1, 2));
    expect(rig.failure).toMatchObject({ error: { code }, suspect: 0 });
    expectUntouched();
  });

  it("is refused twice for one round", () => {
    feed(0, staged(), payload(1, 2));
    feed(0, staged(), payload(1, 2));
    expect(rig.failure).toMatchObject({ error: { code: "ERR_BAD_FRAME" }, suspect: 0 });
  });

  it("is refused beyond STAGED_BYTES_MAX", () => {
    const bytes = new Uint8Array(64 * 1024 * 1024);
    for (let round = 1; round <= 5; round++) feed(2, staged({ round, rowBytes: bytes.byteLength, cell: 2 }), bytes);
    expect(rig.failure).toMatchObject({ error: { code: "ERR_LIMIT" }, suspect: 2 });
  });
});

describe("a lost link", () => {
  const lost = new RankwiseError("ERR_PEER_LOST", "the link from rank 2 closed", { peer: 2 });

  it("ends the group, naming the peer", () => {
    rig.server.lost(2, lost);
    expect(rig.failure).toEqual({ error: lost, call: null, suspect: 2 });
  });

  it("is an end like any other after the peer's goodbye, for that peer alone", () => {
    rig.feed(2, { kind: FrameKind.Goodbye });
    rig.server.lost(2, lost);
    expect(rig.failures).toEqual([]);
    rig.server.lost(0, lost);
    expect(rig.failure.suspect).toBe(0);
  });

  it("is nothing once this rank leaves", () => {
    rig.engine.leave();
    rig.server.lost(2, lost);
    expect(rig.failures).toEqual([]);
  });
});

describe("a foreign client", () => {
  let closed: RankwiseError[];
  let answered: FrameHeader[];
  let client: ClientSink;

  beforeEach(() => {
    closed = [];
    answered = [];
    client = rig.server.client({
      send: (header) => answered.push({ ...header }),
      close: (error) => closed.push(error),
    });
  });

  it("puts, notifies, and is told at its fence how much has been applied", async () => {
    const waiting = signal.wait([2, 0], 1, "ge");
    client.receive(put(), payload(1, 2));
    client.receive(notify({ cell: 2 }), new Uint8Array());
    client.receive(frameHeader({ kind: FrameKind.Fence }), new Uint8Array());
    expect([...data.local.array.subarray(0, 2)]).toEqual([1, 2]);
    expect(await waiting).toBe(1);
    expect(answered).toMatchObject([{ kind: FrameKind.Ack, ack: 3 }]);
    expect(closed).toEqual([]);
  });

  const wrong: [string, () => [FrameHeader, Uint8Array?], ErrorCode][] = [
    ["a put beyond the window", () => [put({ offset: 32 }), payload(1, 1)], "ERR_FRAME_BOUNDS"],
    ["a put into a signal", () => [put({ window: ordinalOf(signal) }), payload(1, 1)], "ERR_NOT_A_SIGNAL"],
    ["a put into no window", () => [put({ window: 9 }), payload(1, 1)], "ERR_FRAME_BOUNDS"],
    ["a notify of a window", () => [notify({ signal: ordinalOf(data) })], "ERR_NOT_A_SIGNAL"],
    ["a notify of a cell outside", () => [notify({ cell: 3 })], "ERR_FRAME_BOUNDS"],
    ["a get", () => [{ ...put(), kind: FrameKind.Get }], "ERR_BAD_FRAME"],
    ["a reply", () => [frameHeader({ kind: FrameKind.GetReply })], "ERR_BAD_FRAME"],
    ["a goodbye", () => [frameHeader({ kind: FrameKind.Goodbye })], "ERR_BAD_FRAME"],
    ["a publication", () => [frameHeader({ kind: FrameKind.Publish })], "ERR_BAD_FRAME"],
    ["a free", () => [frameHeader({ kind: FrameKind.Free })], "ERR_BAD_FRAME"],
  ];

  it.each(wrong)("that sends %s loses its own connection, and the group goes on", (_, frame, code) => {
    const [header, bytes = new Uint8Array()] = frame();
    client.receive(header, bytes);
    expect(closed.map((error) => error.code)).toEqual([code]);
    expect(answered).toEqual([]);
    expectUntouched();
    expect(rig.failures).toEqual([]);
  });

  // a client has no group; the world's windows are all it may touch
  it("reaches no window of a group", async () => {
    const pair = rig.comm.group([1, 0]);
    void pair.window("inner", "int32", [2]).catch(() => {});
    const { group } = rig.sent[0]!.header;
    expect(group).not.toBe(0);
    client.receive(put({ group, window: 0 }), payload(7, 7));
    expect(closed.map((error) => error.code)).toEqual(["ERR_BAD_FRAME"]);
  });

  it("that mixes Set and AtomicAdd loses its connection only", () => {
    feed(0, notify({ cell: 0 }));
    client.receive(notify({ cell: 0, flags: FrameFlag.Signal | FrameFlag.SignalAdd }), new Uint8Array());
    expect(closed.map((error) => error.code)).toEqual(["ERR_NOTIFY_MIXED"]);
    expect([...signal.local.array]).toEqual([1, 0, 0]);
    expect(rig.failures).toEqual([]);
  });

  it("changes nothing once the group has ended", () => {
    rig.end();
    client.receive(put(), payload(1, 1));
    expectUntouched();
  });
});
