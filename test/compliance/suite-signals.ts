/** Lines 5 to 8 and 10 of the memory model: cells, waits, zero-byte signals, publication, latches and timeouts. */
import assert from "node:assert/strict";
import { NotifyOp, WaitCmp } from "rankwise";
import { INT32_MAX, INT32_MIN } from "../../shared/constants.ts";
import { internalsOf } from "../../rank/window.ts";
import { range } from "../helpers/ranks.ts";
import { expectFilled, kept, rejection, turns } from "./expect.ts";
import { endsWith, type Guarantee } from "./guarantee.ts";

const { Set: SET, AtomicAdd: ADD } = NotifyOp;
const { Eq: EQ, Ge: GE } = WaitCmp;

export const signalSuite: readonly Guarantee[] = [
  {
    line: 5,
    name: "AtomicAdd of several ranks on one cell loses nothing, negative values included",
    program: async ({ comm, sends, other }) => {
      const count = 150;
      const signal = await comm.signal("signal", [4]);
      const done = await comm.signal("done", [1]);
      const owner = sends ? other : comm.rank;
      let sum = 0;
      for (const k of range(count)) {
        const value = (k % 7) * (k % 2 === 0 ? 1 : -3) + (sends ? 5 : 2);
        sum += value;
        await signal.notify(owner, [2], value, ADD);
        if (k % 5 === 0) await turns(1);
      }
      if (sends) {
        await done.notify(other, [0], sum, ADD);
        return;
      }
      const theirs = await done.wait([0], 1, GE);
      assert.deepEqual([...signal.local.array], [0, 0, sum + theirs, 0]);
    },
  },
  {
    line: 5,
    name: "a notify touches no other cell and no other memory",
    program: async ({ comm, sends, other }) => {
      const before = await comm.window("before", "int32", [8]);
      const signal = await comm.signal("signal", [3, 5]);
      const after = await comm.window("after", "int32", [8]);
      const done = await comm.signal("done", [1]);
      if (sends) {
        await signal.notify(other, [0, 0], 7, SET);
        await signal.notify(other, [1, 2], -9, ADD);
        await signal.notify(other, [2, 4], INT32_MIN, SET);
        await done.notify(other, [0], 1, SET);
        return;
      }
      await done.wait([0], 1, GE);
      assert.deepEqual([...signal.local.array], [7, 0, 0, 0, 0, 0, 0, -9, 0, 0, 0, 0, 0, 0, INT32_MIN]);
      for (const window of [before, after]) expectFilled(window.local, 0, 0, 8, 0);
    },
  },
  {
    line: 5,
    name: "AtomicAdd wraps as INT32",
    program: async ({ comm, sends, other }) => {
      const signal = await comm.signal("signal", [2]);
      const ready = await comm.signal("ready", [1]);
      if (sends) {
        await ready.wait([0], 1, GE);
        for (const value of [INT32_MAX, 1, -1, INT32_MIN]) await signal.notify(other, [0], value, ADD);
        for (const value of [INT32_MIN, -1]) await signal.notify(other, [1], value, ADD);
        return;
      }
      // the last one passes MAX + MIN = -1, which is no wrap, on the way
      const first = [INT32_MAX, INT32_MIN, INT32_MAX, -1].map((value) => signal.wait([0], value, EQ));
      const waits = kept([...first, signal.wait([1], INT32_MIN, EQ), signal.wait([1], INT32_MAX, EQ)]);
      await ready.notify(other, [0], 1, SET);
      assert.deepEqual(await Promise.all(waits), [INT32_MAX, INT32_MIN, INT32_MAX, -1, INT32_MIN, INT32_MAX]);
    },
  },
  {
    line: 5,
    name: "Set and AtomicAdd that meet on one cell end the group and name the sender",
    job: { waitTimeoutMs: 1000 },
    verdict: endsWith(
      "ERR_NOTIFY_MIXED",
      /rank \d+, frame from rank \d+: AtomicAdd on cell \[1\] of signal "signal", last changed by Set/u,
    ),
    program: async ({ comm, sends, other }) => {
      const signal = await comm.signal("signal", [2]);
      if (!sends) return;
      await signal.notify(other, [1], 1, SET);
      await signal.notify(other, [1], 1, ADD);
    },
  },
  {
    line: 5,
    name: "Set may follow AtomicAdd, and the reverse, once a wait on the cell was satisfied",
    program: async ({ comm, sends, other }) => {
      const signal = await comm.signal("signal", [2]);
      const seen = await comm.signal("seen", [1]);
      const changes = [
        { op: SET, value: 3, sum: 3 },
        { op: ADD, value: 4, sum: 7 },
        { op: ADD, value: 1, sum: 8 },
        { op: SET, value: -2, sum: -2 },
      ];
      for (const [k, { op, value, sum }] of changes.entries()) {
        if (sends) {
          await signal.notify(other, [0], value, op);
          await seen.wait([0], k + 1, GE);
        } else {
          assert.equal(await signal.wait([0], sum, EQ), sum);
          await seen.notify(other, [0], k + 1, SET);
        }
      }
    },
  },
  {
    line: 5,
    name: "a notify to oneself acts on the same cell",
    program: async ({ comm, sends, other }) => {
      const signal = await comm.signal("signal", [1]);
      const back = await comm.signal("back", [1]);
      if (sends) {
        await signal.notify(other, [0], 3, ADD);
        await back.wait([0], 1, GE);
        return;
      }
      const [both] = kept([signal.wait([0], 5, EQ)]);
      await signal.notify(comm.rank, [0], 2, ADD);
      assert.equal(await both, 5);
      await signal.notify(comm.rank, [0], -5, ADD);
      assert.equal(signal.local.array[0], 0);
      await back.notify(other, [0], 1, SET);
    },
  },
  {
    line: 6,
    name: "a wait whose condition already holds returns at once, and consumes nothing",
    program: async ({ comm, sends, other }) => {
      const signal = await comm.signal("signal", [1]);
      if (sends) {
        await signal.notify(other, [0], 4, SET);
        return;
      }
      await signal.wait([0], 4, EQ);
      for (const [expected, compare] of [
        [4, EQ],
        [4, GE],
        [-1, GE],
      ] as const) {
        // prettier-ignore
        let value: number | undefined;
        const [settled] = kept([signal.wait([0], expected, compare).then((latched) => (value = latched))]);
        for (const _ of range(10)) await Promise.resolve();
        assert.equal(value, 4, "a condition that holds must not wait for a further change");
        await settled;
      }
      assert.equal(signal.local.array[0], 4);
    },
  },
  {
    line: 6,
    name: "every change of a cell wakes all its waiters",
    program: async ({ comm, sends, other }) => {
      const signal = await comm.signal("signal", [2]);
      const ready = await comm.signal("ready", [1]);
      if (sends) {
        await ready.wait([0], 1, GE);
        for (const _ of range(6)) await signal.notify(other, [0], 1, ADD);
        for (const value of [5, 9]) await signal.notify(other, [1], value, SET);
        return;
      }
      const added = kept([1, 2, 3, 4, 5, 6].map((value) => signal.wait([0], value, GE)));
      const same = kept(range(4).map(() => signal.wait([0], 3, EQ)));
      const set = kept([signal.wait([1], 5, EQ), signal.wait([1], 6, GE)]);
      await ready.notify(other, [0], 1, SET);
      assert.deepEqual(await Promise.all(added), [1, 2, 3, 4, 5, 6]);
      assert.deepEqual(await Promise.all(same), [3, 3, 3, 3]);
      assert.deepEqual(await Promise.all(set), [5, 9]);
    },
  },
  {
    line: 7,
    name: "a zero-byte putSignal still signals, behind what was put before",
    program: async ({ comm, sends, other }) => {
      const data = await comm.window("data", "float32", [4, 4]);
      const empty = await comm.window("empty", "float32", [0, 4]);
      const signal = await comm.signal("signal", [3]);
      if (sends) {
        const x = comm.tensor("float32", [4, 4]);
        x.array.fill(6);
        const [whole] = kept([data.put(other, x)]);
        await data.putSignal(other, x, { shape: [0, 4] }, signal, [0], 1, SET);
        await data.putSignal(other, x, { srcOffset: [4, 0], dstOffset: [0, 4], shape: [0, 0] }, signal, [1], 2, ADD);
        await empty.putSignal(other, comm.tensor("float32", [0, 4]), undefined, signal, [2], 3, SET);
        await whole;
        return;
      }
      assert.equal(await signal.wait([0], 1, EQ), 1);
      expectFilled(data.local, 0, 0, 16, 6);
      assert.equal(await signal.wait([1], 2, EQ), 2);
      assert.equal(await signal.wait([2], 3, EQ), 3);
    },
  },
  {
    line: 8,
    name: "windows and signals are zero when a peer reaches them, and a rank that runs ahead loses no signal",
    program: async ({ comm, sends, other }) => {
      const credits = await comm.signal("credits", [comm.nranks, 1]);
      for (const k of range(4)) {
        const data = await comm.window("data", "int32", [8]);
        const signal = await comm.signal("signal", [4]);
        if (sends) {
          const x = comm.tensor("int32", [2], Int32Array.of(k + 1, k + 1));
          await Promise.all([data.put(other, x, { dstOffset: [3], shape: [2] }), signal.notify(other, [1], 1, ADD)]);
        } else {
          await turns(12); // the sender is well ahead
          await signal.wait([1], 1, EQ);
          assert.deepEqual([...data.local.array], [0, 0, 0, k + 1, k + 1, 0, 0, 0]);
          assert.deepEqual([...signal.local.array], [0, 1, 0, 0]);
        }
        await comm.barrier(credits);
        await Promise.all([data.free(), signal.free()]);
      }
    },
  },
  {
    line: 10,
    name: "an Eq value that passed by counts as met",
    program: async ({ comm, sends, other }) => {
      const signal = await comm.signal("signal", [1]);
      const ready = await comm.signal("ready", [1]);
      if (sends) {
        await ready.wait([0], 1, GE);
        await Promise.all([1, 2, 3].map((value) => signal.notify(other, [0], value, SET)));
        return;
      }
      const [passing] = kept([signal.wait([0], 2, EQ)]);
      await ready.notify(other, [0], 1, SET);
      await signal.wait([0], 3, GE);
      assert.equal(await passing, 2);
    },
  },
  {
    line: 10,
    name: "a hand-written wait that timed out may be tried again",
    program: async ({ comm, sends, other }) => {
      const signal = await comm.signal("signal", [1]);
      const retry = await comm.signal("retry", [1]);
      if (sends) {
        await signal.notify(other, [0], 1, ADD);
        await retry.wait([0], 1, GE);
        await signal.notify(other, [0], 1, ADD);
        return;
      }
      await signal.wait([0], 1, GE);
      const error = await rejection(signal.wait([0], 2, GE, { timeoutMs: 5 }), "ERR_WAIT_TIMEOUT");
      assert.match(error.message, /cell \[0\] of signal "signal" to be ge 2; it holds 1, last changed by rank \d+/u);
      await turns(3);
      await retry.notify(other, [0], 1, SET);
      assert.equal(await signal.wait([0], 2, GE), 2);
    },
  },
  {
    line: 10,
    name: "a timeout inside a builtin ends the group",
    verdict: endsWith("ERR_WAIT_TIMEOUT", /^barrier #1: waited \d+ ms for cell/u),
    program: async ({ comm, sends }) => {
      const credits = await comm.signal("credits", [comm.nranks, 1]);
      const never = await comm.signal("never", [1]);
      const engine = internalsOf(never)?.engine;
      if (engine !== undefined) engine.waitTimeoutMs = 60;
      if (sends) {
        await comm.barrier(credits).catch(() => undefined); // what it rejects with, the program may swallow
        return;
      }
      await rejection(never.wait([0], 1, GE, { timeoutMs: 1000 }), "ERR_GROUP_ENDED");
    },
  },
];
