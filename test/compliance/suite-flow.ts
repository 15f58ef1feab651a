/** Lines 11 and 12 of the memory model: the barrier in front of first puts, and flow control. */
import assert from "node:assert/strict";
import { NotifyOp, RankwiseError, WaitCmp } from "rankwise";
import { internalsOf } from "../../rank/window.ts";
import { range } from "../helpers/ranks.ts";
import { expectFilled, kept } from "./expect.ts";
import type { Guarantee } from "./guarantee.ts";

const { Set: SET, AtomicAdd: ADD } = NotifyOp;
const { Ge: GE } = WaitCmp;

export const flowSuite: readonly Guarantee[] = [
  {
    line: 11,
    name: "no rank leaves a barrier before every rank has entered it",
    program: async ({ comm, board }) => {
      const credits = await comm.signal("credits", [comm.nranks, 1]);
      for (const round of range(10)) {
        board.set(`${comm.rank}`, round);
        await comm.barrier(credits);
        for (const rank of range(comm.nranks)) {
          const entered = board.get(`${rank}`) as number | undefined;
          assert.ok((entered ?? -1) >= round, `rank ${comm.rank} left barrier ${round} before rank ${rank} entered it`);
        }
      }
    },
  },
  {
    line: 11,
    name: "behind a barrier, a peer's first put meets the owner's initialisation",
    program: async ({ comm, sends, other }) => {
      const credits = await comm.signal("credits", [comm.nranks, 1]);
      const signal = await comm.signal("signal", [1]);
      const data = await comm.window("data", "float32", [2, 8]);
      data.local.array.fill(Number.NEGATIVE_INFINITY);
      await comm.barrier(credits);
      if (sends) {
        const x = comm.tensor("float32", [1, 8]);
        x.array.fill(5);
        await data.putSignal(other, x, { dstOffset: [1, 0], shape: [1, 8] }, signal, [0], 1, SET);
        return;
      }
      await signal.wait([0], 1, GE);
      expectFilled(data.local, 0, 0, 8, Number.NEGATIVE_INFINITY);
      expectFilled(data.local, 1, 0, 8, 5);
    },
  },
  {
    line: 12,
    name: "two ranks that fetch from each other at once finish, whatever their sending queues hold",
    job: { limits: { linkQueueBytes: 0, getInFlightBytes: 1 }, waitTimeoutMs: 3000 },
    program: async ({ comm, sends, other }) => {
      const [rows, length] = [4, 50_000];
      const credits = await comm.signal("credits", [comm.nranks, 1]);
      const data = await comm.window("data", "float32", [rows, length]);
      const extra = await comm.window("extra", "float32", [1, length]);
      data.local.array.fill(sends ? 1 : 2);
      await comm.barrier(credits);
      const fetched = comm.tensor("float32", [rows, length]);
      const x = comm.tensor("float32", [1, length]);
      x.array.fill(sends ? 3 : 4);
      const rowOf = (row: number) => ({ srcOffset: [row, 0], dstOffset: [row, 0], shape: [1, length] });
      await Promise.all([
        ...range(rows).map((row) => data.get(other, fetched, rowOf(row))),
        ...range(3).map(() => extra.put(other, x)),
      ]);
      expectFilled(fetched, 0, 0, rows * length, sends ? 2 : 1);
      await comm.barrier(credits);
      expectFilled(extra.local, 0, 0, length, sends ? 4 : 3);
    },
  },
  {
    line: 12,
    name: "a full queue refuses puts and notifies whole, never credits, acknowledgements or get replies",
    job: { limits: { linkQueueBytes: 0, linkQueueFrames: 4 } },
    program: async ({ comm, other }) => {
      const large = 1_000_000;
      const credits = await comm.signal("credits", [comm.nranks, 1]);
      const data = await comm.window("data", "int32", [large]);
      const signal = await comm.signal("signal", [1]);
      const told = await comm.signal("told", [1]);
      data.local.array.fill(7, 0, 2000);
      await comm.barrier(credits);
      const seen = comm.tensor("int32", [2000]);
      const gets = kept(range(3).map(() => data.get(other, seen, { shape: [2000] })));
      // more than a socket takes at once
      const rest = { srcOffset: [2000], dstOffset: [2000], shape: [large - 2000] };
      const puts = range(2).map(() => data.put(other, comm.tensor("int32", [large]), rest));
      const notifies = range(40).map(() => signal.notify(other, [0], 1, ADD));
      const outcomes = await Promise.allSettled([...puts, ...notifies]);
      const refused = outcomes.filter((outcome) => outcome.status === "rejected");
      for (const { reason } of refused) {
        assert.ok(reason instanceof RankwiseError && reason.code === "ERR_QUEUE_FULL", String(reason));
        assert.match(reason.message, /await puts and notifies/u);
      }
      assert.ok(refused.length > 0, "the flood did not fill the queue");
      await Promise.all([...gets, comm.barrier(credits)]);
      expectFilled(seen, 0, 0, 2000, 7);
      await comm.quiet();
      const taken = outcomes.slice(2).filter(({ status }) => status === "fulfilled");
      await told.notify(other, [0], taken.length + 1, SET);
      const theirs = await told.wait([0], 1, GE);
      assert.equal(signal.local.array[0], theirs - 1, "every notify that was taken has arrived, and no other");
    },
  },
  {
    line: 12,
    name: "a caller that awaits its puts and notifies never meets a full queue",
    job: { limits: { linkQueueBytes: 0, linkQueueFrames: 8 } },
    program: async ({ comm, sends, other }) => {
      const data = await comm.window("data", "int32", [4]);
      const signal = await comm.signal("signal", [1]);
      if (sends) {
        const x = comm.tensor("int32", [1]);
        for (const k of range(200)) {
          x.array[0] = k;
          await data.put(other, x, { dstOffset: [k % 4], shape: [1] });
          await signal.notify(other, [0], 1, ADD);
        }
        return;
      }
      await signal.wait([0], 200, GE);
      assert.deepEqual([...data.local.array], [196, 197, 198, 199]);
    },
  },
  {
    line: 12,
    name: "a requester bounds the get bytes it has outstanding",
    job: { limits: { getInFlightBytes: 10_000, framePayloadBytes: 5000 } },
    program: async ({ comm, sends, other }) => {
      const data = await comm.window("data", "uint8", [100_000]);
      const credits = await comm.signal("credits", [comm.nranks, 1]);
      data.local.array.fill(3);
      await comm.barrier(credits);
      if (sends) {
        const peer = internalsOf(data)?.engine.peer(other);
        const seen = comm.tensor("uint8", [100_000]);
        const get = async (k: number): Promise<void> => {
          await data.get(other, seen, { srcOffset: [k * 10_000], dstOffset: [k * 10_000], shape: [10_000] });
          assert.ok((peer?.getBytesInFlight ?? 0) <= 10_000, `${peer?.getBytesInFlight ?? 0} bytes are in flight`);
        };
        const gets = kept(range(10).map(get));
        assert.equal(peer?.getBytesInFlight, 10_000);
        await Promise.all(gets);
        expectFilled(seen, 0, 0, 100_000, 3);
      }
      await comm.barrier(credits);
    },
  },
];
