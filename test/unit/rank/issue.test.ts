import { describe, expect, it } from "vitest";
import type { Tensor } from "../../../rank/memory/tensor.ts";
import { SNAPSHOT_BYTES_MAX } from "../../../shared/constants.ts";
import { FrameFlag, FrameKind } from "../../../shared/frame.ts";
import { errorOf, ordinalOf, Rig, settled } from "../../helpers/sim.ts";

/** The real limits take gigabytes to reach; what matters is what happens at them. */
const limits = { framePayloadBytes: 10_000, getInFlightBytes: 20_000 };

/** Bytes that name their element. */
function counting(rig: Rig, shape: readonly number[]): Tensor<"int32"> {
  const tensor = rig.comm.tensor("int32", shape);
  for (let i = 0; i < tensor.array.length; i++) tensor.array[i] = i;
  return tensor;
}

const ints = (bytes: Uint8Array): number[] => [...new Int32Array(bytes.slice().buffer)];

describe("put", () => {
  it("sends a contiguous block as one row", async () => {
    const rig = new Rig({ rank: 1 });
    const data = await rig.window("data", "int32", [4, 8]);
    await data.put(2, counting(rig, [4, 8]), { dstOffset: [2, 0], srcOffset: [1, 0], shape: [2, 8] });
    expect(rig.sent).toHaveLength(1);
    expect(rig.sent[0]).toMatchObject({ peer: 2, exempt: false });
    expect(rig.sent[0]?.header).toMatchObject({
      kind: FrameKind.Put,
      flags: 0,
      group: 0,
      seq: 0,
      window: ordinalOf(data),
      offset: 64,
      rowBytes: 64,
      rows: 1,
    });
    expect(ints(rig.sent[0]!.payload)).toEqual(Array.from({ length: 16 }, (_, i) => 8 + i));
    expect(rig.engine.counters).toMatchObject({ puts: 1, notifies: 0, payloadBytesSent: 64 });
  });

  it("sends a strided block as rows, packed", async () => {
    const rig = new Rig();
    const data = await rig.window("data", "int32", [4, 8]);
    await data.put(1, counting(rig, [3, 3]), { dstOffset: [1, 5], srcOffset: [0, 1], shape: [3, 2] });
    expect(rig.sent[0]?.header).toMatchObject({ offset: 52, rowBytes: 8, rows: 3, strideBytes: 32 });
    expect(ints(rig.sent[0]!.payload)).toEqual([1, 2, 4, 5, 7, 8]);
  });

  it("sends a box as one frame for each outer index, the signal in the last", async () => {
    const rig = new Rig();
    const data = await rig.window("data", "int32", [3, 4, 5]);
    const signal = await rig.signal("signal", [2]);
    const x = counting(rig, [3, 4, 5]);
    await data.putSignal(1, x, { shape: [3, 2, 2] }, signal, [1], -9, "atomic_add");
    const headers = rig.sent.map(({ header }) => header);
    expect(headers.map(({ offset, rows, rowBytes, strideBytes }) => [offset, rows, rowBytes, strideBytes])).toEqual([
      [0, 2, 8, 20],
      [80, 2, 8, 20],
      [160, 2, 8, 20],
    ]);
    expect(headers.map(({ flags }) => flags)).toEqual([0, 0, FrameFlag.Signal | FrameFlag.SignalAdd]);
    expect(headers[2]).toMatchObject({ signal: ordinalOf(signal), cell: 1, value: -9 });
    expect(rig.sent.map(({ payload }) => ints(payload))).toEqual([
      [0, 1, 5, 6],
      [20, 21, 25, 26],
      [40, 41, 45, 46],
    ]);
    expect(rig.engine.counters).toMatchObject({ puts: 1, notifies: 1, payloadBytesSent: 48 });
    expect(headers.map(({ serial }) => serial)).toEqual([3, 4, 5]);
  });

  // memory model, line 7
  it("of no bytes still signals, and without a signal sends nothing", async () => {
    const rig = new Rig();
    const data = await rig.window("data", "int32", [4]);
    const signal = await rig.signal("signal", [2]);
    const x = counting(rig, [4]);
    await data.put(1, x, { dstOffset: [4], shape: [0] });
    expect(rig.sent).toEqual([]);
    await data.putSignal(1, x, { shape: [0] }, signal, [1], 7, "set");
    expect(rig.sent.map(({ header }) => [header.kind, header.flags, header.cell, header.value])).toEqual([
      [FrameKind.Notify, FrameFlag.Signal, 1, 7],
    ]);
    expect(rig.engine.counters).toMatchObject({ puts: 2, notifies: 1, payloadBytesSent: 0 });
    await data.putSignal(0, x, { shape: [0] }, signal, [0], 5, "set");
    expect(signal.local.array[0]).toBe(5);
  });

  it("is cut at the frame limit, by whole rows, and every byte arrives in its place", async () => {
    const [sender, owner] = [new Rig({ rank: 0, nranks: 2, limits }), new Rig({ rank: 1, nranks: 2, limits })];
    // 1001 rows of 40 bytes: 250 rows a frame
    const shape = [1001, 16];
    const data = await sender.window("data", "int32", shape);
    const target = await owner.window("data", "int32", shape);
    await data.put(1, counting(sender, [1001, 10]), { dstOffset: [0, 3], shape: [1001, 10] });
    expect(sender.sent.map(({ header }) => header.rows)).toEqual([250, 250, 250, 250, 1]);
    for (const { header, payload } of sender.sent) {
      expect(payload.byteLength).toBeLessThanOrEqual(limits.framePayloadBytes);
      owner.feed(0, { ...header }, payload);
    }
    expect(owner.failures).toEqual([]);
    for (let i = 0; i < target.local.array.length; i++) {
      const [row, column] = [Math.floor(i / 16), i % 16];
      expect(target.local.array[i]).toBe(column >= 3 && column < 13 ? row * 10 + column - 3 : 0);
    }
  });

  it("is local when all its frames are, and not before", async () => {
    const rig = new Rig({ limits });
    rig.holds = ({ kind }) => kind === FrameKind.Put;
    const data = await rig.window("data", "int32", [5000]);
    const done = data.put(1, counting(rig, [5000]));
    expect(rig.sent).toHaveLength(2);
    rig.sent[1]!.complete();
    expect(await settled(done)).toBe(false);
    expect(rig.engine.pending.rows()).toMatchObject([
      { call: "put", compare: "local completion of a put to", missing: [1] },
    ]);
    rig.sent[0]!.complete();
    await done;
    expect(rig.engine.pending.rows()).toEqual([]);
  });

  // memory model, line 1: the transport copies small payloads at the call, and is handed the memory itself otherwise
  it("hands over the source itself, so that what is large is read until local completion", async () => {
    const rig = new Rig();
    const data = await rig.window("data", "int32", [SNAPSHOT_BYTES_MAX / 4 + 1]);
    const x = counting(rig, [SNAPSHOT_BYTES_MAX / 4 + 1]);
    void data.put(1, x);
    x.array[0] = -1;
    expect(ints(rig.sent[0]!.payload)[0]).toBe(-1);
  });

  it("rejects when the group ends before it is local", async () => {
    const rig = new Rig();
    rig.holds = ({ kind }) => kind === FrameKind.Put;
    const data = await rig.window("data", "int32", [4]);
    const done = data.put(1, counting(rig, [4]));
    rig.end();
    expect((await errorOf(() => done)).code).toBe("ERR_GROUP_ENDED");
  });
});

