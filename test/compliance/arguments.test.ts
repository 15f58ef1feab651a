/** What a caller gets wrong is refused before anything moves; what a faulty sender lets through, the owner refuses. */
import { type Comm, NotifyOp, type Signal, type Tensor, WaitCmp, type Window } from "rankwise";
import { describe, expect, test } from "vitest";
import type { ErrorCode } from "../../shared/errors.ts";
import { FrameFlag, type FrameHeader, FrameKind } from "../../shared/frame.ts";
import { internalsOf } from "../../rank/window.ts";
import { range, runRanks, runRanksWell } from "../helpers/ranks.ts";
import { kept } from "./expect.ts";

const { Set: SET, AtomicAdd: ADD } = NotifyOp;
const { Eq: EQ, Ge: GE } = WaitCmp;

interface Things {
  readonly comm: Comm;
  readonly data: Window<"float32">;
  readonly bytes: Window<"uint8">;
  readonly signal: Signal;
  readonly freed: Window<"float32">;
  readonly x: Tensor<"float32">;
  readonly y: Tensor<"int32">;
}

type Mistake = readonly [name: string, code: ErrorCode, argument: string, call: (things: Things) => unknown];

const any = (value: unknown): never => value as never;

/** Each as rank 0 of 2 makes it. Window data float32 [4, 8], tensor x float32 [4, 8], signal [2, 3]. */
const mistakes: readonly Mistake[] = [
  ["put: peer -1", "ERR_PEER_RANGE", "peer", ({ data, x }) => data.put(-1, x)],
  ["put: peer P", "ERR_PEER_RANGE", "peer", ({ data, x }) => data.put(2, x)],
  ["put: peer 0.5", "ERR_PEER_RANGE", "peer", ({ data, x }) => data.put(0.5, x)],
  ["get: peer as text", "ERR_PEER_RANGE", "peer", ({ data, x }) => data.get(any("1"), x)],
  ["notify: peer NaN", "ERR_PEER_RANGE", "peer", ({ signal }) => signal.notify(Number.NaN, [0, 0], 1, SET)],
  ["fence: peer P", "ERR_PEER_RANGE", "peer", ({ comm }) => comm.fence(2)],
  ["put: one offset for two dimensions", "ERR_INVALID_ARGUMENT", "dstOffset", ({ data, x }) => data.put(1, x, { dstOffset: [0], shape: [1, 1] })], // prettier-ignore
  ["put: three offsets", "ERR_INVALID_ARGUMENT", "srcOffset", ({ data, x }) => data.put(1, x, { srcOffset: [0, 0, 0], shape: [1, 1] })], // prettier-ignore
  ["put: an offset that is no integer", "ERR_INVALID_ARGUMENT", "dstOffset", ({ data, x }) => data.put(1, x, { dstOffset: [0.5, 0], shape: [1, 1] })], // prettier-ignore
  ["put: an offset of 2⁵³", "ERR_INVALID_ARGUMENT", "dstOffset", ({ data, x }) => data.put(1, x, { dstOffset: [2 ** 53, 0], shape: [1, 1] })], // prettier-ignore
  ["put: an offset and a length that overflow together", "ERR_OUT_OF_BOUNDS", "dstOffset", ({ data, x }) => data.put(1, x, { dstOffset: [2 ** 53 - 1, 0], shape: [2, 1] })], // prettier-ignore
  ["put: a negative offset", "ERR_OUT_OF_BOUNDS", "dstOffset", ({ data, x }) => data.put(1, x, { dstOffset: [-1, 0], shape: [1, 1] })], // prettier-ignore
  ["put: rows beyond the window", "ERR_OUT_OF_BOUNDS", "dstOffset", ({ data, x }) => data.put(1, x, { dstOffset: [3, 0], shape: [2, 8] })], // prettier-ignore
  ["put: columns beyond the source", "ERR_OUT_OF_BOUNDS", "srcOffset", ({ data, x }) => data.put(1, x, { srcOffset: [0, 1], shape: [1, 8] })], // prettier-ignore
  ["put: a negative length", "ERR_OUT_OF_BOUNDS", "dstOffset", ({ data, x }) => data.put(1, x, { shape: [-1, 8] })],
  ["get: beyond the window", "ERR_OUT_OF_BOUNDS", "srcOffset", ({ data, x }) => data.get(1, x, { srcOffset: [4, 0], shape: [1, 1] })], // prettier-ignore
  ["get: beyond the destination", "ERR_OUT_OF_BOUNDS", "dstOffset", ({ data, x }) => data.get(1, x, { dstOffset: [4, 0], shape: [1, 1] })], // prettier-ignore
  ["remoteStore: beyond the window", "ERR_OUT_OF_BOUNDS", "offset", ({ data, x }) => data.remoteStore(1, [1, 0], x)],
  ["remoteLoad: beyond the window", "ERR_OUT_OF_BOUNDS", "offset", ({ data }) => data.remoteLoad(1, [1, 0], [4, 8])],
  ["remoteLoad: validShape beyond the tile", "ERR_OUT_OF_BOUNDS", "validShape", ({ data }) => data.remoteLoad(1, [0, 0], [2, 2], { validShape: [3, 1] })], // prettier-ignore
  ["put: shapes that differ, without a region", "ERR_SHAPE_MISMATCH", "region", ({ data, comm }) => data.put(1, comm.tensor("float32", [8, 4]))], // prettier-ignore
  ["put: another dtype", "ERR_DTYPE_MISMATCH", "source", ({ data, y }) => data.put(1, any(y))],
  ["get: another dtype", "ERR_DTYPE_MISMATCH", "destination", ({ data, y }) => data.get(1, any(y))],
  ["put: a typed array instead of a tensor", "ERR_INVALID_ARGUMENT", "source", ({ data, x }) => data.put(1, any(x.array))], // prettier-ignore
  ["put: atomic on uint8", "ERR_DTYPE_MISMATCH", "atomic", ({ bytes, comm }) => bytes.put(1, comm.tensor("uint8", [8]), undefined, { atomic: "add" })], // prettier-ignore
  ["put: atomic max", "ERR_INVALID_ARGUMENT", "atomic", ({ data, x }) => data.put(1, x, undefined, { atomic: any("max") })], // prettier-ignore
  ["put: pipeline without chunks", "ERR_INVALID_ARGUMENT", "pipeline", ({ data, x }) => data.put(1, x, undefined, { pipeline: true })], // prettier-ignore
  ["put: pipeline with one chunk size", "ERR_INVALID_ARGUMENT", "pipeline", ({ data, x }) => data.put(1, x, undefined, { pipeline: true, chunkRows: 2 })], // prettier-ignore
  ["put: chunkRows 0", "ERR_INVALID_ARGUMENT", "chunkRows", ({ data, x }) => data.put(1, x, undefined, { chunkRows: 0 })], // prettier-ignore
  ["get: chunkCols 1.5", "ERR_INVALID_ARGUMENT", "chunkCols", ({ data, x }) => data.get(1, x, undefined, { chunkCols: 1.5 })], // prettier-ignore
  ["put: a freed window", "ERR_WINDOW_FREED", "", ({ freed, x }) => freed.put(1, x)],
  ["get: a freed window", "ERR_WINDOW_FREED", "", ({ freed, x }) => freed.get(1, x)],
  ["free: twice", "ERR_WINDOW_FREED", "", ({ freed }) => freed.free()],
  ["put: onto its own source", "ERR_ALIASED_BUFFERS", "", ({ data }) => data.put(0, data.local, { srcOffset: [0, 0], dstOffset: [1, 0], shape: [2, 8] })], // prettier-ignore
  ["get: onto its own source", "ERR_ALIASED_BUFFERS", "", ({ data }) => data.get(0, data.local, { srcOffset: [0, 0], dstOffset: [0, 1], shape: [4, 2] })], // prettier-ignore
  ["put into a signal", "ERR_NOT_A_SIGNAL", "", ({ signal, comm }) => signal.put(1, comm.tensor("int32", [2, 3]))],
  ["putSignal: a plain tensor as the signal", "ERR_NOT_A_SIGNAL", "signal", ({ data, x, y }) => data.putSignal(1, x, undefined, any(y), [0, 0], 1, SET)], // prettier-ignore
  ["all_to_all: a plain tensor as the peers' target", "ERR_NOT_A_WINDOW", "data", ({ comm, x, signal }) => comm.allToAll(x, any(x), signal)], // prettier-ignore
  ["barrier: a window that is no signal", "ERR_NOT_A_SIGNAL", "signal", ({ comm, data }) => comm.barrier(any(data))],
  ["barrier: an INT32 tensor", "ERR_NOT_A_SIGNAL", "signal", ({ comm, y }) => comm.barrier(any(y))],
  ["putSignal: a window as the signal", "ERR_NOT_A_SIGNAL", "signal", ({ data, x }) => data.putSignal(1, x, undefined, any(data), [0, 0], 1, SET)], // prettier-ignore
  ["putSignal: a cell outside", "ERR_OUT_OF_BOUNDS", "offset", ({ data, x, signal }) => data.putSignal(1, x, undefined, signal, [2, 0], 1, SET)], // prettier-ignore
  ["notify: a cell outside", "ERR_OUT_OF_BOUNDS", "offset", ({ signal }) => signal.notify(1, [0, 3], 1, SET)],
  ["notify: one offset for two dimensions", "ERR_INVALID_ARGUMENT", "offset", ({ signal }) => signal.notify(1, [0], 1, SET)], // prettier-ignore
  ["notify: 2³¹", "ERR_INVALID_ARGUMENT", "value", ({ signal }) => signal.notify(1, [0, 0], 2 ** 31, ADD)],
  ["notify: 0.5", "ERR_INVALID_ARGUMENT", "value", ({ signal }) => signal.notify(1, [0, 0], 0.5, ADD)],
  ["notify: an unknown op", "ERR_INVALID_ARGUMENT", "op", ({ signal }) => signal.notify(1, [0, 0], 1, any("add"))],
  ["wait: a cell outside", "ERR_OUT_OF_BOUNDS", "offset", ({ signal }) => signal.wait([2, 0], 1, GE)],
  ["wait: an unknown comparison", "ERR_INVALID_ARGUMENT", "cmp", ({ signal }) => signal.wait([0, 0], 1, any("gt"))],
  ["wait: expected -2³¹ - 1", "ERR_INVALID_ARGUMENT", "expected", ({ signal }) => signal.wait([0, 0], -(2 ** 31) - 1, GE)], // prettier-ignore
  ["wait: timeoutMs 0", "ERR_INVALID_ARGUMENT", "timeoutMs", ({ signal }) => signal.wait([0, 0], 1, GE, { timeoutMs: 0 })], // prettier-ignore
  ["deferWait: Eq", "ERR_INVALID_ARGUMENT", "compare", ({ signal }) => signal.deferWait([{ offset: [0, 0], expected: 1, compare: EQ }])], // prettier-ignore
  ["deferWait: 65 conditions", "ERR_LIMIT", "conditions", ({ signal }) => signal.deferWait(range(65).map(() => ({ offset: [0, 0], expected: 0 })))], // prettier-ignore
  ["deferWait: expected -1", "ERR_INVALID_ARGUMENT", "expected", ({ signal }) => signal.deferWait([{ offset: [0, 0], expected: -1 }])], // prettier-ignore
  ["deferWait: expected 2³¹", "ERR_INVALID_ARGUMENT", "expected", ({ signal }) => signal.deferWait([{ offset: [0, 0], expected: 2 ** 31 }])], // prettier-ignore
  ["deferWait: a cell outside", "ERR_OUT_OF_BOUNDS", "offset", ({ signal }) => signal.deferWait([{ offset: [2, 0], expected: 1 }])], // prettier-ignore
  ["task: after something that is no task", "ERR_INVALID_ARGUMENT", "after", ({ comm }) => comm.task(() => undefined, { after: Promise.resolve() })], // prettier-ignore
  ["launch: no lanes", "ERR_INVALID_ARGUMENT", "lanes", ({ comm }) => comm.launch(0, () => undefined)],
  ["launch: half a lane", "ERR_INVALID_ARGUMENT", "lanes", ({ comm }) => comm.launch(0.5, () => undefined)],
  ["launch: more lanes than the platform has", "ERR_LIMIT", "lanes", ({ comm }) => comm.launch(37, () => undefined)],
  ["group: empty", "ERR_INVALID_ARGUMENT", "ranks", ({ comm }) => comm.group([])],
  ["group: a rank twice", "ERR_INVALID_ARGUMENT", "ranks", ({ comm }) => comm.group([0, 1, 0])],
  ["group: a rank that does not exist", "ERR_PEER_RANGE", "ranks", ({ comm }) => comm.group([0, 2])],
  ["group: without oneself", "ERR_NOT_MEMBER", "ranks", ({ comm }) => comm.group([1])],
  ["window: a name that lives", "ERR_NAME_IN_USE", "", ({ comm }) => comm.window("data", "float32", [1])],
  ["window: no name", "ERR_INVALID_ARGUMENT", "name", ({ comm }) => comm.window("", "float32", [1])],
  ["window: an unknown dtype", "ERR_INVALID_ARGUMENT", "dtype", ({ comm }) => comm.window("w", any("float8"), [1])],
  ["window: a negative length", "ERR_INVALID_ARGUMENT", "shape", ({ comm }) => comm.window("w", "int8", [-1])],
  ["window: nine dimensions", "ERR_INVALID_ARGUMENT", "shape", ({ comm }) => comm.window("w", "int8", [1, 1, 1, 1, 1, 1, 1, 1, 1])], // prettier-ignore
  ["window: a length of 2⁵³", "ERR_INVALID_ARGUMENT", "shape", ({ comm }) => comm.window("w", "int8", [2 ** 53])],
  ["window: lengths whose product overflows", "ERR_SIZE_LIMIT", "", ({ comm }) => comm.window("w", "int8", [2 ** 30, 2 ** 30])], // prettier-ignore
  ["window: more than 4 GiB", "ERR_SIZE_LIMIT", "", ({ comm }) => comm.window("w", "float32", [2 ** 30 + 1])],
  ["tensor: another typed array", "ERR_INVALID_ARGUMENT", "array", ({ comm }) => comm.tensor("float32", [2], any(new Float64Array(2)))], // prettier-ignore
  ["tensor: too short an array", "ERR_SHAPE_MISMATCH", "array", ({ comm }) => comm.tensor("float32", [2], new Float32Array(1))], // prettier-ignore
  ["tensor: a strided array", "ERR_NOT_CONTIGUOUS", "array", ({ comm }) => comm.tensor("float32", [2], any({ data: new Float32Array(4), stride: [2] }))], // prettier-ignore
  ["tensor: a list of numbers", "ERR_INVALID_ARGUMENT", "array", ({ comm }) => comm.tensor("float32", [2], any([1, 2]))], // prettier-ignore
  ["view: at a byte that no element starts at", "ERR_NOT_CONTIGUOUS", "byteOffset", ({ x }) => x.view("float32", [1], 2)], // prettier-ignore
  ["view: beyond the tensor", "ERR_OUT_OF_BOUNDS", "byteOffset", ({ x }) => x.view("float64", [16], 8)],
];

