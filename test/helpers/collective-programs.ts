/**
 * Random programs of collectives: groups, windows, signals and a sequence of calls, run on the seeded in-process
 * transport and compared with the sequential oracle.
 */
import { createHash } from "node:crypto";
import fc from "fast-check";
import type { Task } from "../../rank/collectives/call.ts";
import { AllReduceAlgo } from "../../rank/collectives/reduce-options.ts";
import type { Comm } from "../../rank/comm.ts";
import { ReduceOp } from "../../rank/memory/reduce.ts";
import type { Tensor } from "../../rank/memory/tensor.ts";
import { simulate } from "../../rank/simulate.ts";
import type { Signal, Window } from "../../rank/window.ts";
import { type DType, dtypes } from "../../shared/dtype.ts";
import { Random } from "../../shared/random.ts";
import * as oracle from "./collective-oracle.ts";
import { sharedArena } from "./sim.ts";

/** Signals of each group. */
const SIGNALS = 2;

/** Most lanes that a call asks for, beside multiples of P. */
const LANES_MAX = 4;

const kinds = [
  "barrier",
  "broadcast",
  "allgather",
  "reduce_scatter",
  "mesh",
  "ring",
  "all_to_all",
  "all_to_all_v",
] as const;

/** A window [P·rows, columns] of a group. */
interface WindowPlan {
  readonly dtype: DType;
  readonly rows: number;
  readonly columns: number;
}

/** One call. Indices are taken modulo what there is. */
interface CallPlan {
  readonly kind: (typeof kinds)[number];
  readonly group: number;
  readonly signal: number;
  readonly window: number;
  /** Take the source from another window where there is one that fits. */
  readonly fromWindow: boolean;
  readonly op: ReduceOp;
  readonly root: number;
  readonly lanes: number;
  /** Index of the algorithm, where the call has several. */
  readonly algo: number;
  /** Whether to wait for the call at once. */
  readonly awaited: boolean;
}

export interface ProgramPlan {
  readonly nranks: number;
  /** Of values, delays, counts and deliveries. */
  readonly seed: number;
  /** How many ranks each subgroup has, and where its members are drawn from. */
  readonly groups: readonly { readonly size: number; readonly seed: number }[];
  readonly windows: readonly WindowPlan[];
  readonly calls: readonly CallPlan[];
  readonly framePayloadBytes: number;
  readonly meshChunkBytes: number;
}

export const programPlans: fc.Arbitrary<ProgramPlan> = fc.record({
  nranks: fc.integer({ min: 1, max: 6 }),
  seed: fc.nat(2 ** 31),
  groups: fc.array(fc.record({ size: fc.nat(5), seed: fc.nat(1000) }), { maxLength: 3 }),
  windows: fc.array(
    fc.record({
      dtype: fc.constantFrom(...(Object.keys(dtypes) as DType[])),
      rows: fc.constantFrom(1, 1, 1, 2, 3),
      columns: fc.oneof({ weight: 8, arbitrary: fc.integer({ min: 0, max: 9 }) }, fc.constantFrom(255, 257, 700, 1100)),
    }),
    { minLength: 1, maxLength: 3 },
  ),
  calls: fc.array(
    fc.record({
      kind: fc.constantFrom(...kinds),
      group: fc.nat(5),
      signal: fc.nat(SIGNALS - 1),
      window: fc.nat(5),
      fromWindow: fc.boolean(),
      op: fc.constantFrom(...Object.values(ReduceOp)),
      root: fc.nat(5),
      lanes: fc.integer({ min: 1, max: LANES_MAX }),
      algo: fc.nat(3),
      awaited: fc.boolean(),
    }),
    { minLength: 1, maxLength: 12 },
  ),
  framePayloadBytes: fc.constantFrom(64, 1000, 2 ** 26),
  meshChunkBytes: fc.constantFrom(64, 1024, 2 ** 23),
});

/** Two windows of every kind, so that one can be the other's source. */
const COPIES = 2;

/** A group's members, and its calls with everything that all its ranks must agree on. */
interface Layout {
  readonly members: readonly number[];
  readonly windows: readonly WindowPlan[];
}