describe("put under a fault", () => {
  it("misroute exchanges two peers' puts and nothing else", async () => {
    const rig = new Rig({ nranks: 4, testFault: "misroute:a=1,b=2" });
    const data = await rig.window("data", "int32", [4]);
    const signal = await rig.signal("signal", [4]);
    for (const peer of [1, 2, 3]) await data.put(peer, counting(rig, [4]));
    await signal.notify(1, [0], 1, "set");
    expect(rig.sent.map(({ peer }) => peer)).toEqual([2, 1, 3, 1]);
  });

  it("bad_frame falsifies the nth put's place after all checks", async () => {
    const rig = new Rig({ testFault: "bad_frame:nth=2" });
    const data = await rig.window("data", "int32", [4]);
    for (let i = 0; i < 3; i++) await data.put(1, counting(rig, [4]));
    expect(rig.sent.map(({ header }) => header.offset)).toEqual([0, 2 ** 40, 0]);
  });
});

describe("notify", () => {
  it("is one frame without payload, and is local at once", async () => {
    const rig = new Rig();
    const signal = await rig.signal("signal", [3, 2]);
    await signal.notify(2, [1, 1], -5, "set");
    expect(rig.sent).toHaveLength(1);
    expect(rig.sent[0]?.payload).toHaveLength(0);
    expect(rig.sent[0]).toMatchObject({ peer: 2, exempt: false });
    expect(rig.sent[0]?.header).toMatchObject({ kind: FrameKind.Notify, flags: FrameFlag.Signal, cell: 3, value: -5 });
    expect(rig.engine.counters).toMatchObject({ notifies: 1, puts: 0 });
  });

  it("keeps its place behind puts issued before it without an await", async () => {
    const rig = new Rig({ limits });
    const data = await rig.window("data", "int32", [3000]);
    const signal = await rig.signal("signal", [3]);
    rig.holds = ({ kind }) => kind === FrameKind.Put;
    void data.put(1, counting(rig, [3000]));
    void signal.notify(1, [0], 1, "set");
    expect(rig.sent.map(({ header }) => header.kind)).toEqual([FrameKind.Put, FrameKind.Put, FrameKind.Notify]);
  });
});

