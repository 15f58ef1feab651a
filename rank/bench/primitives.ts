/** Benchmarks of primitives: rank 0 works on rank 1, the others wait. A rank that is alone works on itself. */
import { elementBytes } from "../../shared/dtype.ts";
import { getElement, nameValue, setElement } from "../collectives/values.ts";
import type { Comm } from "../comm.ts";
import type { Tensor } from "../memory/tensor.ts";
import { NotifyOp, WaitCmp } from "../primitives.ts";
import type { Signal, Window } from "../window.ts";
import { type Bench, measure, type Operation, total } from "./measure.ts";
import { type BenchPlan, type BenchResult, type Primitive, sampleStep } from "./plan.ts";

type Transfer = Exclude<Primitive, "notify_lat">;

/** Operations that a bandwidth benchmark has under way at once. */
const WINDOW = 16;

/** Measures one primitive at one size. */
export async function benchPrimitive(
  bench: Bench,
  name: Primitive,
  bytes: number,
  plan: BenchPlan,
): Promise<BenchResult> {
  return name === "notify_lat" ? benchNotify(bench, plan) : benchTransfer(bench, name, bytes, plan);
}

async function benchTransfer(bench: Bench, name: Transfer, bytes: number, plan: BenchPlan): Promise<BenchResult> {
  const { comm } = bench;
  const { dtype, check } = plan;
  const count = Math.max(1, Math.floor(bytes / elementBytes(dtype)));
  const data = await comm.window("bench.data", dtype, [count]);
  const local = comm.tensor(dtype, [count]);
  const puts = name.startsWith("put");
  const source = puts ? local : data.local;
  for (let i = 0; i < count; i++) setElement(source, i, nameValue(dtype, comm.rank, 0, i, 0));
  const operation = transfer(comm, name, data, local);
  const times = await measure(bench, plan, operation);
  const checked = check ? await countWrong(bench, operation, puts, data.local, local) : { wrong: 0, elements: 0 };
  const [wrong = 0, compared = 0] = await total(bench, [checked.wrong, checked.elements]);
  await data.free();
  return {
    ...common(plan, name, comm.nranks),
    bytes: count * elementBytes(dtype),
    count,
    ...times,
    wrong: check ? wrong : null,
    checked: compared,
  };
}

/** One more transfer into memory that holds nothing of the ones before; who has received compares. */
async function countWrong(
  { comm, sync }: Bench,
  { call, settle }: Operation,
  puts: boolean,
  window: Tensor,
  local: Tensor,
): Promise<{ wrong: number; elements: number }> {
  const [from, to] = puts ? [0, peerOf(comm)] : [peerOf(comm), 0];
  const target = puts ? window : local;
  await comm.barrier(sync);
  if (comm.rank === to) target.bytes.fill(0xff);
  await comm.barrier(sync);
  await call();
  await settle?.();
  await comm.barrier(sync);
  let [wrong, elements] = [0, 0];
  if (comm.rank !== to) return { wrong, elements };
  for (let i = 0; i < target.array.length; i += sampleStep(target.bytes.byteLength)) {
    elements += 1;
    if (getElement(target, i) !== nameValue(target.dtype, from, 0, i, 0)) wrong += 1;
  }
  return { wrong, elements };
}

/** A notify there and one back, of which a one-way latency is half; a cell that has not counted each of them is wrong. */
async function benchNotify(bench: Bench, plan: BenchPlan): Promise<BenchResult> {
  const { comm } = bench;
  const pings = await comm.signal("bench.pings", [1]);
  const { operation, sent } = pingPong(comm, pings);
  const times = await measure(bench, plan, operation);
  await comm.barrier(bench.sync);
  const plays = comm.rank === 0 || comm.rank === peerOf(comm);
  const ways = comm.nranks === 1 ? 1 : 2;
  const wrong = plays && pings.local.array[0] !== sent() ? 1 : 0;
  const [wrongTotal = 0, compared = 0] = await total(bench, [wrong, plays ? 1 : 0]);
  await pings.free();
  return {
    ...common(plan, "notify_lat", comm.nranks),
    bytes: 0,
    count: 0,
    calls: times.calls,
    warmupCalls: times.warmupCalls,
    timeUs: times.timeUs / ways,
    p50Us: times.p50Us / ways,
    p99Us: times.p99Us / ways,
    minUs: times.minUs / ways,
    busFactor: null,
    wrong: plan.check ? wrongTotal : null,
    checked: plan.check ? compared : 0,
  };
}

function common({ dtype }: BenchPlan, name: Primitive, nranks: number) {
  return { name, dtype, op: "none", root: -1, busFactor: nranks === 1 ? null : 1 };
}

function peerOf({ nranks }: Comm): number {
  return nranks === 1 ? 0 : 1;
}

/** One transfer a call; a latency benchmark waits for each, a bandwidth one keeps several under way. */
function transfer(comm: Comm, name: Transfer, data: Window, local: Tensor): Operation {
  if (comm.rank !== 0) return { call: () => Promise.resolve() };
  const peer = peerOf(comm);
  const one = async (): Promise<void> => {
    if (name === "put_lat") {
      await data.put(peer, local);
      await comm.fence(peer);
    } else if (name === "put_bw") await data.put(peer, local);
    else await data.get(peer, local);
  };
  if (name.endsWith("_lat")) return { call: one };
  const under: Promise<void>[] = [];
  return {
    call: async () => {
      if (under.length >= WINDOW) await under.shift();
      under.push(one());
    },
    settle: async () => {
      await Promise.all(under.splice(0));
      await comm.quiet();
    },
  };
}

function pingPong(comm: Comm, pings: Signal): { operation: Operation; sent: () => number } {
  let sent = 0;
  const peer = comm.nranks === 1 ? 0 : 1 - comm.rank;
  const call = async (): Promise<void> => {
    if (comm.rank > 1) return;
    sent += 1;
    if (comm.rank === 0) await pings.notify(peer, [0], 1, NotifyOp.AtomicAdd);
    await pings.wait([0], sent, WaitCmp.Ge);
    if (comm.rank === 1) await pings.notify(peer, [0], 1, NotifyOp.AtomicAdd);
  };
  return { operation: { call, settle: () => comm.quiet() }, sent: () => sent };
}
