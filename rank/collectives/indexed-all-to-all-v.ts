import { SELF_SLOT_BYTES, SELF_SLOTS } from "../../shared/constants.ts";
import { arrayOver } from "../../shared/dtype.ts";
import { RankwiseError } from "../../shared/errors.ts";
import { describe, formatShape } from "../../shared/shape.ts";
import { checkLanes } from "../checks.ts";
import type { Engine } from "../engine.ts";
import type { Group } from "../group.ts";
import type { Allocation } from "../memory/registry.ts";
import { checkTensor, sharesMemory, Tensor } from "../memory/tensor.ts";
import type { Window } from "../window.ts";
import { checkOptions, checkSignal, checkWindow, describeWindow, type Place } from "./arguments.ts";
import type { CallOptions, CollectiveCall, CollectiveSpec } from "./call.ts";
import { announcedCounts } from "./counts.ts";
import { rowBytesOf } from "./rows.ts";
import { postTransfer, queueSlots, runsOf } from "./submission-queue.ts";

/** Arguments of `indexed_all_to_all_v` beside its buffers. */
export interface IndexedAllToAllVOptions extends CallOptions {
  /** Window INT32 [P, 1]: rows for each rank, in [0, C]. */
  readonly sendCounts: Window<"int32">;
  /** Local INT32 [P, 1], output: rows received from each rank. */
  readonly recvCounts: Tensor<"int32">;
  /** Local INT32 [P, C]: the input rows for each rank. What stands behind a count is never read. */
  readonly index: Tensor<"int32">;
  /** The exact number of lanes. Default 1. */
  readonly coreNum?: number;
  /** What each rank is expected to send; another number ends the group with `ERR_MISMATCH`. */
  readonly expectedRecvCounts?: Tensor<"int32">;
  /** One queue for each peer; the other modes of the hardware are refused by name. */
  readonly queueMode?: "per_peer";
  /** Called by a rank; the in-core level is refused by name. */
  readonly level?: "rank";
  /** Remote rows go through submission queues; remote MTE is refused by name. */
  readonly engine?: "submission_queue";
}

/** What exists of each choice that the hardware has; anything else is refused by its name. */
const supported = { queueMode: "per_peer", level: "rank", engine: "submission_queue" } as const;

/** Counts that an error lists; of more, it tells the one that is wrong. */
const COUNTS_SHOWN_MAX = 16;

/** What the platform profile says about the call. */
export interface IndexedLimits {
  readonly platform: string;
  readonly indexed: boolean;
  readonly lanesMax: number;
  readonly sqDepth: number;
}

const OPTIONS = [
  "sendCounts",
  "recvCounts",
  "index",
  "coreNum",
  "expectedRecvCounts",
  "queueMode",
  "level",
  "engine",
] as const satisfies readonly (keyof IndexedAllToAllVOptions)[];

/**
 * `indexed_all_to_all_v(input [Nmax, H], target [P·C, H], signal, …)`: at destination d, source s writes
 * `input_s[index_s[d][j]]` into row s·C + j of the target, for j below `sendCounts_s[d]`. No packed send buffer is made.
 *
 * Rounds: ready, with the counts in lane 0's credits, and complete. Received per rank: Σ counts · row.
 */