interface Call extends CallPlan {
  readonly index: number;
  readonly layout: number;
  readonly target: number;
  /** The window that the source is taken from. */
  readonly sourceWindow: number | undefined;
  readonly counts: readonly (readonly number[])[];
  /** Earlier calls that it must come after. */
  readonly after: readonly number[];
}

/** Runs a program; rejects when a rank fails or differs from the oracle. */
export async function runProgram(plan: ProgramPlan, testFault?: string): Promise<void> {
  const layouts = layoutsOf(plan);
  const calls = callsOf(plan, layouts);
  const expected = predict(plan, layouts, calls);
  const { framePayloadBytes, meshChunkBytes } = plan;
  const { failure } = await simulate({
    nranks: plan.nranks,
    seed: plan.seed,
    waitTimeoutMs: 10_000,
    limits: { framePayloadBytes, meshChunkBytes },
    ...(testFault === undefined ? {} : { testFault }),
    // reductions by SIMD, and without
    ...(plan.seed % 2 === 0 ? { arena: sharedArena } : {}),
    main: (comm) => runRank(comm, plan, layouts, calls, expected),
  });
  if (failure !== undefined) throw failure.error;
}

function layoutsOf({ nranks, groups, windows }: ProgramPlan): Layout[] {
  const copies = windows.flatMap((window) => Array.from({ length: COPIES }, () => window));
  const world = Array.from({ length: nranks }, (_, rank) => rank);
  const subgroups = groups.map(({ size, seed }) => {
    const random = new Random(seed);
    const left = [...world];
    const members: number[] = [];
    while (members.length <= Math.min(size, nranks - 1)) members.push(...left.splice(random.below(left.length), 1));
    return { members, windows: copies };
  });
  return [{ members: world, windows: copies }, ...subgroups];
}

function callsOf({ calls, seed }: ProgramPlan, layouts: readonly Layout[]): Call[] {
  const random = new Random(seed);
  const made: Call[] = [];
  for (const [index, plan] of calls.entries()) {
    const layout = plan.group % layouts.length;
    const { members, windows } = layouts[layout]!;
    const square = windows.flatMap(({ rows }, i) => (rows === 1 ? [i] : []));
    const needsSquare = ["allgather", "reduce_scatter", "all_to_all"].includes(plan.kind);
    const fitting = needsSquare ? square : [...windows.keys()];
    const target = fitting[plan.window % fitting.length];
    if (target === undefined) continue;
    const takesSource = ["allgather", "all_to_all", "all_to_all_v"].includes(plan.kind);
    const sourceWindow = takesSource && plan.fromWindow ? target ^ 1 : undefined;
    const capacity = windows[target]!.rows;
    const counts = members.map(() => members.map(() => random.below(capacity + 3) - 1));
    const uses = (call: { target: number; sourceWindow: number | undefined; kind: string }): number[] =>
      call.kind === "barrier" ? [] : call.sourceWindow === undefined ? [call.target] : [call.target, call.sourceWindow];
    const own = { kind: plan.kind, target, sourceWindow };
    const after = made
      .filter((earlier) => earlier.layout === layout && uses(earlier).some((window) => uses(own).includes(window)))
      .map((earlier) => earlier.index);
    made.push({ ...plan, index, layout, target, sourceWindow, counts, after });
  }
  return made;
}

/** A small value that tells ranks, calls and elements apart. */
function valueOf(seed: number, call: number, rank: number, element: number): number {
  return (seed + call * 37 + rank * 11 + element * 5) % 101;
}

function sourceElements({ kind, target }: Call, { windows, members }: Layout): number {
  const { rows, columns } = windows[target]!;
  return kind === "allgather" ? columns : members.length * rows * columns;
}

interface Expected {
  /** layout → window → member → block. */
  readonly windows: readonly (readonly (readonly oracle.Block[])[])[];
  /** call → member → counts received. */
  readonly received: ReadonlyMap<number, readonly (readonly number[])[]>;
}