describe("get", () => {
  /** Serves the requests that stand in `rig.sent`, the ones from `index` on. */
  function serve(rig: Rig, bytes: Uint8Array, index: number): void {
    const { header } = rig.sent[index]!;
    const reply = new Uint8Array(header.rows * header.rowBytes);
    for (let row = 0; row < header.rows; row++) {
      const start = header.offset + row * header.strideBytes;
      reply.set(bytes.subarray(start, start + header.rowBytes), row * header.rowBytes);
    }
    const answer = { kind: FrameKind.GetReply, value: header.value, rows: 1, rowBytes: reply.byteLength };
    rig.feed(1, answer, reply);
  }

  it("is cut at the frame limit, and replies may come in any order", async () => {
    const rig = new Rig({ limits });
    const data = await rig.window("data", "int32", [100, 50]);
    const theirs = counting(rig, [100, 50]);
    const y = rig.comm.tensor("int32", [100, 40]);
    const done = data.get(1, y, { srcOffset: [0, 7], shape: [100, 40] });
    // 62 rows of 160 bytes in a frame
    expect(rig.sent.map(({ header }) => [header.kind, header.rows])).toEqual([
      [FrameKind.Get, 62],
      [FrameKind.Get, 38],
    ]);
    expect(new Set(rig.sent.map(({ header }) => header.value)).size).toBe(2);
    serve(rig, theirs.bytes, 1);
    expect(await settled(done)).toBe(false);
    serve(rig, theirs.bytes, 0);
    await done;
    for (let i = 0; i < 4000; i++) expect(y.array[i]).toBe(Math.floor(i / 40) * 50 + 7 + (i % 40));
    expect(rig.engine.counters).toMatchObject({ gets: 1, payloadBytesReceived: 16_000 });
  });

  // memory model, line 12: requesters bound their outstanding bytes
  it("asks for no more than getInFlightBytes at once, in order, from each owner", async () => {
    const rig = new Rig({ limits });
    const data = await rig.window("data", "int32", [12_500]);
    const theirs = counting(rig, [12_500]);
    const y = rig.comm.tensor("int32", [12_500]);
    const done = data.get(1, y);
    const offsets = (): number[] => rig.sent.filter(({ peer }) => peer === 1).map(({ header }) => header.offset);
    expect(offsets()).toEqual([0, 10_000]);
    void data.get(2, rig.comm.tensor("int32", [12_500])).catch(() => {});
    expect(rig.sent.filter(({ peer }) => peer === 2)).toHaveLength(2);
    const requests = (): number[] => rig.sent.flatMap(({ peer }, index) => (peer === 1 ? [index] : []));
    for (let served = 0; served < 5; served++) {
      expect(requests()).toHaveLength(Math.min(5, served + 2));
      serve(rig, theirs.bytes, requests()[served]!);
    }
    await done;
    expect(offsets()).toEqual([0, 10_000, 20_000, 30_000, 40_000]);
    expect([...y.array]).toEqual([...theirs.array]);
  });

  it("of no bytes asks nobody", async () => {
    const rig = new Rig();
    const data = await rig.window("data", "int32", [4]);
    await data.get(1, rig.comm.tensor("int32", [4]), { shape: [0] });
    expect(rig.sent).toEqual([]);
    expect(rig.engine.counters.gets).toBe(1);
  });

  it("waits as a row of the wait table, and names the owner at its deadline", async () => {
    const rig = new Rig({ waitTimeoutMs: 20 });
    const data = await rig.window("data", "int32", [4]);
    const done = data.get(2, rig.comm.tensor("int32", [4]));
    expect(rig.engine.pending.rows()).toMatchObject([
      { call: "get", signal: "data", compare: "reply from", missing: [2] },
    ]);
    const error = await errorOf(() => done);
    expect(error).toMatchObject({ code: "ERR_WAIT_TIMEOUT", context: { rank: 0, missing: [2] } });
    expect(error.message).toContain("get: waited 20 ms for the reply from rank 2");
    expect(error.message).toContain("--wait-timeout");
    expect(rig.failure.error).toBe(error);
    expect(rig.engine.pending.rows()).toEqual([]);
  });
});