export function indexedAllToAllV(
  group: Group,
  input: unknown,
  target: unknown,
  signal: unknown,
  options: IndexedAllToAllVOptions,
  limits: IndexedLimits,
): CollectiveSpec {
  const place = { op: "indexed_all_to_all_v", group };
  const ranks = group.members.length;
  checkOptions(place, options, OPTIONS);
  checkSupported(options, limits);
  const window = checkWindow(place, "target", target);
  const index = checkInt32(
    place,
    "index",
    options.index,
    (shape) => shape.length === 2 && shape[0] === ranks,
    `[${ranks}, C]`,
  );
  const capacity = index.shape[1] ?? 0;
  const source = checkInput(place, input, window, capacity);
  const counts = checkWindow(place, "sendCounts", options.sendCounts);
  const isColumn = (shape: readonly number[]): boolean => shape.length === 2 && shape[0] === ranks && shape[1] === 1;
  const sendCounts = checkInt32(place, "sendCounts", counts.local, isColumn, `[${ranks}, 1]`);
  const recvCounts = checkInt32(place, "recvCounts", options.recvCounts, isColumn, `[${ranks}, 1]`);
  const expected =
    options.expectedRecvCounts === undefined
      ? undefined
      : checkInt32(place, "expectedRecvCounts", options.expectedRecvCounts, isColumn, `[${ranks}, 1]`);
  const lanes = checkLanes("indexed_all_to_all_v: coreNum", options.coreNum ?? 1, limits.lanesMax);
  const own = checkSignal(place, signal, ranks, lanes);
  checkDistinct({ input: source, target: window.local, sendCounts, recvCounts, index, signal: own.local });
  const text = (): string =>
    `capacity ${capacity}, target ${describeWindow(window)}, signal "${own.name}" ${formatShape(own.shape)}, sendCounts "${counts.name}", lanes ${lanes}`;
  return {
    op: "indexed_all_to_all_v",
    terms: { of: [capacity, window.ordinal, counts.name, lanes], text },
    signal: own,
    target: window,
    pushes: false,
    queues: true,
    buffers: [
      { name: "input", bytes: source.bytes, writes: false },
      { name: "target", bytes: window.local.bytes, writes: true },
      { name: "sendCounts", bytes: sendCounts.bytes, writes: false },
      { name: "recvCounts", bytes: recvCounts.bytes, writes: true },
      { name: "index", bytes: index.bytes, writes: false },
    ],
    options,
    hears: group.peers(),
    run: async (call) => {
      const plan = makePlan(call, { source, window, sendCounts, index, capacity, lanes }, limits);
      const [taken = []] = await Promise.all(Array.from({ length: lanes }, (_, lane) => runLane(call, plan, lane)));
      for (const [sender, count] of taken.entries()) {
        const wanted = expected?.array[sender] ?? count;
        if (wanted !== count) throw violation(call, "ERR_MISMATCH", unexpectedCount(sender, count, wanted));
      }
      recvCounts.array.set(taken);
    },
  };
}

interface Buffers {
  readonly source: Tensor;
  readonly window: Allocation;
  readonly sendCounts: Tensor<"int32">;
  readonly index: Tensor<"int32">;
  readonly capacity: number;
  readonly lanes: number;
}

/** The call as it was when it started: counts and rows are snapshots. */
interface Plan {
  readonly source: Tensor;
  readonly window: Allocation;
  readonly rowBytes: number;
  readonly capacity: number;
  readonly lanes: number;
  /** Input rows for each rank. */
  readonly rows: readonly Int32Array[];
}

/** Snapshots counts and rows, and checks all of them before anything is posted. A violation ends the group. */
function makePlan(call: CollectiveCall, buffers: Buffers, { sqDepth }: IndexedLimits): Plan {
  const { source, window, sendCounts, index, capacity, lanes } = buffers;
  const [height = 0] = source.shape;
  const counts = [...sendCounts.array];
  const rows = counts.map((count, destination) => {
    if (count < 0 || count > capacity) {
      const what = `count ${count} for destination ${destination} (sendCounts slot ${destination}) is outside [0, ${capacity}]`;
      throw violation(call, "ERR_OUT_OF_BOUNDS", `${what}${listed(counts)}`, destination);
    }
    const start = destination * capacity;
    const list = index.array.slice(start, start + count);
    const slot = list.findIndex((row) => row < 0 || row >= height);
    if (slot >= 0) {
      const what = `index ${list[slot] ?? 0} in slot ${slot} for destination ${destination} is outside [0, ${height})`;
      throw violation(call, "ERR_OUT_OF_BOUNDS", what, destination, [destination, slot]);
    }
    return list;
  });
  checkDepth(call, rows, sqDepth);
  return { source, window, rowBytes: rowBytesOf(window), capacity, lanes, rows };
}