describe("the caller", () => {
  test("is told what is wrong, by argument, before anything moves", async () => {
    await runRanksWell({
      nranks: 2,
      main: async (comm) => {
        const things: Things = {
          comm,
          data: await comm.window("data", "float32", [4, 8]),
          bytes: await comm.window("bytes", "uint8", [8]),
          signal: await comm.signal("signal", [2, 3]),
          freed: await comm.window("freed", "float32", [4, 8]),
          x: comm.tensor("float32", [4, 8]),
          y: comm.tensor("int32", [4, 8]),
        };
        await things.freed.free();
        const engine = internalsOf(things.data)?.engine;
        things.x.array.fill(1);
        const sent = engine?.counters.framesSent;
        if (comm.rank === 0) {
          for (const [name, code, argument, call] of mistakes) {
            const error = await refusal(() => call(things));
            expect.soft(error, name).toMatchObject({ name: "RankwiseError", code });
            const context = (error as { context?: { argument?: string } }).context;
            if (argument !== "") expect.soft(context?.argument, name).toBe(argument);
          }
          expect(engine?.counters.framesSent).toBe(sent);
        }
        // nothing was changed, and the group works on
        const credits = await comm.signal("credits", [2, 1]);
        await comm.barrier(credits);
        for (const { local } of [things.data, things.bytes, things.signal]) {
          expect(local.bytes.every((byte) => byte === 0)).toBe(true);
        }
        const after = await comm.window("w", "int8", [3]);
        expect(after.shape).toEqual([3]);
      },
    });
  });
});

