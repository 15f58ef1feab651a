import { elementBytes } from "../../shared/dtype.ts";
import type { Span } from "../../shared/shape.ts";
import type { Group } from "../group.ts";
import { get } from "../get.ts";
import { notify } from "../issue.ts";
import { ignore } from "../../shared/async.ts";
import { Scratch } from "../memory/arena.ts";
import { reduceInto, ReduceOp } from "../memory/reduce.ts";
import type { Allocation } from "../memory/registry.ts";
import { NotifyOp } from "../primitives.ts";
import { type AllReduceOptions, refuseLanes } from "./reduce-options.ts";
import { checkReduceOp, checkSignal, checkWindow, describeWindow } from "./arguments.ts";
import type { CollectiveCall, CollectiveSpec } from "./call.ts";
import { creditCondition, takeCredits, waitCredits } from "./credits.ts";
import { fetch, rowSpans } from "./rows.ts";

/**
 * allreduce, ring: P balanced segments go round, P − 1 steps to reduce them and P − 1 to hand out the results.
 *
 * In each step a rank reads one segment from its left neighbour, which has said in cell [step, left] of the signal
 * that it is ready; the last row of the signal serves one full barrier, after which nobody reads any more. Segment k
 * is added up from rank k on, rightwards; float16 and bfloat16 partial sums are rounded at each step, since they cross
 * the wire. Received per rank: the segments read, 2 (P − 1) / P · N for balanced ones.
 *
 * No step can overwrite what is still to be read: a rank gets the final value of a segment only after its right
 * neighbour has read the partial one, because the sum went through that neighbour.
 *
 * Cells [step, left] are those of [source, lane] in calls of other builtins. So a rank says nothing there before its
 * right neighbour has entered this call too, which that neighbour says in the last row: whoever is still in a call
 * before it would take the step's credit for another rank's.
 */
export function allReduceRing(group: Group, data: unknown, signal: unknown, options: AllReduceOptions): CollectiveSpec {
  const place = { op: "allreduce", group };
  const ranks = group.members.length;
  const target = checkWindow(place, "data", data);
  const own = checkSignal(place, signal, 2 * (ranks - 1) + 1, ranks);
  const op = checkReduceOp(place, options.op ?? ReduceOp.Sum);
  refuseLanes("ring", options);
  return {
    op: "allreduce",
    terms: {
      of: [target.ordinal, op, "ring"],
      text: () => `data ${describeWindow(target)}, signal "${own.name}", op ${op}, algo ring`,
    },
    signal: own,
    target,
    pushes: false,
    queues: false,
    buffers: [{ name: "data", bytes: target.local.bytes, writes: true }],
    options,
    hears: group.peers(),
    run: async (call) => {
      if (ranks > 1) await runRing(call, target, own, op);
      call.engine.counters.barriers += 1;
    },
  };
}

async function runRing(call: CollectiveCall, target: Allocation, signal: Allocation, op: ReduceOp): Promise<void> {
  const { engine, group } = call;
  const { rank } = group;
  const ranks = group.members.length;
  const left = (rank + ranks - 1) % ranks;
  const right = (rank + 1) % ranks;
  const { bytes } = target.local;
  const width = signal.shape[1] ?? 1;
  const cell = (step: number, source: number): number => step * width + source;
  const give = (step: number, peer: number, round = step + 1): void => {
    const change = { signal, cell: cell(step, rank), op: NotifyOp.AtomicAdd, value: 1 };
    notify(engine, call.context(round, 0), peer, change)?.catch(ignore);
  };
  const scratch = new Scratch(engine.arena);
  const steps = ranks - 1;
  const last = 2 * steps;
  give(last, left, 0);
  await waitCredits(engine, call.context(0, 0), signal, [creditCondition(cell(last, right), 1, right)]);
  takeCredits(engine, call.context(0, 0), signal, cell(last, right), 1);
  for (let step = 0; step < last; step++) {
    const ctx = call.context(step + 1, 0);
    give(step, right);
    await waitCredits(engine, ctx, signal, [creditCondition(cell(step, left), 1, left)]);
    takeCredits(engine, ctx, signal, cell(step, left), 1);
    const reducing = step < steps;
    const segment = segmentSpan(target, ranks, modulo(reducing ? rank - step - 1 : rank - (step - steps), ranks));
    if (reducing) {
      const partial = await fetch(engine, ctx, left, target, segment, scratch);
      const [own] = segment;
      if (own === undefined) continue;
      const mine = bytes.subarray(own.offset, own.offset + own.rowBytes);
      reduceInto(target.dtype, op, mine, [partial, mine]);
      scratch.giveBack();
    } else {
      await get(engine, ctx, left, target, segment, { bytes, spans: segment });
    }
  }
  const ctx = call.context(last + 1, 0);
  for (const peer of group.peers()) give(last, peer);
  const conditions = group.peers().map((peer) => creditCondition(cell(last, peer), 1, peer));
  await waitCredits(engine, ctx, signal, conditions);
  for (const peer of group.peers()) takeCredits(engine, ctx, signal, cell(last, peer), 1);
}

/** Segment i of P: elements [⌊i·n/P⌋, ⌊(i+1)·n/P⌋), perhaps none. */
function segmentSpan({ dtype, local }: Allocation, ranks: number, index: number): Span[] {
  const size = elementBytes(dtype);
  const elements = local.bytes.byteLength / size;
  const start = Math.floor((index * elements) / ranks);
  const end = Math.floor(((index + 1) * elements) / ranks);
  return rowSpans((end - start) * size, 0).map((span) => ({ ...span, offset: start * size }));
}

function modulo(value: number, by: number): number {
  return ((value % by) + by) % by;
}
