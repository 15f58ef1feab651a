/**
 * allreduce by staged blocks: `exchange`, `hub` and `two_phase`.
 *
 * What a rank sends waits in its receiver's scratch, so no ready round is due; what is sent straight into a window
 * goes to a rank whose own block has arrived, and which has therefore entered the call and sent what it writes over.
 * Every element is reduced once, in the order of ranks, as the mesh does: the same bits everywhere.
 *
 * Data above the frame limit goes in segments, one after the other, each with its rounds.
 */
import { elementBytes } from "../../shared/dtype.ts";
import type { Engine } from "../engine.ts";
import type { Group } from "../group.ts";
import { put } from "../issue.ts";
import { reduceInto, ReduceOp } from "../memory/reduce.ts";
import type { Allocation } from "../memory/registry.ts";
import { stage, unstage } from "../stage.ts";
import { allComplete } from "../waits.ts";
import { checkReduceOp, checkSignal, checkWindow, describeWindow } from "./arguments.ts";
import type { CollectiveCall, CollectiveSpec } from "./call.ts";
import { HUB, hubHears } from "./hub.ts";
import { AllReduceAlgo, type AllReduceOptions, refuseLanes } from "./reduce-options.ts";
import { rowSpans } from "./rows.ts";

type StagedAlgo = typeof AllReduceAlgo.Exchange | typeof AllReduceAlgo.Hub | typeof AllReduceAlgo.TwoPhase;

/** A part of the data, in bytes. */
interface Part {
  readonly start: number;
  readonly end: number;
}

/** What is reduced, and how. */
interface Reduction {
  readonly target: Allocation;
  readonly op: ReduceOp;
}

/** A checked call. Signal: [≥ P, ≥ 1]. */
export function allReduceStaged(
  engine: Engine,
  group: Group,
  data: unknown,
  signal: unknown,
  options: AllReduceOptions,
  algo: StagedAlgo,
): CollectiveSpec {
  const place = { op: "allreduce", group };
  const target = checkWindow(place, "data", data);
  const own = checkSignal(place, signal, group.members.length, 1);
  const op = checkReduceOp(place, options.op ?? ReduceOp.Sum);
  refuseLanes(algo, options);
  const { bytes } = target.local;
  const limit = segmentBytes(engine.limits.framePayloadBytes, elementBytes(target.dtype));
  const segmentLimit = algo === AllReduceAlgo.TwoPhase ? limit * group.members.length : limit;
  return {
    op: "allreduce",
    terms: {
      of: [target.ordinal, op, algo],
      text: () => `data ${describeWindow(target)}, signal "${own.name}", op ${op}, algo ${algo}`,
    },
    signal: own,
    target,
    pushes: false,
    queues: false,
    buffers: [{ name: "data", bytes, writes: true }],
    options,
    hears: algo === AllReduceAlgo.Hub ? hubHears(group) : group.peers(),
    run: async (call) => {
      // a call without elements still is one that everybody has entered
      for (let start = 0; start === 0 || start < bytes.byteLength; start += segmentLimit) {
        const end = Math.min(start + segmentLimit, bytes.byteLength);
        await runners[algo](call, { target, op }, { start, end });
      }
    },
  };
}

/** The largest number of whole elements that one frame carries, in bytes. */
function segmentBytes(frameBytes: number, size: number): number {
  return Math.max(1, Math.floor(frameBytes / size)) * size;
}

const runners: Readonly<Record<StagedAlgo, (call: CollectiveCall, what: Reduction, part: Part) => Promise<void>>> = {
  exchange: runExchange,
  hub: runHub,
  two_phase: runTwoPhase,
};

/** One round: everybody's data to everybody, who all reduce all of it. */
async function runExchange(call: CollectiveCall, what: Reduction, part: Part): Promise<void> {
  const { engine, group } = call;
  const credits = call.lane(0);
  const ctx = credits.begin();
  const bytes = bytesOf(what, part);
  const sent = group.peers().map((peer) => stage(engine, ctx, { peer, bytes, change: credits.credit() }));
  await credits.arrived(ctx);
  // in place: nothing of it may still be waiting to be sent
  await allComplete(sent);
  reduceStaged(call, what, ctx, part);
}

/** Two rounds with the hub alone: everybody's data to it, the result back into everybody's window. */
async function runHub(call: CollectiveCall, what: Reduction, part: Part): Promise<void> {
  const { engine, group } = call;
  const credits = call.lane(0);
  const gathered = credits.begin();
  if (group.rank !== HUB) {
    const sent = stage(engine, gathered, { peer: HUB, bytes: bytesOf(what, part), change: credits.credit() });
    await credits.arrived(credits.begin(), [HUB]);
    await sent;
    return;
  }
  await credits.arrived(gathered);
  reduceStaged(call, what, gathered, part);
  const scattered = credits.begin();
  await allComplete(group.peers().map((peer) => putPart(call, what, scattered, peer, part)));
}

/** Two rounds: everybody's block d to rank d, which reduces it; its result back into everybody's window. */
async function runTwoPhase(call: CollectiveCall, what: Reduction, part: Part): Promise<void> {
  const { engine, group } = call;
  const { rank, members } = group;
  const credits = call.lane(0);
  const peers = members.map((_, step) => (rank + step) % members.length).slice(1);
  const blockOf = (member: number): Part => balanced(part, members.length, member, elementBytes(what.target.dtype));
  const ctx = credits.begin();
  const sent = peers.map((peer) =>
    stage(engine, ctx, { peer, bytes: bytesOf(what, blockOf(peer)), change: credits.credit() }),
  );
  await credits.arrived(ctx);
  const mine = blockOf(rank);
  reduceStaged(call, what, ctx, mine);
  const results = credits.begin();
  sent.push(...peers.map((peer) => putPart(call, what, results, peer, mine)));
  await credits.arrived(results);
  await allComplete(sent);
}

/** Reduces everybody's staged part into the own window, in the order of ranks. */
function reduceStaged(
  { engine, group }: CollectiveCall,
  what: Reduction,
  ctx: Parameters<typeof unstage>[1],
  part: Part,
): void {
  const own = bytesOf(what, part);
  const operands = group.members.map((_, member) =>
    member === group.rank ? own : unstage(engine, ctx, member, own.byteLength),
  );
  reduceInto(what.target.dtype, what.op, own, operands);
  for (const operand of operands) if (operand !== own) engine.arena.release(operand);
}

/** Writes a part of the own window into a member's, with the credit of the round. */
function putPart(
  call: CollectiveCall,
  { target }: Reduction,
  ctx: Parameters<typeof put>[1],
  peer: number,
  { start, end }: Part,
): Promise<void> | undefined {
  const spans = rowSpans(end - start, 0).map((span) => ({ ...span, offset: start }));
  const source = { bytes: target.local.bytes, spans };
  return put(call.engine, ctx, { peer, target, spans, source, change: call.lane(0).credit() });
}

function bytesOf({ target }: Reduction, { start, end }: Part): Uint8Array {
  return target.local.bytes.subarray(start, end);
}

/** Block i of P of a part: elements [⌊i·n/P⌋, ⌊(i+1)·n/P⌋), perhaps none. */
function balanced({ start, end }: Part, blocks: number, index: number, size: number): Part {
  const elements = (end - start) / size;
  const border = (at: number): number => start + Math.floor((at * elements) / blocks) * size;
  return { start: border(index), end: border(index + 1) };
}
