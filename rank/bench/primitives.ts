/** Benchmarks of primitives: rank 0 works on rank 1, the others wait. */
import { elementBytes } from "../../shared/dtype.ts";
import type { Comm } from "../comm.ts";
import { NotifyOp, WaitCmp } from "../primitives.ts";
import type { Signal, Window } from "../window.ts";
import { type Bench, measure, total } from "./measure.ts";
import type { BenchPlan, BenchResult, Primitive } from "./plan.ts";

/** Operations that a bandwidth benchmark has under way at once. */
const WINDOW = 16;

/** Measures one primitive at one size. */
export async function benchPrimitive(
  bench: Bench,
  name: Primitive,
  bytes: number,
  { dtype, iterations, warmup, check }: BenchPlan,
): Promise<BenchResult> {
  const { comm } = bench;
  const count = Math.max(1, Math.floor(bytes / elementBytes(dtype)));
  const data = await comm.window("bench.data", dtype, [count]);
  const pings = await comm.signal("bench.pings", [2]);
  const local = comm.tensor(dtype, [count]);
  const pattern = (rank: number): number => 1 + rank;
  local.bytes.fill(pattern(comm.rank));
  data.local.bytes.fill(pattern(comm.rank));
  await comm.barrier(bench.sync);
  const operation = name === "notify_lat" ? pingPong(comm, pings) : transfer(comm, name, data, local);
  const times = await measure(bench, iterations, warmup, operation, () => comm.quiet());
  await comm.barrier(bench.sync);
  // after a put rank 1 holds rank 0's bytes, after a get rank 0's tensor holds rank 1's
  const [checkedBy, from, memory] = name.startsWith("put") ? [1, 0, data.local.bytes] : [0, 1, local.bytes];
  const checks = check && name !== "notify_lat" && comm.nranks > 1 && comm.rank === checkedBy;
  const wrong = checks ? memory.reduce((sum, byte) => sum + (byte === pattern(from) ? 0 : 1), 0) : 0;
  const [wrongTotal = 0, checked = 0] = await total(bench, [wrong, checks ? count : 0]);
  await data.free();
  await pings.free();
  const half = name === "notify_lat" ? 2 : 1;
  return {
    name,
    bytes: count * elementBytes(dtype),
    count,
    dtype,
    op: "none",
    root: -1,
    timeUs: times.timeUs / half,
    p50Us: times.p50Us / half,
    p99Us: times.p99Us / half,
    minUs: times.minUs / half,
    busFactor: comm.nranks === 1 ? null : 1,
    wrong: check ? wrongTotal : null,
    checked,
  };
}

/** One transfer an iteration; a latency benchmark waits for each, a bandwidth one keeps several under way. */
function transfer(
  comm: Comm,
  name: Exclude<Primitive, "notify_lat">,
  data: Window,
  local: Parameters<Window["put"]>[1],
): (iteration: number) => Promise<void> {
  if (comm.rank !== 0 || comm.nranks === 1) return () => Promise.resolve();
  const one = async (): Promise<void> => {
    if (name === "put_lat") {
      await data.put(1, local);
      await comm.fence(1);
    } else if (name === "put_bw") await data.put(1, local);
    else await data.get(1, local);
  };
  if (name.endsWith("_lat")) return one;
  const under: Promise<void>[] = [];
  return async () => {
    if (under.length >= WINDOW) await under.shift();
    under.push(one());
  };
}

/** A notify there and one back: two one-way latencies. */
function pingPong(comm: Comm, pings: Signal): (iteration: number) => Promise<void> {
  let sent = 0;
  return async () => {
    if (comm.rank > 1 || comm.nranks === 1) return;
    const peer = 1 - comm.rank;
    sent += 1;
    if (comm.rank === 0) await pings.notify(peer, [0], 1, NotifyOp.AtomicAdd);
    await pings.wait([0], sent, WaitCmp.Ge);
    if (comm.rank === 1) await pings.notify(peer, [0], 1, NotifyOp.AtomicAdd);
  };
}
