import { beforeEach, describe, expect, it } from "vitest";
import type { Comm } from "../../../../rank/comm.ts";
import type { Tensor } from "../../../../rank/memory/tensor.ts";
import type { Signal, Window } from "../../../../rank/window.ts";
import type { ErrorCode } from "../../../../shared/errors.ts";
import { errorOf, expectRefusal, Rig, run } from "../../../helpers/sim.ts";

/** Everything that calls take, right for P = 2. */
interface Parts {
  readonly comm: Comm;
  readonly x: Tensor<"float32">;
  readonly chunk: Tensor<"float32">;
  readonly data: Window<"float32">;
  readonly tall: Window<"float32">;
  readonly odd: Window<"float32">;
  readonly signal: Signal;
  readonly flat: Signal;
  readonly short: Signal;
  readonly narrow: Signal;
  readonly counts: Tensor<"int32">;
  readonly received: Tensor<"int32">;
}

let rig: Rig;
let parts: Parts;

beforeEach(async () => {
  rig = new Rig({ nranks: 2 });
  const { comm } = rig;
  parts = {
    comm,
    x: comm.tensor("float32", [2, 4]),
    chunk: comm.tensor("float32", [4]),
    data: await rig.window("data", "float32", [2, 4]),
    tall: await rig.window("tall", "float32", [6, 4]),
    odd: await rig.window("odd", "float32", [3, 4]),
    signal: await rig.signal("signal", [3, 2]),
    flat: await rig.signal("flat", [2]),
    short: await rig.signal("short", [1, 2]),
    narrow: await rig.signal("narrow", [3, 1]),
    counts: comm.tensor("int32", [2]),
    received: comm.tensor("int32", [2]),
  };
});

type Call = (parts: Parts) => unknown;
type Case = readonly [mistake: string, call: Call, code: ErrorCode, argument: string | undefined];

const any = (value: unknown): never => value as never;

/** An all_to_all_v that is right but for what is given. */
const v = (
  p: Parts,
  given: object = {},
  buffers: { input?: unknown; target?: unknown; signal?: Signal } = {},
): unknown =>
  p.comm.allToAllV(
    any(buffers.input ?? p.comm.tensor("float32", [6, 4])),
    any(buffers.target ?? p.tall),
    buffers.signal ?? p.signal,
    { sendCounts: p.counts, recvCounts: p.received, ...given },
  );