async function refusal(call: () => unknown): Promise<unknown> {
  try {
    return await call();
  } catch (error) {
    return error;
  }
}

interface Tampering {
  readonly name: string;
  /** What rank 0 issues toward rank 1. */
  readonly issue: (things: Omit<Things, "freed"> & { readonly wide: Window<"int64"> }) => Promise<unknown>;
  /** What becomes of the header on its way. */
  readonly change: (header: FrameHeader) => Partial<FrameHeader>;
  readonly code: ErrorCode;
  readonly message: RegExp;
}

const put: Tampering["issue"] = ({ data, x }) => data.put(1, x, { shape: [2, 3] });
const add: Tampering["issue"] = ({ data, x }) => data.put(1, x, { shape: [2, 4] }, { atomic: "add" });
const notify: Tampering["issue"] = ({ signal }) => signal.notify(1, [0, 0], 1, ADD);
const get: Tampering["issue"] = ({ data, x }) => data.get(1, x, { shape: [2, 3] });
const ordinal = { data: 0, bytes: 1, signal: 2, wide: 3 };

const tamperings: readonly Tampering[] = [
  { name: "put far beyond its window", issue: put, change: () => ({ offset: 2 ** 40 }), code: "ERR_FRAME_BOUNDS", message: /put: 2 × 12 bytes at byte 1099511627776/u }, // prettier-ignore
  { name: "put that begins inside and ends outside", issue: put, change: () => ({ offset: 112 }), code: "ERR_FRAME_BOUNDS", message: /exceed window "data" of 128 bytes/u }, // prettier-ignore
  { name: "put whose stride leads outside", issue: put, change: () => ({ strideBytes: 2 ** 32 - 1 }), code: "ERR_FRAME_BOUNDS", message: /stride 4294967295/u }, // prettier-ignore
  { name: "put whose rows overlap", issue: put, change: () => ({ strideBytes: 4 }), code: "ERR_FRAME_BOUNDS", message: /stride 4/u }, // prettier-ignore
  { name: "put at a negative byte", issue: put, change: () => ({ offset: -8 }), code: "ERR_BAD_FRAME", message: /offset -8/u }, // prettier-ignore
  { name: "put at no byte at all", issue: put, change: () => ({ offset: Number.NaN }), code: "ERR_BAD_FRAME", message: /offset NaN/u }, // prettier-ignore
  { name: "put at byte 2⁵³", issue: put, change: () => ({ offset: 2 ** 53 }), code: "ERR_BAD_FRAME", message: /offset 9007199254740992/u }, // prettier-ignore
  { name: "put that announces more than it carries", issue: put, change: () => ({ rows: 3 }), code: "ERR_BAD_FRAME", message: /24 bytes of payload where the header announces 36/u }, // prettier-ignore
  { name: "put of absurdly many rows", issue: put, change: () => ({ rows: 2 ** 32 - 1 }), code: "ERR_BAD_FRAME", message: /exceed FRAME_PAYLOAD_BYTES_MAX/u }, // prettier-ignore
  { name: "put into a window that does not exist", issue: put, change: () => ({ window: 77 }), code: "ERR_FRAME_BOUNDS", message: /window 77 of group 0/u }, // prettier-ignore
  { name: "put into a group that does not exist", issue: put, change: () => ({ group: 5 }), code: "ERR_FRAME_BOUNDS", message: /group 5/u }, // prettier-ignore
  { name: "put into a signal", issue: put, change: () => ({ window: ordinal.signal, rows: 1, rowBytes: 24 }), code: "ERR_NOT_A_SIGNAL", message: /only notify changes a signal/u }, // prettier-ignore
  { name: "atomic put of another dtype", issue: add, change: () => ({ dtype: 5 }), code: "ERR_BAD_FRAME", message: /atomic put of dtype code 5/u }, // prettier-ignore
  { name: "atomic put between elements", issue: add, change: () => ({ offset: 2 }), code: "ERR_BAD_FRAME", message: /at byte 2/u }, // prettier-ignore
  { name: "atomic put into int64", issue: add, change: () => ({ window: ordinal.wide }), code: "ERR_BAD_FRAME", message: /into int64 window/u }, // prettier-ignore
  { name: "notify of a cell outside", issue: notify, change: () => ({ cell: 6 }), code: "ERR_FRAME_BOUNDS", message: /cell 6 is outside signal "signal" with 6 cells/u }, // prettier-ignore
  { name: "notify of the last cell there can be", issue: notify, change: () => ({ cell: 2 ** 32 - 1 }), code: "ERR_FRAME_BOUNDS", message: /cell 4294967295/u }, // prettier-ignore
  { name: "notify of a window", issue: notify, change: () => ({ signal: ordinal.data }), code: "ERR_NOT_A_SIGNAL", message: /only signals are notified/u }, // prettier-ignore
  { name: "get beyond its window", issue: get, change: () => ({ offset: 120 }), code: "ERR_FRAME_BOUNDS", message: /get: 2 × 12 bytes at byte 120/u }, // prettier-ignore
  { name: "get from a window that does not exist", issue: get, change: () => ({ window: 9 }), code: "ERR_FRAME_BOUNDS", message: /window 9/u }, // prettier-ignore
  { name: "reply that nobody asked for", issue: put, change: () => ({ kind: FrameKind.GetReply, value: 3 }), code: "ERR_BAD_FRAME", message: /get 3, which is not pending/u }, // prettier-ignore
  { name: "frame of an unknown kind", issue: notify, change: () => ({ kind: 99 as FrameHeader["kind"] }), code: "ERR_BAD_FRAME", message: /kind 99/u }, // prettier-ignore
  { name: "frame with unknown flags", issue: notify, change: ({ flags }) => ({ flags: flags | 128 }), code: "ERR_BAD_FRAME", message: /flags/u }, // prettier-ignore
  { name: "second welcome", issue: notify, change: () => ({ kind: FrameKind.Welcome }), code: "ERR_BAD_FRAME", message: /welcome/u }, // prettier-ignore
  { name: "frame whose number is not the next", issue: notify, change: ({ serial }) => ({ serial: serial + 1 }), code: "ERR_BAD_FRAME", message: /frame \d+ arrived where frame \d+ was due/u }, // prettier-ignore
  { name: "Set over AtomicAdd", issue: async (things) => { await notify(things); await things.signal.notify(1, [0, 0], 5, ADD); }, change: ({ value, flags }) => (value === 5 ? { flags: flags & ~FrameFlag.SignalAdd } : {}), code: "ERR_NOTIFY_MIXED", message: /Set on cell \[0, 0\] of signal "signal", last changed by AtomicAdd from rank 0/u }, // prettier-ignore
];

