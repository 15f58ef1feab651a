import { LANE_TILE_ELEMENTS } from "../../shared/constants.ts";
import { elementBytes } from "../../shared/dtype.ts";
import { cutSpan, type Span } from "../../shared/shape.ts";
import { checkLanes } from "../checks.ts";
import type { Group } from "../group.ts";
import { Scratch } from "../memory/arena.ts";
import { reduceInto, ReduceOp } from "../memory/reduce.ts";
import { gather, scatter } from "../memory/spans.ts";
import type { AllReduceOptions } from "./reduce-options.ts";
import { checkReduceOp, checkSignal, checkWindow, describeWindow } from "./arguments.ts";
import type { CollectiveSpec } from "./call.ts";
import { fetch, rowSpans } from "./rows.ts";

/**
 * allreduce, mesh: every rank reads everybody's data and reduces all of it, in the order of ranks.
 *
 * Pulled, in chunks of MESH_CHUNK_BYTES (of whole tiles, where lanes share them). Rounds: staged, then one after each chunk: everybody has read it, so it may
 * be overwritten by its result. With `coreNum` lanes, tiles of LANE_TILE_ELEMENTS are dealt to the lanes in turn, and
 * each lane counts credits in its own column. Received per rank: (P − 1) · N.
 */
export function allReduceMesh(
  group: Group,
  data: unknown,
  signal: unknown,
  options: AllReduceOptions,
  lanesMax: number,
): CollectiveSpec {
  const place = { op: "allreduce", group };
  const target = checkWindow(place, "data", data);
  const lanes = checkLanes("allreduce: coreNum", options.coreNum ?? 1, lanesMax);
  const own = checkSignal(place, signal, group.members.length, lanes);
  const op = checkReduceOp(place, options.op ?? ReduceOp.Sum);
  const { bytes } = target.local;
  return {
    op: "allreduce",
    terms: {
      of: [target.ordinal, op, "mesh", lanes],
      text: () => `data ${describeWindow(target)}, signal "${own.name}", op ${op}, algo mesh, lanes ${lanes}`,
    },
    signal: own,
    target,
    pushes: false,
    queues: false,
    buffers: [{ name: "data", bytes, writes: true }],
    options,
    hears: group.peers(),
    run: async (call) => {
      const { engine } = call;
      const runLane = async (index: number): Promise<void> => {
        const credits = call.lane(index);
        const scratch = new Scratch(engine.arena);
        const take = scratch.take.bind(scratch);
        const chunkBytes = engine.limits.meshChunkBytes;
        await credits.round();
        for (const chunk of laneChunks(bytes.byteLength, elementBytes(target.dtype), lanes, index, chunkBytes)) {
          const operands = await Promise.all(
            group.members.map((_, source) =>
              source === group.rank
                ? Promise.resolve(gather(bytes, chunk, take).packed)
                : fetch(engine, call.context(1, index), source, target, chunk, scratch),
            ),
          );
          const result = take(operands[0]?.byteLength ?? 0);
          reduceInto(target.dtype, op, result, operands);
          await credits.round();
          scatter(bytes, chunk, 0, result);
          scratch.giveBack();
        }
      };
      await Promise.all(Array.from({ length: lanes }, (_, index) => runLane(index)));
    },
  };
}

/**
 * What one lane reduces, in chunks of at most `chunkBytes`: the same on every rank. No lane has more chunks than
 * lane 0, so the rounds of lane 0 are those of the call.
 */
function laneChunks(bytes: number, size: number, lanes: number, lane: number, chunkBytes: number): Span[][] {
  if (lanes === 1) return rowSpans(bytes, 0).flatMap((whole) => cutSpan(whole, chunkBytes).map((span) => [span]));
  const tileBytes = LANE_TILE_ELEMENTS * size;
  const tiles = Math.ceil(bytes / tileBytes);
  const mine = Math.max(0, Math.ceil((tiles - lane) / lanes));
  if (mine === 0) return [];
  const strideBytes = lanes * tileBytes;
  const lastOffset = (lane + (mine - 1) * lanes) * tileBytes;
  const lastBytes = Math.min(tileBytes, bytes - lastOffset);
  const tilesOfChunk = Math.max(1, Math.floor(chunkBytes / tileBytes));
  const chunks: Span[][] = [];
  for (let tile = 0; tile < mine; tile += tilesOfChunk) {
    const count = Math.min(tilesOfChunk, mine - tile);
    const offset = (lane + tile * lanes) * tileBytes;
    const whole = tile + count < mine || lastBytes === tileBytes ? count : count - 1;
    const chunk: Span[] = [];
    if (whole > 0) chunk.push({ offset, rowBytes: tileBytes, rows: whole, strideBytes });
    if (whole < count) chunk.push({ offset: lastOffset, rowBytes: lastBytes, rows: 1, strideBytes: lastBytes });
    chunks.push(chunk);
  }
  return chunks;
}