const cases: readonly Case[] = [
  ["barrier on a window", (p) => p.comm.barrier(any(p.data)), "ERR_NOT_A_SIGNAL", "signal"],
  ["barrier on nothing", (p) => p.comm.barrier(any(undefined)), "ERR_NOT_A_SIGNAL", "signal"],
  ["barrier on a flat signal", (p) => p.comm.barrier(p.flat), "ERR_SHAPE_MISMATCH", "signal"],
  ["barrier on a short signal", (p) => p.comm.barrier(p.short), "ERR_SHAPE_MISMATCH", "signal"],
  ["barrier with no options", (p) => p.comm.barrier(p.signal, any(null)), "ERR_INVALID_ARGUMENT", "options"],
  ["barrier, misspelt", (p) => p.comm.barrier(p.signal, any({ alog: "hub" })), "ERR_INVALID_ARGUMENT", "alog"],
  ["barrier by a tree", (p) => p.comm.barrier(p.signal, any({ algo: "tree" })), "ERR_INVALID_ARGUMENT", "algo"],
  ["barrier by null", (p) => p.comm.barrier(p.signal, any({ algo: null })), "ERR_INVALID_ARGUMENT", "algo"],
  [
    "all_to_all by the mesh",
    (p) => p.comm.allToAll(p.x, p.data, p.signal, any({ algo: "mesh" })),
    "ERR_INVALID_ARGUMENT",
    "algo",
  ],
  ["allreduce by null", (p) => p.comm.allReduce(p.data, p.signal, any({ algo: null })), "ERR_INVALID_ARGUMENT", "algo"],
  [
    "allreduce by two phases in lanes",
    (p) => p.comm.allReduce(p.data, p.signal, { algo: "two_phase", coreNum: 2 }),
    "ERR_INVALID_ARGUMENT",
    "coreNum",
  ],
  [
    "reduce_scatter, misspelt",
    (p) => p.comm.reduceScatter(p.data, p.signal, any({ reduce: "max" })),
    "ERR_INVALID_ARGUMENT",
    "reduce",
  ],

  ["broadcast of a tensor", (p) => p.comm.broadcast(any(p.x), p.signal), "ERR_NOT_A_WINDOW", "data"],
  ["broadcast of a signal", (p) => p.comm.broadcast(any(p.signal), p.signal), "ERR_NOT_A_WINDOW", "data"],
  ["broadcast from P", (p) => p.comm.broadcast(p.data, p.signal, { root: 2 }), "ERR_PEER_RANGE", "root"],
  ["broadcast from −1", (p) => p.comm.broadcast(p.data, p.signal, { root: -1 }), "ERR_PEER_RANGE", "root"],
  ["broadcast from half a rank", (p) => p.comm.broadcast(p.data, p.signal, { root: 0.5 }), "ERR_PEER_RANGE", "root"],
  ["broadcast on a short signal", (p) => p.comm.broadcast(p.data, p.short), "ERR_SHAPE_MISMATCH", "signal"],

  ["allgather into itself", (p) => p.comm.allGather(any(p.data), p.data, p.signal), "ERR_ALIASED_BUFFERS", "x"],
  [
    "allgather of its own row",
    (p) => p.comm.allGather(p.data.local.view("float32", [4], 16), p.data, p.signal),
    "ERR_ALIASED_BUFFERS",
    "x",
  ],
  ["allgather of all rows", (p) => p.comm.allGather(p.x, p.data, p.signal), "ERR_SHAPE_MISMATCH", "x"],
  ["allgather into too many rows", (p) => p.comm.allGather(p.chunk, p.odd, p.signal), "ERR_SHAPE_MISMATCH", "data"],
  [
    "allgather of another dtype",
    (p) => p.comm.allGather(any(p.comm.tensor("int32", [4])), p.data, p.signal),
    "ERR_DTYPE_MISMATCH",
    "x",
  ],
  ["allgather of an array", (p) => p.comm.allGather(any([1]), p.data, p.signal), "ERR_INVALID_ARGUMENT", "x"],

  ["reduce_scatter of odd rows", (p) => p.comm.reduceScatter(p.odd, p.signal), "ERR_SHAPE_MISMATCH", "data"],
  [
    "reduce_scatter by avg",
    (p) => p.comm.reduceScatter(p.data, p.signal, { op: any("avg") }),
    "ERR_INVALID_ARGUMENT",
    "op",
  ],
  [
    "reduce_scatter by null",
    (p) => p.comm.reduceScatter(p.data, p.signal, { op: any(7) }),
    "ERR_INVALID_ARGUMENT",
    "op",
  ],

  ["allreduce by avg", (p) => p.comm.allReduce(p.data, p.signal, { op: any("avg") }), "ERR_INVALID_ARGUMENT", "op"],
  [
    "allreduce by tree",
    (p) => p.comm.allReduce(p.data, p.signal, { algo: any("tree") }),
    "ERR_INVALID_ARGUMENT",
    "algo",
  ],
  ["allreduce of a tensor", (p) => p.comm.allReduce(any(p.x), p.signal), "ERR_NOT_A_WINDOW", "data"],
  [
    "allreduce on more lanes than columns",
    (p) => p.comm.allReduce(p.data, p.signal, { coreNum: 3 }),
    "ERR_SHAPE_MISMATCH",
    "signal",
  ],
  ["allreduce on no lane", (p) => p.comm.allReduce(p.data, p.signal, { coreNum: 0 }), "ERR_INVALID_ARGUMENT", "lanes"],
  [
    "allreduce on half a lane",
    (p) => p.comm.allReduce(p.data, p.signal, { coreNum: 1.5 }),
    "ERR_INVALID_ARGUMENT",
    "lanes",
  ],
  [
    "allreduce above the lane limit",
    (p) => p.comm.allReduce(p.data, p.signal, { coreNum: p.comm.lanesMax + 1 }),
    "ERR_LIMIT",
    "lanes",
  ],
  [
    "ring on a short signal",
    (p) => p.comm.allReduce(p.data, p.short, { algo: "ring" }),
    "ERR_SHAPE_MISMATCH",
    "signal",
  ],
  [
    "ring on a narrow signal",
    (p) => p.comm.allReduce(p.data, p.narrow, { algo: "ring" }),
    "ERR_SHAPE_MISMATCH",
    "signal",
  ],
  [
    "ring with lanes",
    (p) => p.comm.allReduce(p.data, p.signal, { algo: "ring", coreNum: 2 }),
    "ERR_INVALID_ARGUMENT",
    "coreNum",
  ],

  ["all_to_all into itself", (p) => p.comm.allToAll(p.data, p.data, p.signal), "ERR_ALIASED_BUFFERS", "x"],
  ["all_to_all of other shapes", (p) => p.comm.allToAll(p.x, p.tall, p.signal), "ERR_SHAPE_MISMATCH", "data"],

  [
    "all_to_all_v without options",
    (p) => p.comm.allToAllV(p.x, p.tall, p.signal, any(undefined)),
    "ERR_INVALID_ARGUMENT",
    "options",
  ],
  ["all_to_all_v into odd partitions", (p) => v(p, {}, { target: p.odd }), "ERR_SHAPE_MISMATCH", "target"],
  ["all_to_all_v of fewer rows", (p) => v(p, {}, { input: p.x }), "ERR_SHAPE_MISMATCH", "input"],
  [
    "all_to_all_v of another dtype",
    (p) => v(p, {}, { input: p.comm.tensor("int32", [6, 4]) }),
    "ERR_DTYPE_MISMATCH",
    "input",
  ],
  ["all_to_all_v into its input", (p) => v(p, {}, { input: p.tall.local }), "ERR_ALIASED_BUFFERS", "input"],
  ["all_to_all_v without counts", (p) => v(p, { sendCounts: undefined }), "ERR_INVALID_ARGUMENT", "sendCounts"],
  [
    "all_to_all_v with float counts",
    (p) => v(p, { sendCounts: p.comm.tensor("float32", [2]) }),
    "ERR_SHAPE_MISMATCH",
    "sendCounts",
  ],
  [
    "all_to_all_v with too many counts",
    (p) => v(p, { recvCounts: p.comm.tensor("int32", [3]) }),
    "ERR_SHAPE_MISMATCH",
    "recvCounts",
  ],
  [
    "all_to_all_v with one tensor for both counts",
    (p) => v(p, { recvCounts: p.counts }),
    "ERR_ALIASED_BUFFERS",
    "recvCounts",
  ],
  [
    "all_to_all_v with counts in its target",
    (p) => v(p, { recvCounts: p.tall.local.view("int32", [2]) }),
    "ERR_ALIASED_BUFFERS",
    "recvCounts",
  ],
  [
    "all_to_all_v with expectations of another shape",
    (p) => v(p, { expectedRecvCounts: p.chunk }),
    "ERR_SHAPE_MISMATCH",
    "expectedRecvCounts",
  ],
  ["all_to_all_v on more lanes than columns", (p) => v(p, { coreNum: 4 }), "ERR_SHAPE_MISMATCH", "signal"],
  ["all_to_all_v above the lane limit", (p) => v(p, { coreNum: p.comm.lanesMax + 2 }), "ERR_LIMIT", "lanes"],
];

