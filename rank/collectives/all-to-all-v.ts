import { arrayOver } from "../../shared/dtype.ts";
import { RankwiseError } from "../../shared/errors.ts";
import { formatShape } from "../../shared/shape.ts";
import { checkLanes } from "../checks.ts";
import type { Group } from "../group.ts";
import type { Allocation } from "../memory/registry.ts";
import { checkTensor, sharesMemory, Tensor } from "../memory/tensor.ts";
import { checkOptions, checkSignal, checkSource, checkWindow, describeWindow, type Place } from "./arguments.ts";
import type { CallOptions, CollectiveCall, CollectiveSpec } from "./call.ts";
import { announcedCounts } from "./counts.ts";
import { pushAndComplete } from "./push.ts";
import { rowBytesOf, rowSpans } from "./rows.ts";

/** Arguments of `all_to_all_v` beside its buffers. */
export interface AllToAllVOptions extends CallOptions {
  /** Local INT32 [P]: rows for each rank, clamped to [0, M]. Snapshotted when the call starts. */
  readonly sendCounts: Tensor<"int32">;
  /** Local INT32 [P], output: rows received from each rank. */
  readonly recvCounts: Tensor<"int32">;
  /** Lanes asked for. At least P, the largest multiple of P not above it is launched. Default 1. */
  readonly coreNum?: number;
  /** What each rank is expected to send; another number ends the group with `ERR_MISMATCH`. */
  readonly expectedRecvCounts?: Tensor<"int32">;
}

/**
 * `all_to_all_v(input [P·M, H], target [P·M, H], signal, …)`: the first `sendCounts[d]` rows of partition d go to rank
 * d, into partition `rank` of its target. Only counted rows cross the wire; the tails of partitions keep what they held.
 *
 * Rounds: ready, with the counts in lane 0's credits, and complete. Received per rank: Σ counts · row.
 */
export function allToAllV(
  group: Group,
  input: unknown,
  target: unknown,
  signal: unknown,
  options: AllToAllVOptions,
  lanesMax: number,
): CollectiveSpec {
  const place = { op: "all_to_all_v", group };
  checkOptions(place, options, ["sendCounts", "recvCounts", "coreNum", "expectedRecvCounts"]);
  const ranks = group.members.length;
  const window = checkWindow(place, "target", target);
  const [height = 0] = window.shape;
  if (window.shape.length !== 2 || height % ranks !== 0) {
    throw new RankwiseError(
      "ERR_SHAPE_MISMATCH",
      `all_to_all_v: target "${window.name}" ${formatShape(window.shape)} must be [P·M, H] with P = ${ranks}`,
      { argument: "target", window: window.name },
    );
  }
  const capacity = height / ranks;
  const source = checkSource(place, "input", input, window, "target", [window.shape]);
  const sendCounts = checkCounts(place, "sendCounts", options.sendCounts);
  const recvCounts = checkCounts(place, "recvCounts", options.recvCounts);
  const expected =
    options.expectedRecvCounts === undefined
      ? undefined
      : checkCounts(place, "expectedRecvCounts", options.expectedRecvCounts);
  checkDistinct(place, { input: source, target: window.local, sendCounts, recvCounts });
  const asked = checkLanes("all_to_all_v: coreNum", options.coreNum ?? 1, Number.MAX_SAFE_INTEGER);
  const lanes = checkLanes("all_to_all_v: coreNum", asked < ranks ? asked : asked - (asked % ranks), lanesMax);
  const own = checkSignal(place, signal, ranks, lanes);
  return {
    op: "all_to_all_v",
    terms: {
      of: [window.ordinal, lanes],
      text: () => `target ${describeWindow(window)}, signal "${own.name}", lanes ${lanes}`,
    },
    signal: own,
    target: window,
    pushes: false,
    queues: false,
    buffers: [
      { name: "input", bytes: source.bytes, writes: false },
      { name: "target", bytes: window.local.bytes, writes: true },
      { name: "sendCounts", bytes: sendCounts.bytes, writes: false },
      { name: "recvCounts", bytes: recvCounts.bytes, writes: true },
      ...(expected === undefined ? [] : [{ name: "expectedRecvCounts", bytes: expected.bytes, writes: false }]),
    ],
    options,
    hears: group.peers(),
    run: async (call) => {
      const counts = clamp(call, sendCounts, capacity);
      const received = Array.from({ length: lanes }, (_, lane) =>
        runLane(call, {
          source,
          window,
          counts,
          expected: lane === 0 ? expected?.array : undefined,
          lanes,
          capacity,
          lane,
        }),
      );
      const [taken = []] = await Promise.all(received);
      recvCounts.array.set(taken);
    },
  };
}

