import { describe, expect, it } from "vitest";
import type { Comm } from "../../../../rank/comm.ts";
import { type DType, dtypes, elementBytes } from "../../../../shared/dtype.ts";
import { expectRefusal, fails, Rig, run, turn } from "../../../helpers/sim.ts";
import { simulate } from "../../../../rank/simulate.ts";

const sizes = [1, 2, 3, 4, 7, 8];
const names = Object.keys(dtypes) as DType[];

/** Names source, destination and element, in any dtype: what a narrow one cannot hold is folded by a prime. */
const encode = (src: number, dest: number, j: number): number => (src * 41 + dest * 11 + j) % 127;

function fill(array: { [index: number]: number | bigint }, index: number, value: number): void {
  array[index] = typeof array[index] === "bigint" ? BigInt(value) : value;
}

/** One all_to_all of `row` elements a rank, with what every row must hold afterwards. */
async function exchange(comm: Comm, dtype: DType, row: readonly number[], name = "data"): Promise<void> {
  const size = row.reduce((product, length) => product * length, 1);
  const x = comm.tensor(dtype, [comm.nranks, ...row]);
  for (let dest = 0; dest < comm.nranks; dest++) {
    for (let j = 0; j < size; j++) fill(x.array, dest * size + j, encode(comm.rank, dest, j));
  }
  const before = x.bytes.slice();
  const data = await comm.window(name, dtype, [comm.nranks, ...row]);
  const signal = await comm.signal(`${name} signal`, [comm.nranks, 1]);
  await comm.allToAll(x, data, signal);
  const expected = Array.from({ length: comm.nranks * size }, (_, i) =>
    encode(Math.floor(i / size), comm.rank, i % size),
  );
  expect(data.local.array.join()).toBe(expected.join());
  expect(x.bytes).toEqual(before);
}

describe("all_to_all", () => {
  it.each(sizes)("gives every one of %i ranks its chunk of every rank", async (nranks) => {
    for (let seed = 0; seed < 5; seed++) {
      const { states } = await run(nranks, (comm) => exchange(comm, "float32", [64]), { seed });
      for (const { counters } of states) {
        expect(counters).toMatchObject({
          puts: nranks,
          barriers: 1,
          waits: nranks - 1,
          payloadBytesSent: (nranks - 1) * 256,
          payloadBytesReceived: (nranks - 1) * 256,
        });
      }
    }
  });

  it.each(names)("moves %s", async (dtype) => {
    await run(3, (comm) => exchange(comm, dtype, [5]));
  });

  it.each([[[0]], [[1]], [[3, 0]], [[2, 3, 4]], [[]], [[1025]]])("moves rows of shape %j", async (row) => {
    const { states } = await run(4, (comm) => exchange(comm, "int16", row));
    const size = row.reduce((product: number, length: number) => product * length, 1);
    for (const { counters } of states) expect(counters.payloadBytesReceived).toBe(3 * size * elementBytes("int16"));
  });

  it("cuts rows at the frame limit", async () => {
    const { states } = await run(3, (comm) => exchange(comm, "int32", [1000]), {
      limits: { framePayloadBytes: 1111 },
    });
    for (const { counters } of states) expect(counters.payloadBytesReceived).toBe(8000);
  });

  it("works in a group in its own order, beside its overlapping neighbour", async () => {
    await run(3, async (comm) => {
      const work: Promise<void>[] = [];
      if (comm.rank < 2) work.push(exchange(comm.group([1, 0]), "int32", [4], "left"));
      if (comm.rank > 0) work.push(exchange(comm.group([1, 2]), "int32", [4], "right"));
      await Promise.all(work);
    });
  });

  /**
   * Rounds on one signal and window, second inputs + 1000 and so on; one rank is slow to read what it has got.
   *
   * Without the ready round a fast rank's next put lands before the slow rank has read.
   */
  const backToBack =
    (rounds: number) =>
    async (comm: Comm): Promise<void> => {
      const { rank, nranks } = comm;
      const data = await comm.window("data", "int32", [nranks, 2]);
      const signal = await comm.signal("signal", [nranks, 1]);
      const x = comm.tensor("int32", [nranks, 2]);
      for (let round = 0; round < rounds; round++) {
        for (let i = 0; i < x.array.length; i++)
          x.array[i] = round * 1000 + rank * 100 + Math.floor(i / 2) * 10 + (i % 2);
        await comm.allToAll(x, data, signal);
        if (rank === round % nranks) for (let i = 0; i < 40; i++) await turn();
        const expected = [...data.local.array.keys()].map(
          (i) => round * 1000 + Math.floor(i / 2) * 100 + rank * 10 + (i % 2),
        );
        if (data.local.array.join() !== expected.join()) throw new Error(`round ${round}: ${data.local.array.join()}`);
      }
    };

  it.each(sizes)("may be called again and again on one window by %i ranks, one of them slow", async (nranks) => {
    for (let seed = 0; seed < 6; seed++) {
      const { states } = await run(nranks, backToBack(6), { seed });
      for (const { counters } of states) expect(counters.barriers).toBe(11);
    }
  });

  it("needs its ready round for that: without it some order of events is wrong", async () => {
    let wrong = 0;
    for (let seed = 0; seed < 6; seed++) {
      const { failure } = await simulate({ nranks: 4, seed, main: backToBack(6), testFault: "skip_ready" });
      if (failure?.error.code === "ERR_PROGRAM_THREW" && failure.error.message.includes("round ")) wrong += 1;
      else expect(failure).toBeUndefined();
    }
    expect(wrong).toBeGreaterThan(0);
  });

  it("of windows that differ in name or of shapes that differ is a mismatch", async () => {
    const { error } = await fails(3, async (comm) => {
      const data = await comm.window("data", "int32", [3, 4]);
      const same = await comm.window("same", "int32", [3, 4]);
      const signal = await comm.signal("signal", [3, 1]);
      await comm.allToAll(comm.tensor("int32", [3, 4]), comm.rank === 1 ? same : data, signal);
    });
    expect(error.code).toBe("ERR_MISMATCH");
    expect(error.message).toContain("all_to_all #1");
    expect(error.context).toMatchObject({ collective: "all_to_all", seq: 1 });
  });
});

