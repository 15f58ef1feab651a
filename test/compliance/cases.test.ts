/** What PyPTO's own tests of its primitives check, with their parameters. */
import { fromBfloat16, fromFloat16, NotifyOp, toBfloat16, toFloat16, WaitCmp } from "rankwise";
import { describe, expect, test } from "vitest";
import { INT32_MAX } from "../../shared/constants.ts";
import { Gate, range, rankTransports, runRanksWell } from "../helpers/ranks.ts";
import { kept } from "./expect.ts";

const { Set: SET, AtomicAdd: ADD } = NotifyOp;
const { Eq: EQ, Ge: GE } = WaitCmp;
const sizes = [1, 2, 3, 4, 7, 8];

describe.each(rankTransports)("over %s", (transport) => {
  const run = (nranks: number, main: Parameters<typeof runRanksWell>[0]["main"]) =>
    runRanksWell({ transport, nranks, main });

  test("credits: four AtomicAdd(+1) of the peer and one self AtomicAdd(-4), three times without reset", async () => {
    await run(2, async (comm) => {
      const signal = await comm.signal("credits", [2, 1]);
      const others = await comm.signal("others", [2, 1]);
      const peer = 1 - comm.rank;
      for (const _ of range(3)) {
        for (const _ of range(4)) await signal.notify(peer, [comm.rank, 0], 1, ADD);
        await signal.wait([peer, 0], 4, GE);
        await signal.notify(comm.rank, [peer, 0], -4, ADD);
        expect([...signal.local.array]).toEqual([0, 0]);
        await comm.barrier(others); // the peer's next credits come once the cell is zero again
      }
    });
  });

  test("notify and wait: AtomicAdd(r + 1) to the next rank, three dispatches", async () => {
    for (const _ of range(3)) {
      const seen: number[] = [];
      await run(2, async (comm) => {
        const signal = await comm.signal("signal", [1, 1]);
        await signal.notify((comm.rank + 1) % 2, [0, 0], comm.rank + 1, ADD);
        seen[comm.rank] = await signal.wait([0, 0], 1, GE);
      });
      expect(seen).toEqual([2, 1]);
    }
  });

  describe("put", () => {
    test.each(sizes)("ring of %i: out[r] = in[(r - 1) mod P]", async (nranks) => {
      await run(nranks, async (comm) => {
        const x = comm.tensor(
          "float32",
          [4, 64],
          filled(4 * 64, (i) => 1000 * comm.rank + i),
        );
        const data = await comm.window("data", "float32", [4, 64]);
        const signal = await comm.signal("signal", [1]);
        await data.putSignal((comm.rank + 1) % nranks, x, undefined, signal, [0], 1, SET);
        await signal.wait([0], 1, GE);
        const before = (comm.rank - 1 + nranks) % nranks;
        expect(data.local.array).toEqual(filled(4 * 64, (i) => 1000 * before + i));
      });
    });

    test.each([
      { name: "[8, 128] pipelined in [4, 64]", shape: [8, 128], chunkRows: 4, chunkCols: 64, pipeline: true },
      { name: "[8, 64] in 2 × 32", shape: [8, 64], chunkRows: 2, chunkCols: 32, pipeline: false },
      { name: "[7, 65] in 2 × 32, which does not divide", shape: [7, 65], chunkRows: 2, chunkCols: 32, pipeline: true },
    ])("$name", async ({ shape, ...options }) => {
      await run(2, async (comm) => {
        const count = shape.reduce((a, b) => a * b);
        const x = comm.tensor(
          "float32",
          shape,
          filled(count, (i) => 10_000 * comm.rank + i),
        );
        const data = await comm.window("data", "float32", shape);
        const signal = await comm.signal("signal", [1]);
        const peer = 1 - comm.rank;
        await data.put(peer, x, undefined, options);
        await signal.notify(peer, [0], 1, SET);
        await signal.wait([0], 1, GE);
        expect(data.local.array).toEqual(filled(count, (i) => 10_000 * peer + i));
      });
    });

    test("at a row offset", async () => {
      await run(2, async (comm) => {
        const x = comm.tensor(
          "float32",
          [2, 16],
          filled(32, (i) => 100 * comm.rank + i),
        );
        const data = await comm.window("data", "float32", [8, 16]);
        const signal = await comm.signal("signal", [1]);
        const peer = 1 - comm.rank;
        await data.remoteStore(peer, [3, 0], x);
        await signal.notify(peer, [0], 1, SET);
        await signal.wait([0], 1, GE);
        const inside = (i: number): boolean => i >= 3 * 16 && i < 5 * 16;
        expect(data.local.array).toEqual(filled(8 * 16, (i) => (inside(i) ? 100 * peer + i - 48 : 0)));
      });
    });

    test("atomic add, int32 [16, 16]: 10 + 32 is 42 at the target only", async () => {
      await run(2, async (comm) => {
        const x = comm.tensor("int32", [16, 16], new Int32Array(256).fill(32));
        const data = await comm.window("data", "int32", [16, 16]);
        const credits = await comm.signal("credits", [2, 1]);
        data.local.array.fill(10);
        await comm.barrier(credits);
        if (comm.rank === 0) await data.put(1, x, undefined, { atomic: "add" });
        await comm.quiet();
        await comm.barrier(credits);
        expect(data.local.array).toEqual(new Int32Array(256).fill(comm.rank === 1 ? 42 : 10));
        expect(x.array.every((value) => value === 32)).toBe(true);
      });
    });

    test.each([
      { dtype: "float32", add: [0.5, -3], start: 1, sum: -1.5, to: Number, from: Number },
      { dtype: "float16", add: [0.5, -3], start: 1, sum: -1.5, to: toFloat16, from: fromFloat16 },
      { dtype: "bfloat16", add: [0.5, -3], start: 1, sum: -1.5, to: toBfloat16, from: fromBfloat16 },
      { dtype: "int32", add: [INT32_MAX, 3], start: 1, sum: -(2 ** 31) + 3, to: Number, from: Number },
      { dtype: "int16", add: [32_767, 3], start: 1, sum: -32_768 + 3, to: Number, from: Number },
      { dtype: "int8", add: [127, 3], start: 1, sum: -128 + 3, to: Number, from: Number },
    ] as const)("atomic add of $dtype from all ranks and oneself", async ({ dtype, add, start, sum, to, from }) => {
      await run(3, async (comm) => {
        const data = await comm.window("data", dtype, [5, 7]);
        const credits = await comm.signal("credits", [3, 1]);
        data.local.array.fill(to(start));
        await comm.barrier(credits);
        // rank 0 is the target of two peers; offsets are odd, so that rows start anywhere
        const value = comm.rank === 0 ? 0 : (add[comm.rank - 1] ?? 0);
        const x = comm.tensor(dtype, [2, 3]);
        x.array.fill(to(value));
        await data.put(0, x, { dstOffset: [1, 3], shape: [2, 3] }, { atomic: "add" });
        await comm.quiet();
        await comm.barrier(credits);
        if (comm.rank > 0) return;
        const inside = (i: number): boolean =>
          Math.floor(i / 7) >= 1 && Math.floor(i / 7) < 3 && i % 7 >= 3 && i % 7 < 6;
        const got = Array.from(data.local.array, (element) => from(element));
        expect(got).toEqual(range(35).map((i) => (inside(i) ? sum : start)));
      });
    });
  });

  describe("get and remote_load", () => {
    test.each(sizes)("ring of %i: out[r] = in[(r + 1) mod P]", async (nranks) => {
      await run(nranks, async (comm) => {
        const data = await comm.window("data", "float32", [4, 64]);
        const credits = await comm.signal("credits", [nranks, 1]);
        data.local.array.set(filled(4 * 64, (i) => 1000 * comm.rank + i));
        await comm.barrier(credits);
        const next = (comm.rank + 1) % nranks;
        const out = comm.tensor("float32", [4, 64]);
        await data.get(next, out);
        expect(out.array).toEqual(filled(4 * 64, (i) => 1000 * next + i));
        const row = comm.tensor("float32", [3, 64]);
        await data.get(next, row, { srcOffset: [2, 0], dstOffset: [1, 0], shape: [1, 64] });
        expect(row.array).toEqual(filled(3 * 64, (i) => (i >= 64 && i < 128 ? 1000 * next + i + 64 : 0)));
        const chunked = comm.tensor("float32", [4, 64]);
        await data.get(next, chunked, undefined, { chunkRows: 3, chunkCols: 10, pipeline: true });
        expect(chunked.array).toEqual(out.array);
        await comm.barrier(credits);
      });
    });

    test.each([
      { validShape: [4, 8], offset: [0, 0] },
      { validShape: [3, 5], offset: [1, 2] },
      { validShape: [0, 8], offset: [4, 0] },
      { validShape: [1, 1], offset: [3, 7] },
    ])("a ragged tile: validShape $validShape at $offset", async ({ validShape, offset }) => {
      await run(2, async (comm) => {
        const data = await comm.window("data", "int16", [4, 8]);
        const credits = await comm.signal("credits", [2, 1]);
        for (const i of range(32)) data.local.array[i] = 100 * comm.rank + i + 1;
        await comm.barrier(credits);
        const peer = 1 - comm.rank;
        const tile = await data.remoteLoad(peer, offset, [4, 8], { validShape });
        const [rows = 0, columns = 0] = validShape;
        const [top = 0, left = 0] = offset;
        const golden = range(32).map((i) => {
          const [row, column] = [Math.floor(i / 8), i % 8];
          return row < rows && column < columns ? 100 * peer + (row + top) * 8 + column + left + 1 : 0;
        });
        expect([...tile.array]).toEqual(golden);
        expect(tile.shape).toEqual([4, 8]);
        await comm.barrier(credits);
      });
    });
  });

  describe("deferred wait", () => {
    test.each([16, 48])("%i waiters, epochs 1 to 3 without reset", async (waiters) => {
      await run(2, async (comm) => {
        const signal = await comm.signal("signal", [waiters]);
        const peer = 1 - comm.rank;
        for (const epoch of [1, 2, 3]) {
          const done: number[] = [];
          const tasks = kept(
            range(waiters).map((cell) => {
              const ready = signal.deferWait([{ offset: [cell], expected: epoch }]);
              return comm.task(() => done.push(cell), { after: ready });
            }),
          );
          const all = signal.deferWait(
            range(waiters).map((cell) => ({ offset: [cell], expected: epoch, compare: GE })),
          );
          void kept([all]);
          for (const cell of range(waiters).toReversed()) await signal.notify(peer, [cell], 1, ADD);
          await Promise.all([...tasks, all]);
          expect(done.toSorted((a, b) => a - b)).toEqual(range(waiters));
          for (const value of signal.local.array) expect(value).toBeGreaterThanOrEqual(epoch);
        }
      });
    });

    test("conditions that already hold complete at once; one that does not holds the task back", async () => {
      const checked = new Gate();
      await run(2, async (comm) => {
        const signal = await comm.signal("signal", [4]);
        if (comm.rank === 0) {
          await signal.notify(1, [0], INT32_MAX, SET);
          await signal.notify(1, [1], 1, SET);
          await checked.opened;
          await signal.notify(1, [2], 1, SET);
          return;
        }
        await signal.wait([1], 1, EQ);
        await signal.deferWait([
          { offset: [0], expected: INT32_MAX },
          { offset: [1], expected: 0 },
          { offset: [3], expected: 0 },
        ]);
        await signal.deferWait([]);
        let ran = false;
        const task = comm.task(() => (ran = true), { after: signal.deferWait([{ offset: [2], expected: 1 }]) });
        await signal.deferWait([{ offset: [0], expected: 1 }]);
        expect(ran).toBe(false);
        checked.open();
        await task;
        expect(ran).toBe(true);
        expect([...signal.local.array]).toEqual([INT32_MAX, 1, 1, 0]); // nothing is consumed
      });
    });

    test("64 conditions are taken; they belong to one task", async () => {
      await run(2, async (comm) => {
        const signal = await comm.signal("signal", [64]);
        const all = signal.deferWait(range(64).map((cell) => ({ offset: [cell], expected: cell })));
        void kept([all]);
        for (const cell of range(64)) await signal.notify(1 - comm.rank, [cell], cell, SET);
        await all;
        expect([...signal.local.array]).toEqual(range(64));
      });
    });
  });

  test.each(sizes)("barrier of %i: the swap out[r] = in[(r + 1) mod P] is right only if it held", async (nranks) => {
    await run(nranks, async (comm) => {
      const data = await comm.window("data", "int32", [1]);
      const credits = await comm.signal("credits", [nranks, 1]);
      for (const round of range(3)) {
        data.local.array[0] = 100 * round + comm.rank;
        await comm.barrier(credits);
        const next = (comm.rank + 1) % nranks;
        const seen = await data.remoteLoad(next, [0], [1]);
        expect(seen.array[0]).toBe(100 * round + next);
        await comm.barrier(credits);
      }
    });
  });
});

function filled(count: number, value: (i: number) => number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: count }, (_, i) => value(i));
}
