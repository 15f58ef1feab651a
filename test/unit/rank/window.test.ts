import { beforeEach, describe, expect, it } from "vitest";
import { NotifyOp, WaitCmp } from "../../../rank/primitives.ts";
import { type Signal, type Window } from "../../../rank/window.ts";
import type { Tensor } from "../../../rank/memory/tensor.ts";
import type { ErrorCode } from "../../../shared/errors.ts";
import { errorOf, expectRefusal, Rig, run } from "../../helpers/sim.ts";

const { Set, AtomicAdd } = NotifyOp;
const { Eq, Ge } = WaitCmp;

/** What a caller without types may hand over. */
const any = (value: unknown): never => value as never;

describe("argument checks", () => {
  let rig: Rig;
  let data: Window<"float32">;
  let signal: Signal;
  let x: Tensor<"float32">;

  beforeEach(async () => {
    rig = new Rig({ rank: 0, nranks: 3 });
    data = await rig.window("data", "float32", [4, 8]);
    signal = await rig.signal("signal", [3, 1]);
    x = rig.comm.tensor("float32", [4, 8]);
    x.array.fill(5);
  });

  /** Everything that a refused call must leave as it was. */
  async function refused(call: () => unknown, code: ErrorCode, argument?: string): Promise<string> {
    const before = { ...rig.engine.counters };
    const { message } = await expectRefusal(call, code, argument);
    expect(rig.sent).toEqual([]);
    expect(rig.engine.counters).toEqual(before);
    expect(data.local.array.every((value) => value === 0)).toBe(true);
    expect(signal.local.array.every((value) => value === 0)).toBe(true);
    expect(rig.engine.pending.rows()).toEqual([]);
    expect(rig.failures).toEqual([]);
    return message;
  }

  describe("peer", () => {
    const calls: [string, (peer: number) => unknown][] = [
      ["put", (peer) => data.put(peer, x)],
      ["get", (peer) => data.get(peer, x)],
      ["putSignal", (peer) => data.putSignal(peer, x, undefined, signal, [0, 0], 1, Set)],
      ["remoteStore", (peer) => data.remoteStore(peer, [0, 0], x)],
      ["remoteLoad", (peer) => data.remoteLoad(peer, [0, 0], [1, 8])],
      ["notify", (peer) => signal.notify(peer, [0, 0], 1, Set)],
      ["fence", (peer) => rig.comm.fence(peer)],
    ];

    // (rank - 1) % P is -1 at rank 0 in JavaScript, and a peer in PyPTO's Python
    it.each(calls)("of %s may not be (rank - 1) %% P", async (call, issue) => {
      const message = await refused(() => issue((rig.comm.rank - 1) % rig.comm.nranks), "ERR_PEER_RANGE", "peer");
      expect(message).toMatch(new RegExp(`^${call}: peer must be an integer in \\[0, 3\\), got -1; `, "u"));
      expect(message).toContain("(rank - 1 + nranks) % nranks");
    });

    it.each(calls)("of %s must be an index of the group", async (call, issue) => {
      for (const [peer, shown] of [
        [3, "3"],
        [1.5, "1.5"],
        [Number.NaN, "NaN"],
        ["1", '"1"'],
        [undefined, "undefined"],
        [1n, "1"],
        [[1], "[1]"],
      ] as const) {
        const message = await refused(() => issue(any(peer)), "ERR_PEER_RANGE", "peer");
        expect(message).toBe(`${call}: peer must be an integer in [0, 3), got ${shown}`);
      }
    });
  });

  describe("regions of a put", () => {
    const put = (region: unknown): Promise<void> => data.put(1, x, any(region));

    it("outside of the window name the offset, the window and its shape", async () => {
      expect(await refused(() => put({ dstOffset: [3, 0], shape: [2, 8] }), "ERR_OUT_OF_BOUNDS", "dstOffset")).toBe(
        'put: rows [3, 5) exceed window "data" [4, 8]; check dstOffset',
      );
      expect(await refused(() => put({ dstOffset: [0, 7], shape: [1, 2] }), "ERR_OUT_OF_BOUNDS", "dstOffset")).toBe(
        'put: elements of dimension 1 [7, 9) exceed window "data" [4, 8]; check dstOffset',
      );
      await refused(() => put({ dstOffset: [-1, 0], shape: [1, 8] }), "ERR_OUT_OF_BOUNDS", "dstOffset");
    });

    it("outside of the source name its offset", async () => {
      expect(await refused(() => put({ srcOffset: [4, 0], shape: [1, 8] }), "ERR_OUT_OF_BOUNDS", "srcOffset")).toBe(
        "put: rows [4, 5) exceed the source [4, 8]; check srcOffset",
      );
      const small = rig.comm.tensor("float32", [2, 8]);
      await refused(() => data.put(1, small, { shape: [3, 8] }), "ERR_OUT_OF_BOUNDS", "srcOffset");
    });

    it("with a wrong number of offsets or lengths are no blocks", async () => {
      await refused(() => put({ dstOffset: [1], shape: [1, 8] }), "ERR_INVALID_ARGUMENT", "dstOffset");
      await refused(() => put({ srcOffset: [1, 0, 0], shape: [1, 8] }), "ERR_INVALID_ARGUMENT", "srcOffset");
      await refused(() => put({ shape: [8] }), "ERR_INVALID_ARGUMENT", "shape");
      await refused(() => put({}), "ERR_INVALID_ARGUMENT", "shape");
      await refused(() => put({ dstOffset: 0, shape: [1, 8] }), "ERR_INVALID_ARGUMENT", "dstOffset");
      await refused(() => put({ shape: [1, 8.5] }), "ERR_INVALID_ARGUMENT");
    });

    it("must be objects", async () => {
      for (const region of [7, "all", [], null]) await refused(() => put(region), "ERR_INVALID_ARGUMENT");
    });

    it("may be left out when the shapes match", async () => {
      const other = rig.comm.tensor("float32", [8, 4]);
      const message = await refused(() => data.put(1, other), "ERR_SHAPE_MISMATCH", "region");
      expect(message).toBe('put: without a region the shapes must match: [8, 4] and window "data" [4, 8]');
    });
  });

  it("a get is checked like a put, with its offsets the other way round", async () => {
    await refused(() => data.get(1, x, { srcOffset: [4, 0], shape: [1, 8] }), "ERR_OUT_OF_BOUNDS", "srcOffset");
    await refused(() => data.get(1, x, { dstOffset: [4, 0], shape: [1, 8] }), "ERR_OUT_OF_BOUNDS", "dstOffset");
    await refused(() => data.get(1, rig.comm.tensor("float32", [2, 2])), "ERR_SHAPE_MISMATCH", "region");
    await refused(() => data.get(1, any(new Float32Array(32))), "ERR_INVALID_ARGUMENT", "destination");
    await refused(() => data.get(1, any(rig.comm.tensor("int32", [4, 8]))), "ERR_DTYPE_MISMATCH", "destination");
  });

  it("remoteStore and remoteLoad name their own arguments", async () => {
    await refused(() => data.remoteStore(1, [1, 0], x), "ERR_OUT_OF_BOUNDS");
    await refused(() => data.remoteStore(1, [0, 0], any(new Float32Array(8))), "ERR_INVALID_ARGUMENT", "source");
    await refused(() => data.remoteLoad(1, [3, 0], [2, 8]), "ERR_OUT_OF_BOUNDS");
    await refused(() => data.remoteLoad(1, [0, 0], any("8")), "ERR_INVALID_ARGUMENT", "shape");
    await refused(() => data.remoteLoad(1, [0, 0], [1, 8], { validShape: [2, 8] }), "ERR_OUT_OF_BOUNDS", "validShape");
  });

  it("a source is a tensor of the window's dtype", async () => {
    expect(
      await refused(() => data.put(1, any(rig.comm.tensor("int32", [4, 8]))), "ERR_DTYPE_MISMATCH", "source"),
    ).toBe('put: source is int32, window "data" is float32; a view has the other dtype');
    for (const source of [new Float32Array(32), data, null, undefined]) {
      await refused(() => data.put(1, any(source)), "ERR_INVALID_ARGUMENT", "source");
    }
  });

  it("chunks are positive integers, and a pipeline needs both", async () => {
    const put = (options: object): Promise<void> => data.put(1, x, undefined, any(options));
    await refused(() => put({ chunkRows: 0 }), "ERR_INVALID_ARGUMENT", "chunkRows");
    await refused(() => put({ chunkCols: -1 }), "ERR_INVALID_ARGUMENT", "chunkCols");
    await refused(() => put({ chunkCols: 1.5 }), "ERR_INVALID_ARGUMENT", "chunkCols");
    await refused(() => put({ pipeline: true }), "ERR_INVALID_ARGUMENT", "pipeline");
    await refused(() => put({ pipeline: true, chunkRows: 2 }), "ERR_INVALID_ARGUMENT", "pipeline");
  });

  it("an atomic put adds, in the dtypes that can", async () => {
    await refused(() => data.put(1, x, undefined, any({ atomic: "max" })), "ERR_INVALID_ARGUMENT", "atomic");
    const wide = await rig.window("wide", "int64", [2]);
    await refused(
      () => wide.put(1, rig.comm.tensor("int64", [2]), undefined, { atomic: "add" }),
      "ERR_DTYPE_MISMATCH",
      "atomic",
    );
  });

  it("a put or get to oneself may not overlap its own window", async () => {
    const own = data.local;
    expect(
      await refused(
        () => data.put(0, own, { srcOffset: [0, 0], dstOffset: [1, 0], shape: [2, 8] }),
        "ERR_ALIASED_BUFFERS",
      ),
    ).toBe('put: source and destination overlap in window "data" of this rank');
    await refused(() => data.get(0, own), "ERR_ALIASED_BUFFERS");
  });

  it("a put to oneself within the window is legal where nothing overlaps", async () => {
    data.local.array.set([1, 2, 3, 4, 5, 6, 7, 8]);
    await data.put(0, data.local, { srcOffset: [0, 0], dstOffset: [1, 0], shape: [1, 8] });
    // columns of interleaved rows do not share a byte
    await data.put(0, data.local, { srcOffset: [0, 0], dstOffset: [0, 4], shape: [4, 4] });
    expect([...data.local.array.subarray(0, 16)]).toEqual([1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4]);
  });

  it("signals take no puts", async () => {
    const cells = rig.comm.tensor("int32", [3, 1]);
    expect(await refused(() => signal.put(1, cells), "ERR_NOT_A_SIGNAL")).toBe(
      'put: "signal" is a signal; only notify changes a signal',
    );
    await refused(() => signal.putSignal(1, cells, undefined, signal, [0, 0], 1, Set), "ERR_NOT_A_SIGNAL");
    await refused(() => signal.remoteStore(1, [0, 0], cells), "ERR_NOT_A_SIGNAL");
  });

  describe("notify", () => {
    it("names a cell outside, and a wrong number of offsets", async () => {
      expect(await refused(() => signal.notify(1, [3, 0], 1, Set), "ERR_OUT_OF_BOUNDS", "offset")).toBe(
        'notify: rows [3, 4) exceed signal "signal" [3, 1]; check offset',
      );
      await refused(() => signal.notify(1, [0, 1], 1, Set), "ERR_OUT_OF_BOUNDS", "offset");
      await refused(() => signal.notify(1, [-1, 0], 1, Set), "ERR_OUT_OF_BOUNDS", "offset");
      await refused(() => signal.notify(1, [0], 1, Set), "ERR_INVALID_ARGUMENT", "offset");
      await refused(() => signal.notify(1, any(0), 1, Set), "ERR_INVALID_ARGUMENT", "offset");
      await refused(() => signal.notify(1, any(undefined), 1, Set), "ERR_INVALID_ARGUMENT", "offset");
    });

    it.each([2 ** 31, -(2 ** 31) - 1, 0.5, Number.NaN, "1", undefined, 1n])("refuses the value %o", async (value) => {
      await refused(() => signal.notify(1, [0, 0], any(value), Set), "ERR_INVALID_ARGUMENT", "value");
    });

    it("takes every INT32", async () => {
      for (const value of [2 ** 31 - 1, -(2 ** 31)]) await signal.notify(1, [0, 0], value, Set);
      expect(rig.sent.map(({ header }) => header.value)).toEqual([2 ** 31 - 1, -(2 ** 31)]);
    });

    it.each(["add", "Set", 0, undefined, null])("refuses the op %o", async (op) => {
      await refused(() => signal.notify(1, [0, 0], 1, any(op)), "ERR_INVALID_ARGUMENT", "op");
    });

    it("takes the plain strings", async () => {
      await signal.notify(1, [0, 0], 1, "set");
      await signal.notify(1, [0, 0], 1, "atomic_add");
      expect(rig.sent).toHaveLength(2);
    });
  });

  describe("wait", () => {
    it("names a cell outside, and what cannot be awaited", async () => {
      await refused(() => signal.wait([3, 0], 1, Ge), "ERR_OUT_OF_BOUNDS", "offset");
      await refused(() => signal.wait([0], 1, Ge), "ERR_INVALID_ARGUMENT", "offset");
      await refused(() => signal.wait([0, 0], 2 ** 31, Ge), "ERR_INVALID_ARGUMENT", "expected");
      await refused(() => signal.wait([0, 0], 1, any(">=")), "ERR_INVALID_ARGUMENT", "cmp");
      await refused(() => signal.wait([0, 0], 1, any(undefined)), "ERR_INVALID_ARGUMENT", "cmp");
    });

    it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31, "5"])(
      "refuses the deadline %o",
      async (timeoutMs) => {
        await refused(
          () => signal.wait([0, 0], 0, Ge, { timeoutMs: any(timeoutMs) }),
          "ERR_INVALID_ARGUMENT",
          "timeoutMs",
        );
      },
    );
  });

  it("putSignal checks window, region, signal, cell, value and op before anything moves", async () => {
    const call = (signalled: unknown, offset: unknown, value: unknown, op: unknown) => () =>
      data.putSignal(1, x, undefined, any(signalled), any(offset), any(value), any(op));
    await refused(call(data, [0, 0], 1, Set), "ERR_NOT_A_SIGNAL", "signal");
    await refused(call(x, [0, 0], 1, Set), "ERR_NOT_A_SIGNAL", "signal");
    await refused(call(signal, [3, 0], 1, Set), "ERR_OUT_OF_BOUNDS", "offset");
    await refused(call(signal, [0, 0], 0.5, Set), "ERR_INVALID_ARGUMENT", "value");
    await refused(call(signal, [0, 0], 1, "add"), "ERR_INVALID_ARGUMENT", "op");
    await refused(
      () => data.putSignal(1, x, { dstOffset: [4, 0], shape: [1, 8] }, signal, [0, 0], 1, Set),
      "ERR_OUT_OF_BOUNDS",
      "dstOffset",
    );
  });

  it("putSignal refuses what is no signal object", async () => {
    for (const value of [undefined, null, 5]) {
      await refused(() => data.putSignal(1, x, undefined, any(value), [0, 0], 1, Set), "ERR_NOT_A_SIGNAL", "signal");
    }
  });

  it("windows and signals have names, dtypes and shapes", async () => {
    await refused(() => rig.comm.window("", "int8", [1]), "ERR_INVALID_ARGUMENT", "name");
    await refused(() => rig.comm.window("n".repeat(256), "int8", [1]), "ERR_INVALID_ARGUMENT", "name");
    await refused(() => rig.comm.window(any(5), "int8", [1]), "ERR_INVALID_ARGUMENT", "name");
    await refused(() => rig.comm.window("w", any("FP32"), [1]), "ERR_INVALID_ARGUMENT", "dtype");
    await refused(() => rig.comm.window("w", "int8", []), "ERR_INVALID_ARGUMENT", "shape");
    await refused(() => rig.comm.window("w", "int8", [2 ** 32 + 1]), "ERR_SIZE_LIMIT");
    await refused(() => rig.comm.window("data", "int8", [1]), "ERR_NAME_IN_USE");
    await refused(() => rig.comm.signal("data", [1]), "ERR_NAME_IN_USE");
    await refused(() => rig.comm.signal("s", any(3)), "ERR_INVALID_ARGUMENT", "shape");
  });
});