describe("what one rank can see alone", () => {
  it.each(cases)(
    "%s is refused, nothing moves, and the call takes no number",
    async (_mistake, call, code, argument) => {
      const counters = { ...rig.engine.counters };
      const error = await expectRefusal(() => call(parts), code, argument);
      expect(error.message).toMatch(
        /^(barrier|broadcast|allgather|reduce_scatter|allreduce|all_to_all|all_to_all_v): /u,
      );
      expect(rig.sent).toEqual([]);
      expect(rig.engine.counters).toEqual(counters);
      expect(rig.engine.state().calls).toEqual([]);
      expect(rig.failures).toEqual([]);
      // the next call is the group's first, and the window's: no ready round
      rig.comm.allToAll(parts.x, parts.data, parts.signal).catch(() => {});
      expect(rig.sent[0]?.header).toMatchObject({ seq: 1, round: 1 });
      rig.end();
    },
  );

  it("names the lanes that would be launched in its refusal of too many", async () => {
    const { lanesMax } = rig.comm;
    const { message } = await errorOf(() => parts.comm.allReduce(parts.data, parts.signal, { coreNum: lanesMax + 1 }));
    expect(message).toContain(`coreNum: ${lanesMax + 1} lanes exceed the platform's limit of ${lanesMax}`);
  });
});