describe("fence and quiet", () => {
  it("resolve at once when nothing is unacknowledged", async () => {
    const rig = new Rig();
    await rig.comm.fence(1);
    await rig.comm.fence(0);
    await rig.comm.quiet();
    expect(rig.sent).toEqual([]);
  });

  it("ask for an acknowledgement, and resolve when it covers what was sent before", async () => {
    const rig = new Rig();
    const data = await rig.window("data", "int32", [4]);
    const x = counting(rig, [4]);
    await data.put(1, x);
    const fenced = rig.comm.fence(1);
    expect(rig.sent.map(({ header, exempt }) => [header.kind, header.serial, exempt])).toEqual([
      [FrameKind.Put, 2, false],
      [FrameKind.Fence, 3, true],
    ]);
    rig.feed(1, { kind: FrameKind.Ack, ack: 2 });
    expect(await settled(fenced)).toBe(false);
    // any frame carries the acknowledgement
    rig.feed(1, { kind: FrameKind.Checked, ack: 3 });
    await fenced;
    expect(rig.engine.pending.rows()).toEqual([]);
  });

  it("of one peer says nothing about the others; quiet waits for all", async () => {
    const rig = new Rig();
    const data = await rig.window("data", "int32", [4]);
    for (const peer of [1, 2]) await data.put(peer, counting(rig, [4]));
    const quiet = rig.comm.quiet();
    rig.feed(1, { kind: FrameKind.Ack, ack: 3 });
    expect(await settled(quiet)).toBe(false);
    expect(rig.engine.pending.rows()).toMatchObject([{ compare: "acknowledgement from", missing: [2] }]);
    rig.feed(2, { kind: FrameKind.Ack, ack: 3 });
    await quiet;
  });

  it("several in a row resolve in order", async () => {
    const rig = new Rig();
    const data = await rig.window("data", "int32", [4]);
    const order: number[] = [];
    await data.put(1, counting(rig, [4]));
    const first = rig.comm.fence(1).then(() => order.push(1));
    await data.put(1, counting(rig, [4]));
    const second = rig.comm.fence(1).then(() => order.push(2));
    rig.feed(1, { kind: FrameKind.Ack, ack: 4 });
    expect(await settled(first)).toBe(true);
    expect(order).toEqual([1]);
    rig.feed(1, { kind: FrameKind.Ack, ack: 5 });
    await second;
  });

  it("name who has not answered at their deadline", async () => {
    const rig = new Rig({ waitTimeoutMs: 20 });
    const data = await rig.window("data", "int32", [4]);
    rig.feed(1, { kind: FrameKind.Ack, ack: 1 });
    await data.put(2, counting(rig, [4]));
    const error = await errorOf(() => rig.comm.quiet());
    expect(error.message).toContain("quiet: waited 20 ms for the acknowledgement from rank 2");
    expect(rig.failure).toMatchObject({ error, suspect: null });
  });
});
