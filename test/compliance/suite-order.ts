/** Lines 1 to 4 and 9 of the memory model: local completion, order, chunks, quiet, gets. */
import assert from "node:assert/strict";
import { NotifyOp, WaitCmp } from "rankwise";
import { range } from "../helpers/ranks.ts";
import { expectFilled, kept, turns } from "./expect.ts";
import type { Guarantee } from "./guarantee.ts";

const { Set: SET, AtomicAdd: ADD } = NotifyOp;
const { Eq: EQ, Ge: GE } = WaitCmp;

/** The largest row of float32 that is snapshotted: 4 KiB. */
const SNAPSHOT = 1024;

export const orderSuite: readonly Guarantee[] = [
  {
    line: 1,
    name: "a put of at most 4 KiB is snapshotted at the call",
    program: async ({ comm, sends, other }) => {
      const lengths = [1, 7, SNAPSHOT];
      const data = await comm.window("data", "float32", [lengths.length + 2, SNAPSHOT]);
      const signal = await comm.signal("signal", [2]);
      if (!sends) {
        await signal.wait([0], 1, GE);
        for (const [row, length] of lengths.entries()) expectFilled(data.local, row, 0, length, row + 1);
        expectFilled(data.local, lengths.length, 0, 30, 40);
        await signal.wait([1], 1, GE);
        expectFilled(data.local, lengths.length + 1, 0, SNAPSHOT, 50);
        return;
      }
      const issued = lengths.map((length, row) => {
        const source = comm.tensor("float32", [1, length]);
        source.array.fill(row + 1);
        const done = data.put(other, source, { dstOffset: [row, 0], shape: [1, length] });
        source.array.fill(-1);
        return done;
      });
      const strided = comm.tensor("float32", [5, 10]);
      strided.array.fill(40);
      for (const i of range(5)) {
        const region = { dstOffset: [lengths.length, i * 6], srcOffset: [i, 2], shape: [1, 6] };
        issued.push(data.put(other, strided, region));
      }
      strided.array.fill(-1);
      issued.push(signal.notify(other, [0], 1, SET));
      const whole = comm.tensor("float32", [1, SNAPSHOT]);
      whole.array.fill(50);
      const row = { dstOffset: [lengths.length + 1, 0], shape: [1, SNAPSHOT] };
      issued.push(data.putSignal(other, whole, row, signal, [1], 1, SET));
      whole.array.fill(-1);
      await Promise.all(issued);
    },
  },
  {
    line: 1,
    name: "when a put resolves, its source may be changed",
    program: async ({ comm, sends, other }) => {
      const [rows, length] = [6, 60_000];
      const data = await comm.window("data", "float32", [rows, length]);
      const signal = await comm.signal("signal", [1]);
      if (!sends) {
        await signal.wait([0], 1, GE);
        for (const row of range(rows)) expectFilled(data.local, row, 0, length, row + 1);
        return;
      }
      const source = comm.tensor("float32", [1, length]);
      for (const row of range(rows)) {
        source.array.fill(row + 1);
        await data.put(other, source, { dstOffset: [row, 0], shape: [1, length] });
      }
      source.array.fill(-1);
      await signal.notify(other, [0], 1, SET);
    },
  },
  {
    line: 2,
    name: "a wait that sees a notify sees every put issued before it",
    program: async ({ comm, sends, other }) => {
      const lengths = [1, 0, 4096, 4097, 3, 30_000, 17, 5000];
      const data = await comm.window("data", "int8", [lengths.length, 30_000]);
      const more = await comm.window("more", "float64", [4]);
      const signal = await comm.signal("signal", [1]);
      if (!sends) {
        await signal.wait([0], 1, GE);
        for (const [row, length] of lengths.entries()) expectFilled(data.local, row, 0, length, row + 1);
        assert.deepEqual([...more.local.array], [0.5, 1.5, 2.5, 3.5]);
        return;
      }
      const issued = lengths.map((length, row) => {
        const source = comm.tensor("int8", [1, length]);
        source.array.fill(row + 1);
        return data.put(other, source, { dstOffset: [row, 0], shape: [1, length] });
      });
      issued.push(more.put(other, comm.tensor("float64", [4], Float64Array.of(0.5, 1.5, 2.5, 3.5))));
      issued.push(signal.notify(other, [0], 1, SET));
      await Promise.all(issued);
    },
  },
  {
    line: 2,
    name: "puts to one peer are applied in the order of their issue",
    program: async ({ comm, sends, other }) => {
      const count = 30;
      const data = await comm.window("data", "int32", [2000]);
      const signal = await comm.signal("signal", [1]);
      if (!sends) {
        for (const k of range(count)) {
          const seen = await signal.wait([0], k + 1, GE);
          const [first = -1] = data.local.array;
          assert.ok(first >= seen, `after notify ${seen} the row holds ${first}, which was put before`);
        }
        expectFilled(data.local, 0, 0, 1, count);
        return;
      }
      const issued: Promise<void>[] = [];
      for (const k of range(count)) {
        // small and large ones take different ways through a sender
        const length = k % 3 === 0 ? 2000 : 5;
        const source = comm.tensor("int32", [length]);
        source.array.fill(k + 1);
        issued.push(data.put(other, source, { shape: [length] }));
        if (k % 2 === 1) issued.push(signal.notify(other, [0], k + 1, SET));
      }
      await Promise.all(issued);
    },
  },
  {
    line: 2,
    name: "notifies to one peer are applied in the order of their issue",
    program: async ({ comm, sends, other }) => {
      const count = 20;
      const signal = await comm.signal("signal", [2]);
      const ready = await comm.signal("ready", [1]);
      if (!sends) {
        const order: number[] = [];
        const waits = kept(range(count).map(async (k) => order.push(await signal.wait([0], k + 1, EQ))));
        await ready.notify(other, [0], 1, SET);
        await Promise.all(waits);
        assert.deepEqual(
          order,
          range(count).map((k) => k + 1),
        );
        return;
      }
      await ready.wait([0], 1, GE);
      await Promise.all(range(count).map((k) => signal.notify(other, [0], k + 1, SET)));
    },
  },
  {
    line: 3,
    name: "a chunked put is complete before a later notify is visible",
    job: { limits: { framePayloadBytes: 1000 } },
    program: async ({ comm, sends, other }) => {
      const data = await comm.window("data", "float32", [8, 1000]);
      const signal = await comm.signal("signal", [3]);
      const x = comm.tensor("float32", [8, 1000]);
      for (let i = 0; i < x.array.length; i++) x.array[i] = i;
      if (!sends) {
        for (const cell of range(3)) {
          await signal.wait([cell], 1, GE);
          assert.deepEqual(data.local.array, x.array.map((value) => value + cell), `chunked put ${cell}`); // prettier-ignore
          await signal.notify(other, [cell], 1, SET);
        }
        return;
      }
      const forms = [{ chunkRows: 2, chunkCols: 32, pipeline: true }, { chunkCols: 999 }, {}];
      for (const [cell, options] of forms.entries()) {
        const put = data.put(other, x, undefined, options);
        await Promise.all([put, signal.notify(other, [cell], 1, SET)]);
        await signal.wait([cell], 1, GE);
        for (let i = 0; i < x.array.length; i++) x.array[i] = i + cell + 1;
      }
    },
  },
  {
    line: 4,
    name: "quiet and fence resolve when every earlier put and notify has been applied",
    program: async ({ comm, sends, other, board }) => {
      const rounds = 12;
      const data = await comm.window("data", "int32", [rounds, 2000]);
      const signal = await comm.signal("signal", [1]);
      const back = await comm.signal("back", [1]);
      if (!sends) {
        board.set(`${comm.rank}`, { data: data.local, cells: signal.local });
        // acknowledgements ride on these frames too
        for (const _ of range(3 * rounds)) {
          await back.notify(other, [0], 1, ADD);
          await turns(1);
        }
        return;
      }
      await back.wait([0], 1, GE); // the owner's memory lies open
      const owner = board.get(`${other}`) as { data: typeof data.local; cells: typeof signal.local };
      for (const round of range(rounds)) {
        const length = round % 2 === 0 ? 2000 : 10;
        const source = comm.tensor("int32", [1, length]);
        source.array.fill(round + 1);
        const issued = kept([
          data.put(other, source, { dstOffset: [round, 0], shape: [1, length] }),
          signal.notify(other, [0], 1, ADD),
        ]);
        await (round % 3 === 0 ? comm.fence(other) : comm.quiet());
        expectFilled(owner.data, round, 0, length, round + 1);
        assert.equal(owner.cells.array[0], round + 1, "the notify before quiet");
        await Promise.all(issued);
      }
    },
  },
  {
    line: 9,
    name: "a get is served after everything this rank sent to that owner before",
    program: async ({ comm, sends, other }) => {
      const data = await comm.window("data", "int32", [1, 3000]);
      if (!sends) return;
      for (const k of range(12)) {
        const length = [3, 1024, 3000][k % 3] ?? 0;
        const region = { shape: [1, length] };
        const source = comm.tensor("int32", [1, length]);
        source.array.fill(k + 1);
        const seen = comm.tensor("int32", [1, length]);
        await Promise.all([data.put(other, source, region), data.get(other, seen, region)]);
        expectFilled(seen, 0, 0, length, k + 1);
      }
    },
  },
  {
    line: 9,
    name: "a get reply of at most 4 KiB is a snapshot",
    program: async ({ comm, sends, other }) => {
      const rounds = 10;
      const data = await comm.window("data", "float32", [1, SNAPSHOT]);
      const go = await comm.signal("go", [1]);
      const ready = await comm.signal("ready", [1]);
      for (const k of range(rounds)) {
        if (sends) {
          await ready.wait([0], k + 1, GE);
          const seen = comm.tensor("float32", [1, SNAPSHOT]);
          // the owner rewrites the region as soon as it has served the get
          await Promise.all([data.get(other, seen), go.notify(other, [0], k + 1, SET)]);
          expectFilled(seen, 0, 0, SNAPSHOT, k + 1);
        } else {
          data.local.array.fill(k + 1);
          await ready.notify(other, [0], k + 1, SET);
          await go.wait([0], k + 1, GE);
          data.local.array.fill(-1);
        }
      }
    },
  },
];