describe("windows and signals of elsewhere", () => {
  it("of another group are refused, naming both groups; the call takes no number on any rank", async () => {
    await run(3, async (comm) => {
      const x = comm.tensor("int32", [3, 2]);
      const data = await comm.window("data", "int32", [3, 2]);
      const signal = await comm.signal("signal", [3, 1]);
      const same = comm.group([0, 1, 2]);
      const theirs = await same.window("data", "int32", [3, 2]);
      const theirSignal = await same.signal("signal", [3, 1]);
      for (const call of [
        () => comm.allToAll(x, theirs, signal),
        () => comm.allToAll(x, data, theirSignal),
        () => same.barrier(signal),
        () => same.broadcast(data, theirSignal),
      ]) {
        const error = await expectRefusal(call, "ERR_FOREIGN_GROUP");
        expect(error.message).toMatch(/belongs to group \[0, 1, 2\], the call is made in \[0, 1, 2\]/u);
      }
      await comm.allToAll(x, data, signal);
      await same.allToAll(x, theirs, theirSignal);
    });
  });

  it("that have been freed are refused, and what is left works", async () => {
    await run(2, async (comm) => {
      const data = await comm.window("data", "int32", [2, 2]);
      const other = await comm.window("other", "int32", [2, 2]);
      const [signal, spare] = [await comm.signal("signal", [2, 1]), await comm.signal("spare", [2, 1])];
      await data.free();
      await spare.free();
      const x = comm.tensor("int32", [2, 2]);
      await expectRefusal(() => comm.allToAll(x, data, signal), "ERR_WINDOW_FREED");
      await expectRefusal(() => comm.barrier(spare), "ERR_WINDOW_FREED");
      await comm.allToAll(x, other, signal);
    });
  });
});

describe("a refused call", () => {
  it("on one rank alone leaves that rank in step with the others", async () => {
    for (let seed = 0; seed < 10; seed++) {
      await run(
        3,
        async (comm) => {
          const data = await comm.window("data", "int32", [3, 2]);
          const signal = await comm.signal("signal", [3, 1]);
          const x = comm.tensor("int32", [3, 2], new Int32Array(6).fill(comm.rank));
          if (comm.rank === 1) await expectRefusal(() => comm.allToAll(data, data, signal), "ERR_ALIASED_BUFFERS");
          await comm.allToAll(x, data, signal);
          await comm.check(data, (source) => source);
          if (comm.rank === 2) await expectRefusal(() => comm.broadcast(data, signal, { root: 3 }), "ERR_PEER_RANGE");
          await comm.broadcast(data, signal, { root: 2 });
        },
        { seed },
      );
    }
  });

  it("that conflicts with one in flight names both, and works with { after }", async () => {
    await run(2, async (comm) => {
      const data = await comm.window("data", "int32", [2, 2]);
      const [one, two] = [await comm.signal("one", [3, 2]), await comm.signal("two", [3, 2])];
      const first = comm.allReduce(data, one, { algo: "ring" });
      const error = await expectRefusal(() => comm.reduceScatter(data, two), "ERR_BUFFER_CONFLICT");
      expect(error.message).toMatch(/^reduce_scatter: its data is the data of allreduce, .*\{ after: task \}/u);
      await comm.reduceScatter(data, two, { after: first });
      await first;
    });
  });
});
