/** The mistakes that the tutorial of all_to_all lists, each as a program that makes it, in the order of its table. */
import type { ErrorCode } from "../../shared/errors.ts";
import { type Comm, NotifyOp, type Signal, type Tensor, WaitCmp, type Window } from "../../rank/index.ts";

/** One mistake. */
export interface EdgeCase {
  readonly name: string;
  readonly code: ErrorCode;
  readonly testFault?: string;
  readonly main: (comm: Comm) => Promise<unknown>;
}

const SIZE = 64;

interface Buffers {
  readonly x: Tensor<"float32">;
  readonly data: Window<"float32">;
  readonly arrived: Signal;
}

export const edgeCases: readonly EdgeCase[] = [
  { name: "two destinations confused", code: "ERR_WRONG_DATA", testFault: "misroute:rank=3,a=0,b=1", main: byHand },
  {
    name: "read before it arrived",
    code: "ERR_WRONG_DATA",
    main: async (comm) => {
      const buffers = await prepare(comm);
      await push(comm, buffers);
      await checkData(comm, buffers);
    },
  },
  { name: "a byte changed", code: "ERR_WRONG_DATA", testFault: "flip_byte:rank=1", main: byHand },
  {
    name: "a notify forgotten",
    code: "ERR_WAIT_TIMEOUT",
    main: async (comm) => {
      const { arrived } = await prepare(comm);
      for (const peer of comm.peers) {
        if (comm.rank !== 1 || peer !== 0) await arrived.notify(peer, [comm.rank, 0], 1, NotifyOp.Set);
      }
      await awaitAll(comm, arrived);
    },
  },
  {
    name: "a spent signal",
    code: "ERR_SIGNAL_NOT_CLEAN",
    main: async (comm) => {
      const { x, data, arrived } = await prepare(comm);
      for (const peer of comm.peers) await arrived.notify(peer, [comm.rank, 0], 1, NotifyOp.Set);
      await awaitAll(comm, arrived);
      await comm.allToAll(x, data, arrived);
    },
  },
  {
    name: "the window as its own source",
    code: "ERR_ALIASED_BUFFERS",
    main: async (comm) => {
      const { data, arrived } = await prepare(comm);
      await comm.allToAll(data.local, data, arrived);
    },
  },
  {
    name: "a private target",
    code: "ERR_NOT_A_WINDOW",
    main: async (comm) => {
      const { x, arrived } = await prepare(comm);
      await comm.allToAll(x, comm.tensor("float32", [comm.nranks, SIZE]) as never, arrived);
    },
  },
  {
    name: "not one row for each rank",
    code: "ERR_SHAPE_MISMATCH",
    main: async (comm) => {
      const data = await comm.window("data", "float32", [comm.nranks + 1, SIZE]);
      const credits = await comm.signal("credits", [comm.nranks, 1]);
      await comm.allToAll(comm.tensor("float32", [comm.nranks + 1, SIZE]), data, credits);
    },
  },
  {
    name: "an offset from 1",
    code: "ERR_OUT_OF_BOUNDS",
    main: async (comm) => {
      const { x, data } = await prepare(comm);
      await data.put(0, x, { dstOffset: [comm.nranks, 0], shape: [1, SIZE] });
    },
  },
  {
    name: "a negative remainder",
    code: "ERR_PEER_RANGE",
    main: async (comm) => {
      const { x, data } = await prepare(comm);
      await data.put((comm.rank - 1) % comm.nranks, x, { dstOffset: [comm.rank, 0], shape: [1, SIZE] });
      await comm.barrier(await comm.signal("credits", [comm.nranks, 1]));
    },
  },
  {
    name: "another call on one rank",
    code: "ERR_MISMATCH",
    main: async (comm) => {
      const { x, data, arrived } = await prepare(comm);
      await (comm.rank === 2 ? comm.barrier(arrived) : comm.allToAll(x, data, arrived));
    },
  },
  {
    name: "Set and AtomicAdd on one cell",
    code: "ERR_NOTIFY_MIXED",
    main: async (comm) => {
      const { arrived } = await prepare(comm);
      await arrived.notify(comm.rank, [0, 0], 1, NotifyOp.AtomicAdd);
      await arrived.notify(comm.rank, [0, 0], 1, NotifyOp.Set);
    },
  },
  {
    name: "two calls on one window",
    code: "ERR_BUFFER_CONFLICT",
    main: async (comm) => {
      const { x, data, arrived } = await prepare(comm);
      const credits = await comm.signal("credits", [comm.nranks, 1]);
      await Promise.all([comm.allToAll(x, data, arrived), comm.allToAll(x, data, credits)]);
    },
  },
  { name: "a frame beyond the window", code: "ERR_FRAME_BOUNDS", testFault: "bad_frame:rank=1", main: byHand },
];

async function byHand(comm: Comm): Promise<void> {
  const buffers = await prepare(comm);
  await push(comm, buffers);
  for (const peer of comm.peers) await buffers.arrived.notify(peer, [comm.rank, 0], 1, NotifyOp.Set);
  await awaitAll(comm, buffers.arrived);
  await checkData(comm, buffers);
}

async function prepare(comm: Comm): Promise<Buffers> {
  const { rank, nranks } = comm;
  const x = comm.tensor("float32", [nranks, SIZE]);
  for (let i = 0; i < nranks * SIZE; i++) x.array[i] = encode(rank, Math.floor(i / SIZE), i % SIZE);
  const data = await comm.window("data", "float32", [nranks, SIZE]);
  return { x, data, arrived: await comm.signal("arrived", [nranks, 1]) };
}

async function push(comm: Comm, { x, data }: Buffers): Promise<void> {
  for (let dest = 0; dest < comm.nranks; dest++) {
    await data.put(dest, x, { dstOffset: [comm.rank, 0], srcOffset: [dest, 0], shape: [1, SIZE] });
  }
}

async function awaitAll(comm: Comm, arrived: Signal): Promise<void> {
  for (const src of comm.peers) await arrived.wait([src, 0], 1, WaitCmp.Ge);
}

async function checkData(comm: Comm, { data }: Buffers): Promise<void> {
  await comm.check(data, (src, j) => encode(src, comm.rank, j), {
    decode: (value) => {
      const number = Number(value);
      const [src, dest] = [Math.floor(number / 1000), Math.floor((number % 1000) / 100)];
      return Number.isInteger(number) ? `rank ${src}'s chunk for rank ${dest}` : undefined;
    },
  });
}

function encode(src: number, dest: number, j: number): number {
  return 1000 * src + 100 * dest + j;
}
