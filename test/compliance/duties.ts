/**
 * What the memory model leaves to the caller: for each duty a program that neglects it, which some seed exposes, and
 * its twin that heeds it, which every seed passes.
 */
import { type Comm, NotifyOp, RankwiseError, WaitCmp } from "rankwise";
import { range, runRanks } from "../helpers/ranks.ts";
import { kept } from "./expect.ts";

const { Set: SET, AtomicAdd: ADD } = NotifyOp;
const { Eq: EQ, Ge: GE } = WaitCmp;

export interface Duty {
  /** Line of the memory model that leaves it to the caller. */
  readonly line: number;
  readonly name: string;
  readonly nranks: number;
  /** Seeds of which at least one exposes the neglect. */
  readonly seedsMax: number;
  /** Whether this rank saw what a caller expects; `heeds` tells the right program from the wrong one. */
  readonly program: (comm: Comm, heeds: boolean) => Promise<boolean>;
}

/** More than a snapshot, less than a frame. */
const LARGE = 5000;

export const duties: readonly Duty[] = [
  {
    line: 1,
    name: "leave a source alone until its put has resolved",
    nranks: 2,
    seedsMax: 50,
    program: async (comm, heeds) => {
      const data = await comm.window("data", "float32", [LARGE]);
      const signal = await comm.signal("signal", [1]);
      if (comm.rank === 1) {
        await signal.wait([0], 1, GE);
        return data.local.array.every((value) => value === 1);
      }
      const source = comm.tensor("float32", [LARGE]);
      source.array.fill(1);
      const issued = [data.put(1, source), signal.notify(1, [0], 1, SET)];
      if (heeds) await Promise.all(issued);
      source.array.fill(2);
      await Promise.all(issued);
      return true;
    },
  },
  {
    line: 2,
    name: "wait for a notify before what was put is read (all_to_all by hand)",
    nranks: 4,
    seedsMax: 100,
    program: (comm, heeds) => handAllToAll(comm, heeds ? comm.peers : []),
  },
  {
    line: 2,
    name: "wait for every peer's notify, not for one that stands for all (all_to_all by hand)",
    nranks: 4,
    seedsMax: 100,
    program: (comm, heeds) => handAllToAll(comm, heeds ? comm.peers : comm.peers.slice(0, 1)),
  },
  {
    line: 2,
    name: "do not expect order between different peers: fence the one before the other is told",
    nranks: 3,
    seedsMax: 100,
    program: async (comm, heeds) => {
      const data = await comm.window("data", "int32", [1]);
      const signal = await comm.signal("signal", [1]);
      if (comm.rank === 0) {
        await data.put(1, comm.tensor("int32", [1], Int32Array.of(9)));
        if (heeds) await comm.fence(1);
        await signal.notify(2, [0], 1, SET);
      }
      if (comm.rank < 2) return true;
      await signal.wait([0], 1, GE);
      const seen = comm.tensor("int32", [1]);
      await data.get(1, seen);
      return seen.array[0] === 9;
    },
  },
  {
    line: 4,
    name: "be quiet before a third rank is told that data is there",
    nranks: 3,
    seedsMax: 100,
    program: async (comm, heeds) => {
      const data = await comm.window("data", "int32", [1]);
      const signal = await comm.signal("signal", [3]);
      if (comm.rank === 0) {
        await data.put(1, comm.tensor("int32", [1], Int32Array.of(9)));
        if (heeds) await comm.quiet();
        await signal.notify(2, [0], 1, SET);
      } else if (comm.rank === 2) {
        await signal.wait([0], 1, GE);
        await signal.notify(1, [2], 1, SET);
      } else {
        await signal.wait([2], 1, GE);
        return data.local.array[0] === 9;
      }
      return true;
    },
  },
  {
    line: 5,
    name: "put a wait between Set and AtomicAdd on one cell",
    nranks: 3,
    seedsMax: 20,
    program: async (comm, heeds) => {
      const signal = await comm.signal("signal", [1]);
      const go = await comm.signal("go", [1]);
      if (comm.rank === 1) await signal.notify(0, [0], 5, SET);
      if (comm.rank === 2) {
        if (heeds) await go.wait([0], 1, GE);
        await signal.notify(0, [0], 1, ADD);
      }
      if (comm.rank > 0) return true;
      if (heeds) {
        await signal.wait([0], 5, EQ);
        await go.notify(2, [0], 1, SET);
      }
      await signal.wait([0], 6, GE, { timeoutMs: 200 });
      return true;
    },
  },
  {
    line: 9,
    name: "do not write a region while a large get of it is under way",
    nranks: 2,
    seedsMax: 50,
    program: async (comm, heeds) => {
      const data = await comm.window("data", "int32", [LARGE]);
      const go = await comm.signal("go", [1]);
      const ready = await comm.signal("ready", [1]);
      if (comm.rank === 1) {
        data.local.array.fill(1);
        await ready.notify(0, [0], 1, SET);
        await go.wait([0], 1, GE);
        data.local.array.fill(2);
        return true;
      }
      await ready.wait([0], 1, GE);
      const seen = comm.tensor("int32", [LARGE]);
      const [got] = kept([data.get(1, seen)]);
      if (heeds) await got;
      await go.notify(1, [0], 1, SET);
      await got;
      return seen.array.every((value) => value === 1);
    },
  },
  {
    line: 10,
    name: "call a wait for Eq before its value can pass, or wait for Ge",
    nranks: 2,
    seedsMax: 50,
    program: async (comm, heeds) => {
      const signal = await comm.signal("signal", [1]);
      const other = await comm.signal("other", [1]);
      if (comm.rank === 0) {
        for (const value of [1, 2]) await signal.notify(1, [0], value, SET);
        await other.notify(1, [0], 1, SET);
        return true;
      }
      await other.wait([0], 1, GE);
      const waited = signal.wait([0], 1, heeds ? GE : EQ, { timeoutMs: 100 });
      return await waited.then(() => true, (error: unknown) => !(error instanceof RankwiseError)); // prettier-ignore
    },
  },
  {
    line: 11,
    name: "put a barrier between the local initialisation of a window and a peer's first put",
    nranks: 3,
    seedsMax: 100,
    program: async (comm, heeds) => {
      const credits = await comm.signal("credits", [comm.nranks, 1]);
      const signal = await comm.signal("signal", [1]);
      const data = await comm.window("data", "int32", [2]);
      data.local.array.fill(-1);
      if (heeds) await comm.barrier(credits);
      const peer = (comm.rank + 1) % comm.nranks;
      await data.putSignal(peer, comm.tensor("int32", [2]), { shape: [1] }, signal, [0], 1, SET);
      await signal.wait([0], 1, GE);
      return data.local.array[0] === 0 && data.local.array[1] === -1;
    },
  },
];

