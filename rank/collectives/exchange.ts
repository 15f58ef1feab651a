/**
 * What `all_to_all` and `allgather` have in common: every rank has a row for every rank, and row s of a rank's window
 * becomes what rank s has for it.
 */
import { EAGER_BYTES_MAX, HUB_BYTES_MAX } from "../../shared/constants.ts";
import { RankwiseError } from "../../shared/errors.ts";
import type { Shape } from "../../shared/shape.ts";
import type { Engine } from "../engine.ts";
import { put } from "../issue.ts";
import { Scratch } from "../memory/arena.ts";
import type { Allocation } from "../memory/registry.ts";
import { stage, unstage, unstageInto } from "../stage.ts";
import { allComplete } from "../waits.ts";
import { checkAlgo, ExchangeAlgo, type ExchangeOptions, isCrowded } from "./algo.ts";
import {
  checkOptions,
  checkRows,
  checkSignal,
  checkSource,
  checkWindow,
  describeWindow,
  type Place,
} from "./arguments.ts";
import { HUB, hubHears } from "./hub.ts";
import type { CollectiveCall, CollectiveSpec } from "./call.ts";
import { pushAndComplete } from "./push.ts";
import { rowBytesOf, rowSpans } from "./rows.ts";

/** Rows up to here are copied byte by byte: to make a view of them takes longer. */
const LOOP_BYTES_MAX = 128;

/** The arguments of a call, as its caller gave them. */
export interface ExchangeArguments {
  readonly x: unknown;
  readonly data: unknown;
  readonly signal: unknown;
  readonly options: ExchangeOptions;
}

/** How the collectives differ. */
export interface ExchangeKind {
  /** The shapes that `x` may have, by the window's. */
  readonly sourceShapes: (window: Shape) => Shape[];
  /** Row of `x` that a member gets. */
  readonly rowFor: (member: number) => number;
}

/** The parts of a running exchange. */
interface Exchange {
  readonly target: Allocation;
  readonly source: Uint8Array;
  readonly rowBytes: number;
  readonly rowFor: (member: number) => number;
}

/** A checked call. */
export function exchange(
  engine: Engine,
  place: Place,
  { x, data, signal, options }: ExchangeArguments,
  { sourceShapes, rowFor }: ExchangeKind,
): CollectiveSpec {
  const { op, group } = place;
  checkOptions(place, options, ["algo"]);
  const target = checkWindow(place, "data", data);
  checkRows(place, "data", target);
  const { bytes } = checkSource(place, "x", x, target, "data", sourceShapes(target.shape));
  const own = checkSignal(place, signal, group.members.length, 1);
  const rowBytes = rowBytesOf(target);
  const parts = { target, source: bytes, rowBytes, rowFor };
  const algo = chooseAlgo(engine, place, parts, options);
  return {
    op,
    terms: {
      of: [target.ordinal, algo],
      text: () => {
        const told = algo === ExchangeAlgo.Direct ? "" : `, algo ${algo}`;
        return `data ${describeWindow(target)}, signal "${own.name}"${told}`;
      },
    },
    signal: own,
    target,
    pushes: algo === ExchangeAlgo.Direct,
    queues: false,
    buffers: [
      { name: "x", bytes, writes: false },
      { name: "data", bytes: target.local.bytes, writes: true },
    ],
    options,
    hears: algo === ExchangeAlgo.Hub ? hubHears(group) : group.peers(),
    run: (call) => runners[algo](call, parts),
  };
}

type Chosen = Exclude<ExchangeAlgo, "auto">;

/** The algorithm of a call: what is asked for, or what is fastest for this size and this number of ranks. */
function chooseAlgo(engine: Engine, { op, group }: Place, parts: Exchange, options: ExchangeOptions): Chosen {
  const { rowBytes, source } = parts;
  const { algo: asked = ExchangeAlgo.Direct } = options;
  const algo = checkAlgo(op, ExchangeAlgo, asked);
  if (algo === ExchangeAlgo.Direct) return algo;
  const limit = engine.limits.framePayloadBytes;
  if (algo === ExchangeAlgo.Auto) {
    if (isCrowded(engine, group) && rowBytes <= HUB_BYTES_MAX && source.byteLength <= limit) return ExchangeAlgo.Hub;
    return rowBytes <= Math.min(EAGER_BYTES_MAX, limit) ? ExchangeAlgo.Eager : ExchangeAlgo.Direct;
  }
  const blockBytes = algo === ExchangeAlgo.Hub ? source.byteLength : rowBytes;
  if (blockBytes <= limit) return algo;
  throw new RankwiseError(
    "ERR_SIZE_LIMIT",
    `${op}: algo ${algo} sends ${blockBytes} bytes to a rank at once, above FRAME_PAYLOAD_BYTES_MAX ${limit}; use algo direct or auto`,
    { argument: "algo" },
  );
}