describe("arguments", () => {
  it("are refused by name before anything moves, and the call takes no number", async () => {
    const rig = new Rig({ nranks: 2 });
    const data = await rig.window("data", "float32", [2, 4]);
    const wide = await rig.window("wide", "float32", [3, 4]);
    const signal = await rig.signal("signal", [2, 1]);
    const [flat, short] = [await rig.signal("flat", [2]), await rig.signal("short", [1, 1])];
    const narrow = await rig.signal("narrow", [2, 0]);
    const x = rig.comm.tensor("float32", [2, 4]);
    const call =
      (...given: unknown[]) =>
      () =>
        rig.comm.allToAll(...(given as Parameters<Comm["allToAll"]>));
    const cases = [
      [call(x, x, signal), "ERR_NOT_A_WINDOW", "data"],
      [call(x, new Float32Array(8), signal), "ERR_NOT_A_WINDOW", "data"],
      [call(x, undefined, signal), "ERR_NOT_A_WINDOW", "data"],
      [call(x, signal, signal), "ERR_NOT_A_WINDOW", "data"],
      [call(rig.comm.tensor("float32", [3, 4]), wide, signal), "ERR_SHAPE_MISMATCH", "data"],
      [call(new Float32Array(8), data, signal), "ERR_INVALID_ARGUMENT", "x"],
      [call(null, data, signal), "ERR_INVALID_ARGUMENT", "x"],
      [call(rig.comm.tensor("float32", [8]), data, signal), "ERR_SHAPE_MISMATCH", "x"],
      [call(rig.comm.tensor("int32", [2, 4]), data, signal), "ERR_DTYPE_MISMATCH", "x"],
      [call(data, data, signal), "ERR_ALIASED_BUFFERS", "x"],
      [call(data.local, data, signal), "ERR_ALIASED_BUFFERS", "x"],
      [call(data.local.view("float32", [1, 4], 16), data, signal), "ERR_ALIASED_BUFFERS", "x"],
      [call(x, data, data), "ERR_NOT_A_SIGNAL", "signal"],
      [call(x, data, rig.comm.tensor("int32", [2, 1])), "ERR_NOT_A_SIGNAL", "signal"],
      [call(x, data, undefined), "ERR_NOT_A_SIGNAL", "signal"],
      [call(x, data, flat), "ERR_SHAPE_MISMATCH", "signal"],
      [call(x, data, short), "ERR_SHAPE_MISMATCH", "signal"],
      [call(x, data, narrow), "ERR_SHAPE_MISMATCH", "signal"],
    ] as const;
    const counters = { ...rig.engine.counters };
    for (const [refused, code, argument] of cases) {
      const error = await expectRefusal(refused, code, argument);
      expect(error.message).toMatch(new RegExp(`^all_to_all: .*${argument}`, "u"));
    }
    expect(rig.sent).toEqual([]);
    expect(rig.engine.counters).toEqual(counters);
    expect(rig.engine.state().calls).toEqual([]);
    expect(data.local.array.every((value) => value === 0)).toBe(true);
    // a refused call is none: the next one is the window's first, without a ready round
    void rig.comm.allToAll(x, data, signal).catch(() => {});
    expect(rig.sent[0]?.header).toMatchObject({ seq: 1, round: 1 });
    rig.end();
  });
});