function predict({ seed }: ProgramPlan, layouts: readonly Layout[], calls: readonly Call[]): Expected {
  const windows = layouts.map(({ members, windows: plans }, layout) =>
    plans.map(({ dtype, rows, columns }, window) =>
      members.map((_, member) => initial(seed, layout, window, member, dtype, members.length * rows * columns)),
    ),
  );
  const received = new Map<number, number[][]>();
  for (const call of calls) {
    const layout = layouts[call.layout]!;
    const data = windows[call.layout]![call.target]!;
    const { dtype, rows } = layout.windows[call.target]!;
    const sources = layout.members.map((_, member) => {
      const elements = sourceElements(call, layout);
      if (call.sourceWindow !== undefined) {
        const { array } = windows[call.layout]![call.sourceWindow]![member]!;
        return { dtype, array: array.slice(0, elements) };
      }
      const source = oracle.block(dtype, elements);
      for (let i = 0; i < elements; i++) oracle.put(source, i, valueOf(seed, call.index, member, i));
      return source;
    });
    if (call.kind === "broadcast") oracle.broadcast(data, call.root % layout.members.length);
    if (call.kind === "allgather") oracle.allGather(sources, data);
    if (call.kind === "reduce_scatter") oracle.reduceScatter(data, call.op);
    if (call.kind === "mesh" || call.kind === "ring") oracle.allReduce(data, call.op, call.kind);
    if (call.kind === "all_to_all") oracle.allToAll(sources, data);
    if (call.kind === "all_to_all_v") received.set(call.index, oracle.allToAllV(sources, data, call.counts, rows));
  }
  return { windows, received };
}

function initial(
  seed: number,
  layout: number,
  window: number,
  member: number,
  dtype: DType,
  elements: number,
): oracle.Block {
  const block = oracle.block(dtype, elements);
  for (let i = 0; i < elements; i++) oracle.put(block, i, valueOf(seed, 100 + layout * 10 + window, member, i));
  return block;
}

/** What one rank holds of a group. */
interface Parts {
  readonly comm: Comm;
  readonly windows: readonly Window[];
  readonly signals: readonly Signal[];
  readonly sync: Signal;
}

async function runRank(
  world: Comm,
  plan: ProgramPlan,
  layouts: readonly Layout[],
  calls: readonly Call[],
  expected: Expected,
): Promise<void> {
  const { seed } = plan;
  const random = new Random(seed + world.rank);
  const groups = new Map<number, Parts>();
  for (const [index, layout] of layouts.entries()) {
    if (!layout.members.includes(world.rank)) continue;
    groups.set(index, await setUp(index === 0 ? world : world.group(layout.members), layout, index, seed));
  }
  const tasks = new Map<number, Task>();
  const checks: (() => string | undefined)[] = [];
  for (const call of calls) {
    const parts = groups.get(call.layout);
    if (parts === undefined) continue;
    if (random.below(3) === 0) await pause(random.below(20));
    const after = call.after.flatMap((index) => tasks.get(index) ?? []);
    const { task, check } = start(call, parts, layouts[call.layout]!, plan, after, expected);
    tasks.set(call.index, task);
    task.catch(() => {}); // awaited below
    if (check !== undefined) checks.push(check);
    if (call.awaited) await task;
  }
  await Promise.all(tasks.values());
  for (const check of checks) {
    const problem = check();
    if (problem !== undefined) throw new Error(problem);
  }
  for (const [index, { comm, windows, signals, sync }] of groups) {
    await comm.barrier(sync);
    for (const [window, { local, name }] of windows.entries()) {
      const block = expected.windows[index]![window]![comm.rank]!;
      const problem = oracle.difference(local.array, block.array, block.dtype);
      if (problem !== undefined) throw new Error(`group ${index}, ${name}, rank ${comm.rank}: ${problem}`);
    }
    for (const { name, local } of signals) {
      if (local.array.some((cell) => cell !== 0)) throw new Error(`group ${index}, ${name}: ${local.array.join()}`);
    }
  }
}