describe.each(["inproc", "tcp", "tcp direct"] as const)("the owner, over %s", (transport) => {
  test.each(tamperings)("refuses a $name, ends the group and names the sender", async (tampering) => {
    let tampers = false;
    const owned: Uint8Array[] = [];
    const { failure } = await runRanks({
      transport,
      nranks: 3,
      waitTimeoutMs: 2000,
      interposed: {
        transport: (inner, { rank }) => ({
          address: inner.address,
          connect: (addresses) => inner.connect(addresses),
          close: () => inner.close(),
          send: (peer, header, payload, exempt) => {
            const aimed = tampers && rank === 0 && peer === 1;
            return inner.send(peer, aimed ? { ...header, ...tampering.change(header) } : header, payload, exempt);
          },
        }),
      },
      main: async (comm) => {
        const data = await comm.window("data", "float32", [4, 8]);
        const bytes = await comm.window("bytes", "uint8", [8]);
        const signal = await comm.signal("signal", [2, 3]);
        const wide = await comm.window("wide", "int64", [4, 8]);
        const credits = await comm.signal("credits", [3, 1]);
        await comm.barrier(credits);
        if (comm.rank === 1) owned.push(data.local.bytes, bytes.local.bytes, wide.local.bytes);
        if (comm.rank === 0) {
          const x = comm.tensor("float32", [4, 8]);
          x.array.fill(1);
          tampers = true;
          await tampering.issue({ comm, data, bytes, signal, wide, x, y: comm.tensor("int32", [4, 8]) });
        }
        // everybody hears of it, whatever it is waiting for
        await kept([signal.wait([1, 2], 1, GE)])[0];
      },
    });
    expect(failure?.error.code, failure?.error.message).toBe(tampering.code);
    expect(failure?.error.message).toMatch(tampering.message);
    expect(failure?.suspect).toBe(0);
    for (const bytes of owned) expect(bytes.every((byte) => byte === 0)).toBe(true);
  });
});
