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
import { checkSignal, checkWindow, describeWindow, type Place } from "./arguments.ts";
import type { CallOptions, CollectiveCall, CollectiveSpec } from "./call.ts";
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
  /** Only `per_peer` queues exist. */
  readonly queueMode?: "per_peer";
}

/** What the platform profile says about the call. */
export interface IndexedLimits {
  readonly platform: string;
  readonly indexed: boolean;
  readonly lanesMax: number;
  readonly sqDepth: number;
}

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
  const lanes = checkLanes("indexed_all_to_all_v: coreNum", options.coreNum ?? 1, limits.lanesMax);
  const own = checkSignal(place, signal, ranks, lanes);
  checkDistinct({ input: source, target: window.local, sendCounts, recvCounts, index, signal: own.local });
  const agreement = `capacity ${capacity}, target ${describeWindow(window)}, signal "${own.name}" ${formatShape(own.shape)}, sendCounts "${counts.name}", lanes ${lanes}`;
  return {
    op: "indexed_all_to_all_v",
    agreement,
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
    run: async (call) => {
      const plan = makePlan(call, { source, window, sendCounts, index, capacity, lanes }, limits);
      const [taken = []] = await Promise.all(Array.from({ length: lanes }, (_, lane) => runLane(call, plan, lane)));
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
  const { group } = call;
  const [height = 0] = source.shape;
  const rows = group.members.map((_, destination) => {
    const count = sendCounts.array[destination] ?? 0;
    if (count < 0 || count > capacity) {
      throw violation(
        call,
        "ERR_OUT_OF_BOUNDS",
        `count ${count} for destination ${destination} is outside [0, ${capacity}]`,
      );
    }
    const start = destination * capacity;
    const list = index.array.slice(start, start + count);
    const slot = list.findIndex((row) => row < 0 || row >= height);
    if (slot >= 0) {
      const what = `index ${list[slot] ?? 0} in slot ${slot} for destination ${destination} is outside [0, ${height})`;
      throw violation(call, "ERR_OUT_OF_BOUNDS", what);
    }
    const slots = queueSlots(count);
    if (destination !== group.rank && slots > sqDepth) {
      const what = `${count} rows for destination ${destination} need ${slots} WQEBBs, the queue has sqDepth ${sqDepth}; a depth of ${slots} would do (--sq-depth ${slots})`;
      throw violation(call, "ERR_QUEUE_DEPTH", what);
    }
    return list;
  });
  return { source, window, rowBytes: rowBytesOf(window), capacity, lanes, rows };
}

/** One lane: ready, its remote transfers, its share of the own rows, their completions, complete. */
async function runLane(call: CollectiveCall, plan: Plan, lane: number): Promise<number[]> {
  const { engine, group, seq, context } = call;
  const { rows, window, capacity, rowBytes, source } = plan;
  const credits = call.lane(lane);
  await credits.round(lane === 0 ? (peer) => rows[peer]?.length ?? 0 : undefined);
  // taken before the complete round lets the peers go on to their next call
  const taken = group.members.map((world, member) =>
    member === group.rank ? (rows[member]?.length ?? 0) : (group.ledger.noteOf(world, seq) ?? 0),
  );
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
    drains.push(postTransfer(engine, context(1, lane), queue, transfer));
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
  const slots = Array.from({ length: SELF_SLOTS }, () => new Uint8Array(SELF_SLOT_BYTES));
  let position = (rank * capacity + from) * rowBytes;
  let turn = 0;
  for (const [first, count] of runsOf(own.subarray(from, to))) {
    for (let start = 0; start < count * rowBytes; start += SELF_SLOT_BYTES) {
      const length = Math.min(SELF_SLOT_BYTES, count * rowBytes - start);
      const slot = (slots[turn % SELF_SLOTS] ?? new Uint8Array(SELF_SLOT_BYTES)).subarray(0, length);
      slot.set(source.bytes.subarray(first * rowBytes + start, first * rowBytes + start + length));
      window.local.bytes.set(slot, position);
      engine.counters.coalescedCopies += 1;
      position += length;
      turn += 1;
    }
  }
}

function violation(call: CollectiveCall, code: "ERR_OUT_OF_BOUNDS" | "ERR_QUEUE_DEPTH", what: string): RankwiseError {
  const { engine, group } = call;
  const label = call.context(1, 0).label;
  const error = new RankwiseError(code, `${label}: rank ${group.rank}: ${what}`, {
    rank: group.world(group.rank),
    collective: "indexed_all_to_all_v",
    seq: call.seq,
  });
  engine.fail({ error, call: label, suspect: null });
  return error;
}

function checkSupported({ queueMode }: IndexedAllToAllVOptions, { platform, indexed }: IndexedLimits): void {
  if (!indexed) {
    throw new RankwiseError(
      "ERR_UNSUPPORTED",
      `indexed_all_to_all_v: platform ${platform} does not have it; -p a5sim does`,
    );
  }
  const mode: unknown = queueMode ?? "per_peer";
  if (mode !== "per_peer") {
    throw new RankwiseError(
      "ERR_UNSUPPORTED",
      `indexed_all_to_all_v: queueMode ${describe(mode)} does not exist; only "per_peer" does`,
      {
        argument: "queueMode",
      },
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