/** A peer's whole transfer must fit its queue. */
function checkDepth(call: CollectiveCall, rows: readonly Int32Array[], sqDepth: number): void {
  const { group } = call;
  const needs = rows.map((list, peer) => (peer === group.rank ? 0 : queueSlots(list.length)));
  const depth = Math.max(...needs);
  if (depth <= sqDepth) return;
  const destination = needs.findIndex((slots) => slots > sqDepth);
  const what = `${rows[destination]?.length ?? 0} rows for destination ${destination} need ${needs[destination] ?? 0} WQEBBs, the queue has sqDepth ${sqDepth}`;
  throw violation(call, "ERR_QUEUE_DEPTH", `${what}; a depth of ${depth} would do (--sq-depth ${depth})`, destination);
}

/** One lane: ready, its remote transfers, its share of the own rows, their completions, complete. */
async function runLane(call: CollectiveCall, plan: Plan, lane: number): Promise<number[]> {
  const { engine, group } = call;
  const { rows, window, capacity, rowBytes, source } = plan;
  const credits = call.lane(lane);
  await credits.round(lane === 0 ? (peer) => rows[peer]?.length ?? 0 : undefined);
  // taken before the complete round lets the peers go on to their next call
  const taken = announcedCounts(call, "indexed_all_to_all_v", rows[group.rank]?.length ?? 0, capacity);
  const drains: (() => Promise<void>)[] = [];
  for (const peer of lanePeers(group, plan.lanes, lane)) {
    const list = rows[peer];
    if (list === undefined || list.length === 0 || rowBytes === 0) continue;
    const queue = engine.queue(group.world(peer), lane);
    const transfer = {
      peer,
      input: source.bytes,
      rowBytes,
      rows: list,
      target: window,
      firstRow: group.rank * capacity,
    };
    drains.push(postTransfer(engine, call.context(1, lane), queue, transfer));
  }
  copyOwnRows(engine, group, plan, lane);
  await Promise.all(drains.map((drain) => drain()));
  await credits.round();
  return taken;
}

/** Remote ranks that a lane serves, beginning behind the own rank. One lane writes to one rank. */
function lanePeers(group: Group, lanes: number, lane: number): number[] {
  const ranks = group.members.length;
  const peers = Array.from({ length: ranks - 1 }, (_, step) => (group.rank + 1 + step) % ranks);
  return peers.filter((peer) => peer % Math.min(lanes, ranks) === lane);
}

/** This lane's even share of the rows that stay here, through its slots; consecutive rows are one copy. */
function copyOwnRows(engine: Engine, { rank }: Group, plan: Plan, lane: number): void {
  const { rows, lanes, capacity, rowBytes, source, window } = plan;
  const own = rows[rank] ?? new Int32Array();
  const from = Math.floor((lane * own.length) / lanes);
  const to = Math.floor(((lane + 1) * own.length) / lanes);
  if (from === to || rowBytes === 0) return;
  const slots = slotsOf(engine, lane);
  let position = (rank * capacity + from) * rowBytes;
  let turn = 0;
  for (const [first, count] of runsOf(own.subarray(from, to))) {
    const end = (first + count) * rowBytes;
    for (let start = first * rowBytes; start < end; start += SELF_SLOT_BYTES) {
      const piece = source.bytes.subarray(start, Math.min(start + SELF_SLOT_BYTES, end));
      const slot = (turn++ % SELF_SLOTS) * SELF_SLOT_BYTES;
      slots.set(piece, slot);
      window.local.bytes.set(slots.subarray(slot, slot + piece.byteLength), position);
      engine.counters.coalescedCopies += 1;
      position += piece.byteLength;
    }
  }
}

/** The slots of every lane that has had own rows to copy, by rank. */
const staging = new WeakMap<Engine, Map<number, Uint8Array>>();

function slotsOf(engine: Engine, lane: number): Uint8Array {
  let lanes = staging.get(engine);
  if (lanes === undefined) staging.set(engine, (lanes = new Map<number, Uint8Array>()));
  let slots = lanes.get(lane);
  if (slots === undefined) lanes.set(lane, (slots = new Uint8Array(SELF_SLOTS * SELF_SLOT_BYTES)));
  return slots;
}