async function setUp(comm: Comm, { windows: plans }: Layout, layout: number, seed: number): Promise<Parts> {
  const ranks = comm.nranks;
  const windows: Window[] = [];
  for (const [i, { dtype, rows, columns }] of plans.entries()) {
    const window = await comm.window(`window ${i}`, dtype, [ranks * rows, columns]);
    const { array } = initial(seed, layout, i, comm.rank, dtype, window.local.array.length);
    (window.local.array as { set(values: unknown): void }).set(array);
    windows.push(window);
  }
  const signals: Signal[] = [];
  const shape = [Math.max(ranks, 2 * (ranks - 1) + 1), Math.max(ranks * LANES_MAX, LANES_MAX)];
  for (let i = 0; i < SIGNALS; i++) signals.push(await comm.signal(`signal ${i}`, shape));
  const sync = await comm.signal("sync", [ranks, 1]);
  await comm.barrier(sync);
  return { comm, windows, signals, sync };
}

function start(
  call: Call,
  { comm, windows, signals }: Parts,
  layout: Layout,
  { seed, framePayloadBytes }: ProgramPlan,
  after: readonly Task[],
  expected: Expected,
): { task: Task; check?: () => string | undefined } {
  const data = windows[call.target]!;
  const signal = signals[call.signal]!;
  const { dtype } = data;
  const elements = sourceElements(call, layout);
  const shape = call.kind === "allgather" ? [1, data.shape[1]!] : data.shape;
  const x: Tensor =
    call.sourceWindow === undefined ? comm.tensor(dtype, shape) : windows[call.sourceWindow]!.local.view(dtype, shape);
  if (call.sourceWindow === undefined) {
    for (let i = 0; i < elements; i++) oracle.put(x, i, valueOf(seed, call.index, comm.rank, i));
  }
  const before = hash(x.bytes);
  const unchanged = (): string | undefined =>
    call.sourceWindow === undefined && hash(x.bytes) !== before
      ? `call ${call.index} has changed its input`
      : undefined;
  const { op } = call;
  // forms that send a block in one frame leave it to the call where that is too large
  const fits = x.bytes.byteLength <= framePayloadBytes;
  const exchange = fits ? (["direct", "eager", "hub", "auto"] as const)[call.algo] : "auto";
  switch (call.kind) {
    case "barrier":
      return { task: comm.barrier(signal, { algo: call.algo % 2 === 0 ? "direct" : "hub", after }) };
    case "broadcast":
      return { task: comm.broadcast(data, signal, { root: call.root % comm.nranks, after }) };
    case "allgather":
      return { task: comm.allGather(x, data, signal, { algo: exchange ?? "auto", after }), check: unchanged };
    case "reduce_scatter":
      return { task: comm.reduceScatter(data, signal, { op, after }) };
    case "mesh": {
      // the same bits by all of them
      const algo = (["mesh", "exchange", "hub", "two_phase"] as const)[call.algo] ?? "mesh";
      const coreNum = algo === "mesh" ? call.lanes : 1;
      return { task: comm.allReduce(data, signal, { op, algo, coreNum, after }) };
    }
    case "ring":
      return { task: comm.allReduce(data, signal, { op, algo: AllReduceAlgo.Ring, after }) };
    case "all_to_all":
      return { task: comm.allToAll(x, data, signal, { algo: exchange ?? "auto", after }), check: unchanged };
    case "all_to_all_v": {
      const sendCounts = comm.tensor("int32", [comm.nranks], Int32Array.from(call.counts[comm.rank]!));
      const recvCounts = comm.tensor("int32", [comm.nranks]);
      // sometimes fewer lanes than ranks, sometimes several for each
      const coreNum = call.lanes % 2 === 0 ? call.lanes : call.lanes * comm.nranks;
      const wanted = expected.received.get(call.index)![comm.rank]!;
      const check = (): string | undefined =>
        recvCounts.array.join() === wanted.join()
          ? unchanged()
          : `call ${call.index}: counts ${recvCounts.array.join()}`;
      return { task: comm.allToAllV(x, data, signal, { sendCounts, recvCounts, coreNum, after }), check };
    }
  }
}

async function pause(turns: number): Promise<void> {
  for (let i = 0; i < turns; i++) await new Promise(setImmediate);
}

function hash(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