/** The tutorial's exchange, which reads its rows once the awaited peers have notified. */
async function handAllToAll(comm: Comm, awaited: readonly number[]): Promise<boolean> {
  const { rank, nranks } = comm;
  const size = 16;
  const x = comm.tensor("float32", [nranks, size]);
  for (let i = 0; i < x.array.length; i++) x.array[i] = 1000 * rank + i;
  const data = await comm.window("data", "float32", [nranks, size]);
  const arrived = await comm.signal("arrived", [nranks, 1]);
  for (let dest = 0; dest < nranks; dest++) {
    await data.put(dest, x, { dstOffset: [rank, 0], srcOffset: [dest, 0], shape: [1, size] });
  }
  for (const peer of comm.peers) await arrived.notify(peer, [rank, 0], 1, SET);
  for (const src of awaited) await arrived.wait([src, 0], 1, GE);
  return range(nranks).every((src) =>
    range(size).every((j) => data.local.array[src * size + j] === 1000 * src + rank * size + j),
  );
}

/** Whether a duty's program went well on every rank with a seed. */
export async function goesWell(duty: Duty, heeds: boolean, seed: number): Promise<boolean> {
  const right: boolean[] = [];
  const { failure } = await runRanks({
    nranks: duty.nranks,
    seed,
    waitTimeoutMs: 2000,
    main: async (comm) => right.push(await duty.program(comm, heeds)),
  });
  return failure === undefined && right.length === duty.nranks && right.every((value) => value);
}