const runners: Readonly<Record<Chosen, (call: CollectiveCall, exchange: Exchange) => Promise<void>>> = {
  direct: runDirect,
  eager: runEager,
  hub: runHub,
};

/** Straight into the peers' windows; the target may be reused, so a ready round may come first. */
async function runDirect(call: CollectiveCall, { target, source, rowBytes, rowFor }: Exchange): Promise<void> {
  const credits = call.lane(0);
  if (call.ready) await credits.round();
  await pushAndComplete(call, credits, target, (peer) => ({
    spans: rowSpans(rowBytes, call.group.rank),
    source: { bytes: source, spans: rowSpans(rowBytes, rowFor(peer)) },
  }));
}

/**
 * One round: a chunk that comes before its receiver has entered the call waits there until it does; a later one goes
 * straight into its window.
 */
async function runEager(call: CollectiveCall, parts: Exchange): Promise<void> {
  const { engine, group } = call;
  const { rank, members } = group;
  const credits = call.lane(0);
  const ctx = credits.begin();
  call.land(ctx.round, (peer) => resultOf(parts, peer));
  const sent: (Promise<void> | undefined)[] = [];
  for (let step = 1; step < members.length; step++) {
    const peer = (rank + step) % members.length;
    sent.push(stage(engine, ctx, { peer, bytes: rowOf(parts, parts.source, peer), change: credits.credit() }));
  }
  resultOf(parts, rank).set(rowOf(parts, parts.source, rank));
  await credits.arrived(ctx);
  for (const peer of group.peers()) unstageInto(engine, ctx, peer, resultOf(parts, peer));
  await allComplete(sent);
}

/**
 * Two rounds with the hub alone: everybody's rows go there, and when all are there, everybody's row comes back, into
 * the window itself, since whoever has sent its rows has entered the call.
 */
async function runHub(call: CollectiveCall, parts: Exchange): Promise<void> {
  const { engine, group } = call;
  const { target, source } = parts;
  const credits = call.lane(0);
  const gathered = credits.begin();
  if (group.rank !== HUB) {
    const sent = stage(engine, gathered, { peer: HUB, bytes: source, change: credits.credit() });
    await credits.arrived(credits.begin(), [HUB]);
    await sent;
    return;
  }
  await credits.arrived(gathered);
  const sources = group.members.map((_, member) =>
    member === HUB ? source : unstage(engine, gathered, member, source.byteLength),
  );
  const scattered = credits.begin();
  const scratch = new Scratch(engine.arena);
  const resultBytes = sources.length * parts.rowBytes;
  let bytes: Uint8Array = source;
  let held = -1;
  const sent = group.peers().map((peer) => {
    // what several members get is packed once
    if (parts.rowFor(peer) !== held) {
      held = parts.rowFor(peer);
      bytes = scratch.take(resultBytes);
      packResult(parts, sources, held, bytes);
    }
    const block = { bytes, spans: rowSpans(resultBytes, 0) };
    return put(engine, scattered, { peer, target, spans: block.spans, source: block, change: credits.credit() });
  });
  packResult(parts, sources, parts.rowFor(HUB), target.local.bytes);
  for (const rows of sources) if (rows !== source) engine.arena.release(rows);
  await allComplete(sent);
  scratch.giveBack();
}

/** The same row of everybody, together. */
function packResult({ rowBytes }: Exchange, sources: readonly Uint8Array[], row: number, result: Uint8Array): void {
  const start = row * rowBytes;
  for (let member = 0; member < sources.length; member++) {
    const rows = sources[member];
    if (rows === undefined) continue;
    if (rowBytes > LOOP_BYTES_MAX) result.set(rows.subarray(start, start + rowBytes), member * rowBytes);
    else for (let at = 0; at < rowBytes; at++) result[member * rowBytes + at] = rows[start + at] ?? 0;
  }
}

/** What a member gets of somebody's rows. */
function rowOf({ rowBytes, rowFor }: Exchange, rows: Uint8Array, member: number): Uint8Array {
  const start = rowFor(member) * rowBytes;
  return rows.subarray(start, start + rowBytes);
}

/** Row s of the own window. */
function resultOf({ target, rowBytes }: Exchange, member: number): Uint8Array {
  return target.local.bytes.subarray(member * rowBytes, (member + 1) * rowBytes);
}