describe("a freed window", () => {
  it("takes no call any more, and gives its name back", async () => {
    await run(2, async (comm) => {
      const data = await comm.window("data", "int32", [2]);
      const signal = await comm.signal("signal", [2, 1]);
      const x = comm.tensor("int32", [2]);
      await data.free();
      await signal.free();
      const calls = [
        () => data.put(0, x),
        () => data.get(0, x),
        () => data.free(),
        () => signal.notify(0, [0, 0], 1, Set),
        () => signal.wait([0, 0], 0, Ge),
        () => comm.barrier(signal),
      ];
      for (const call of calls) await expectRefusal(call, "ERR_WINDOW_FREED");
      const again = await comm.window("data", "float32", [3]);
      expect(again.shape).toEqual([3]);
    });
  });
});

describe("primitives", () => {
  it("put blocks of two and three dimensions, and leave the rest as it was", async () => {
    await run(2, async (comm) => {
      const data = await comm.window("data", "int32", [3, 4, 5]);
      const ready = await comm.signal("ready", [2, 1]);
      const x = comm.tensor("int32", [4, 4, 4]);
      for (let i = 0; i < 64; i++) x.array[i] = comm.rank * 1000 + i;
      const peer = 1 - comm.rank;
      await data.put(peer, x, { dstOffset: [1, 2, 1], srcOffset: [0, 1, 2], shape: [2, 2, 2] });
      await ready.notify(peer, [comm.rank, 0], 1, Set);
      await ready.wait([peer, 0], 1, Ge);
      const expected = new Int32Array(60);
      for (let i = 0; i < 2; i++) {
        for (let j = 0; j < 2; j++) {
          for (let k = 0; k < 2; k++) {
            expected[(1 + i) * 20 + (2 + j) * 5 + 1 + k] = peer * 1000 + i * 16 + (1 + j) * 4 + 2 + k;
          }
        }
      }
      expect([...data.local.array]).toEqual([...expected]);
    });
  });

  it("get a peer's block into a private tensor", async () => {
    await run(3, async (comm) => {
      const data = await comm.window("data", "int32", [4, 4]);
      const all = await comm.signal("all", [3, 1]);
      for (let i = 0; i < 16; i++) data.local.array[i] = comm.rank * 100 + i;
      await comm.barrier(all);
      const next = (comm.rank + 1) % 3;
      const y = comm.tensor("int32", [3, 3]);
      await data.get(next, y, { srcOffset: [2, 1], dstOffset: [1, 1], shape: [2, 2] });
      const at = (i: number): number => next * 100 + i;
      expect([...y.array]).toEqual([0, 0, 0, 0, at(9), at(10), 0, at(13), at(14)]);
      await comm.barrier(all);
    });
  });

  it("load a ragged tile, zero beyond its valid shape, and store a tile", async () => {
    await run(2, async (comm) => {
      const data = await comm.window("data", "int16", [2, 6]);
      const all = await comm.signal("all", [2, 1]);
      const tile = comm.tensor("int16", [1, 3], Int16Array.of(7, 8, 9));
      await data.remoteStore(1 - comm.rank, [1, 2], tile);
      await comm.quiet();
      await comm.barrier(all);
      expect([...data.local.array]).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 7, 8, 9, 0]);
      const loaded = await data.remoteLoad(1 - comm.rank, [1, 3], [2, 3], { validShape: [1, 2] });
      expect(loaded).toMatchObject({ dtype: "int16", shape: [2, 3] });
      expect([...loaded.array]).toEqual([8, 9, 0, 0, 0, 0]);
      await comm.barrier(all);
    });
  });

  it("move the same bytes in chunks", async () => {
    await run(2, async (comm) => {
      const all = await comm.signal("all", [2, 1]);
      const x = comm.tensor("int32", [3, 5, 7]);
      for (let i = 0; i < 105; i++) x.array[i] = comm.rank * 1000 + i;
      const chunkings = [
        { chunkRows: 2 },
        { chunkCols: 3 },
        { chunkRows: 2, chunkCols: 4, pipeline: true },
        { chunkRows: 99 },
      ];
      for (const [index, chunking] of chunkings.entries()) {
        const data = await comm.window(`data ${index}`, "int32", [3, 5, 7]);
        await data.put(1 - comm.rank, x, undefined, chunking);
        await comm.quiet();
        await comm.barrier(all);
        expect([...data.local.array]).toEqual([...x.array].map((value) => value + (1 - 2 * comm.rank) * 1000));
        const y = comm.tensor("int32", [3, 5, 7]);
        await data.get(1 - comm.rank, y, undefined, chunking);
        expect([...y.array]).toEqual([...x.array]);
        await comm.barrier(all);
      }
    });
  });

  it("add atomically from all ranks at once", async () => {
    const { states } = await run(4, async (comm) => {
      const data = await comm.window("sum", "int32", [2, 2]);
      const all = await comm.signal("all", [4, 1]);
      const x = comm.tensor("int32", [2, 2], Int32Array.of(1, 10, 100, 2 ** 31 - 1));
      for (const peer of [comm.rank, ...comm.peers]) await data.put(peer, x, undefined, { atomic: "add" });
      await comm.quiet();
      await comm.barrier(all);
      expect([...data.local.array]).toEqual([4, 40, 400, -4]);
    });
    expect(states.map(({ counters }) => counters.payloadBytesReceived)).toEqual([48, 48, 48, 48]);
  });

  it("to oneself copy, count as put or get, and send nothing", async () => {
    const rig = new Rig();
    const data = await rig.window("data", "int32", [2, 2]);
    const signal = await rig.signal("signal", [1]);
    const x = rig.comm.tensor("int32", [2, 2], Int32Array.of(1, 2, 3, 4));
    await data.put(0, x);
    await data.putSignal(0, x, { srcOffset: [0, 0], dstOffset: [1, 0], shape: [1, 2] }, signal, [0], 3, AtomicAdd);
    const y = rig.comm.tensor("int32", [2, 2]);
    await data.get(0, y);
    await signal.notify(0, [0], 4, AtomicAdd);
    await rig.comm.fence(0);
    expect([...y.array]).toEqual([1, 2, 1, 2]);
    expect(await signal.wait([0], 7, Eq)).toBe(7);
    expect(rig.sent).toEqual([]);
    expect(rig.engine.counters).toMatchObject({
      puts: 2,
      gets: 1,
      notifies: 2,
      payloadBytesSent: 0,
      payloadBytesReceived: 0,
      framesSent: 0,
    });
  });

  it("mix Set and AtomicAdd on one's own cell only once, and the group ends", async () => {
    const rig = new Rig();
    const signal = await rig.signal("signal", [2, 3]);
    await signal.notify(0, [1, 2], 4, Set);
    const error = await errorOf(() => signal.notify(0, [1, 2], 1, AtomicAdd));
    expect(error.code).toBe("ERR_NOTIFY_MIXED");
    expect(error.context).toEqual({ window: "signal", offset: [1, 2] });
    expect(rig.failure).toMatchObject({ error, call: "notify", suspect: null });
  });

  it("reject once the group has ended, with its first cause", async () => {
    const rig = new Rig();
    const data = await rig.window("data", "int32", [2]);
    const signal = await rig.signal("signal", [3, 1]);
    const x = rig.comm.tensor("int32", [2]);
    const waiting = signal.wait([0, 0], 1, Ge);
    rig.end("ERR_RANK_KILLED", 2);
    const calls = [
      () => waiting,
      () => data.put(1, x),
      () => data.put(0, x),
      () => data.get(1, x),
      () => signal.notify(0, [0, 0], 1, Set),
      () => signal.wait([0, 0], 0, Ge),
      () => rig.comm.fence(1),
      () => rig.comm.quiet(),
      () => rig.comm.window("more", "int8", [1]),
      () => rig.comm.barrier(signal),
    ];
    for (const call of calls) {
      const error = await errorOf(call);
      expect(error.code).toBe("ERR_GROUP_ENDED");
      expect(error.cause).toMatchObject({ code: "ERR_RANK_KILLED", context: { rank: 2 } });
      expect(error.message).toContain("rank 2: ERR_RANK_KILLED gone");
    }
    expect(signal.local.array[0]).toBe(0);
  });
});

describe("signals of another group", () => {
  it("are refused by window and builtin", async () => {
    await run(3, async (comm) => {
      const data = await comm.window("data", "int32", [3, 1]);
      if (comm.rank === 2) return;
      const pair = comm.group([0, 1]);
      const signal = await pair.signal("signal", [3, 1]);
      const x = comm.tensor("int32", [3, 1]);
      await expectRefusal(() => data.putSignal(0, x, undefined, signal, [0, 0], 1, Set), "ERR_FOREIGN_GROUP", "signal");
      await expectRefusal(() => comm.barrier(signal), "ERR_FOREIGN_GROUP", "signal");
      await expectRefusal(() => pair.allToAll(x, data, signal), "ERR_FOREIGN_GROUP", "data");
    });
  });
});