/** An error that ends the group. */
function violation(
  call: CollectiveCall,
  code: "ERR_OUT_OF_BOUNDS" | "ERR_QUEUE_DEPTH" | "ERR_MISMATCH",
  what: string,
  peer?: number,
  offset?: readonly number[],
): RankwiseError {
  const { engine, group } = call;
  const { label } = call.context(1, 0);
  const error = new RankwiseError(code, `${label}: rank ${group.rank}: ${what}`, {
    rank: group.world(group.rank),
    collective: "indexed_all_to_all_v",
    seq: call.seq,
    ...(peer === undefined ? {} : { peer: group.world(peer) }),
    ...(offset === undefined ? {} : { offset }),
  });
  engine.fail({ error, call: label, suspect: null });
  return error;
}

function listed(counts: readonly number[]): string {
  return counts.length > COUNTS_SHOWN_MAX ? "" : `; sendCounts are ${formatShape(counts)}`;
}

function unexpectedCount(source: number, count: number, wanted: number): string {
  return `rank ${source} sends ${count} rows, expectedRecvCounts says ${wanted}`;
}

function checkSupported(options: IndexedAllToAllVOptions, { platform, indexed }: IndexedLimits): void {
  if (!indexed) {
    throw new RankwiseError(
      "ERR_UNSUPPORTED",
      `indexed_all_to_all_v: platform ${platform} does not have it; -p a5sim does`,
    );
  }
  for (const [argument, only] of Object.entries(supported)) {
    const value: unknown = options[argument as keyof typeof supported] ?? only;
    if (value === only) continue;
    throw new RankwiseError(
      "ERR_UNSUPPORTED",
      `indexed_all_to_all_v: ${argument} ${describe(value)} is not supported; ${argument} "${only}" is`,
      { argument },
    );
  }
}

function checkInput({ op, group }: Place, value: unknown, target: Allocation, capacity: number): Tensor {
  const input = checkTensor(op, "input", value);
  if (target.dtype !== "float32" && target.dtype !== "int8") {
    throw new RankwiseError(
      "ERR_UNSUPPORTED",
      `${op}: target "${target.name}" is ${target.dtype}; rows are float32 or int8 (view other dtypes as int8)`,
      {
        argument: "target",
      },
    );
  }
  if (input.dtype !== target.dtype) {
    throw new RankwiseError(
      "ERR_DTYPE_MISMATCH",
      `${op}: input is ${input.dtype}, target "${target.name}" is ${target.dtype}`,
      {
        argument: "input",
      },
    );
  }
  const height = group.members.length * capacity;
  const [, width] = input.shape;
  if (input.shape.length === 2 && target.shape.length === 2 && target.shape[0] === height && target.shape[1] === width)
    return input;
  throw new RankwiseError(
    "ERR_SHAPE_MISMATCH",
    `${op}: input ${formatShape(input.shape)} must be [Nmax, H] and target "${target.name}" ${formatShape(target.shape)} [P·C, H] with P·C = ${height}`,
    { argument: "input" },
  );
}

function checkInt32(
  { op }: Place,
  argument: string,
  value: unknown,
  fits: (shape: readonly number[]) => boolean,
  wanted: string,
): Tensor<"int32"> {
  const { dtype, shape, array, bytes } = checkTensor(op, argument, value);
  if (dtype === "int32" && fits(shape)) {
    return new Tensor("int32", shape, arrayOver("int32", bytes.buffer, bytes.byteOffset, array.length));
  }
  throw new RankwiseError(
    dtype === "int32" ? "ERR_SHAPE_MISMATCH" : "ERR_DTYPE_MISMATCH",
    `${op}: ${argument} must be a packed int32 tensor ${wanted}, got ${dtype} ${formatShape(shape)}`,
    { argument },
  );
}

function checkDistinct(buffers: Readonly<Record<string, Tensor>>): void {
  const list = Object.entries(buffers);
  for (const [position, [name, tensor]] of list.entries()) {
    for (const [other, second] of list.slice(position + 1)) {
      if (!sharesMemory(tensor.bytes, second.bytes)) continue;
      throw new RankwiseError(
        "ERR_ALIASED_BUFFERS",
        `indexed_all_to_all_v: ${name} and ${other} share memory; use two buffers`,
        {
          argument: other,
        },
      );
    }
  }
}