interface LaneWork {
  readonly source: Tensor;
  readonly window: Allocation;
  readonly counts: readonly number[];
  /** What lane 0 checks the counts of all ranks against. */
  readonly expected: Int32Array | undefined;
  readonly lanes: number;
  readonly capacity: number;
  readonly lane: number;
}

/** One lane's two rounds; resolves with the counts of all ranks, which lane 0 has taken between them. */
async function runLane(call: CollectiveCall, work: LaneWork): Promise<number[]> {
  const { source, window, counts, expected, lanes, capacity, lane } = work;
  const { group } = call;
  const credits = call.lane(lane);
  await credits.round(lane === 0 ? (peer) => counts[peer] ?? 0 : undefined);
  const taken = announcedCounts(call, "all_to_all_v", counts[group.rank] ?? 0, capacity);
  // before the complete round, so that no rank returns from a call whose counts somebody has refused
  for (const [sender, count] of taken.entries()) {
    const wanted = expected?.[sender];
    if (wanted !== undefined && wanted !== count) throw unexpectedCount(call, sender, count, wanted);
  }
  const rowBytes = rowBytesOf(window);
  await pushAndComplete(call, credits, window, (peer) => {
    const [from, to] = laneRows(lane, lanes, group.members.length, peer, counts[peer] ?? 0);
    if (from === to) return undefined;
    return {
      spans: rowSpans(rowBytes, group.rank * capacity + from, to - from),
      source: { bytes: source.bytes, spans: rowSpans(rowBytes, peer * capacity + from, to - from) },
    };
  });
  return taken;
}

/** Which rows for a peer a lane sends: fewer lanes than ranks share out the ranks, more share out each rank's rows. */
function laneRows(lane: number, lanes: number, ranks: number, peer: number, count: number): [number, number] {
  if (lanes < ranks) return peer % lanes === lane ? [0, count] : [0, 0];
  if (lane % ranks !== peer) return [0, 0];
  const parts = lanes / ranks;
  const part = Math.floor(lane / ranks);
  return [Math.floor((part * count) / parts), Math.floor(((part + 1) * count) / parts)];
}

function clamp({ engine, group }: CollectiveCall, sendCounts: Tensor<"int32">, capacity: number): number[] {
  return group.members.map((_, peer) => {
    const count = sendCounts.array[peer] ?? 0;
    const clamped = Math.min(Math.max(count, 0), capacity);
    if (clamped !== count) engine.counters.clampedCounts += 1;
    return clamped;
  });
}

function checkCounts({ op, group }: Place, argument: string, value: unknown): Tensor<"int32"> {
  const ranks = group.members.length;
  const { dtype, shape, array, bytes } = checkTensor(op, argument, value);
  if (dtype === "int32" && shape[0] === ranks && array.length === ranks) {
    return new Tensor("int32", shape, arrayOver("int32", bytes.buffer, bytes.byteOffset, ranks));
  }
  throw new RankwiseError(
    "ERR_SHAPE_MISMATCH",
    `${op}: ${argument} must be a local int32 tensor [${ranks}], got ${dtype} ${formatShape(shape)}`,
    { argument },
  );
}

function checkDistinct({ op }: Place, buffers: Readonly<Record<string, Tensor>>): void {
  const list = Object.entries(buffers);
  for (const [index, [name, tensor]] of list.entries()) {
    for (const [other, second] of list.slice(index + 1)) {
      if (!sharesMemory(tensor.bytes, second.bytes)) continue;
      throw new RankwiseError("ERR_ALIASED_BUFFERS", `${op}: ${name} and ${other} share memory; use two buffers`, {
        argument: other,
      });
    }
  }
}

function unexpectedCount(call: CollectiveCall, source: number, count: number, wanted: number): RankwiseError {
  const { engine, group } = call;
  const { label, seq } = call.context(1, 0);
  const error = new RankwiseError(
    "ERR_MISMATCH",
    `${label}: rank ${source} sends ${count} rows to rank ${group.rank}, which expects ${wanted}`,
    { peer: group.world(source), rank: group.world(group.rank), collective: "all_to_all_v", seq },
  );
  engine.fail({ error, call: label, suspect: null });
  return error;
}
