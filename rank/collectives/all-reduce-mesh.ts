import { LANE_TILE_ELEMENTS, MESH_CHUNK_BYTES } from "../../shared/constants.ts";
import { elementBytes } from "../../shared/dtype.ts";
import { cutSpan, type Span } from "../../shared/shape.ts";
import { checkLanes } from "../checks.ts";
import type { Group } from "../group.ts";
import { reduceInto, ReduceOp } from "../memory/reduce.ts";
import { gather, scatter } from "../memory/spans.ts";
import type { AllReduceOptions } from "./reduce-options.ts";
import { checkReduceOp, checkSignal, checkWindow, describeWindow } from "./arguments.ts";
import type { CollectiveSpec } from "./call.ts";
import { fetch, rowSpans } from "./rows.ts";

/**
 * allreduce, mesh: every rank reads everybody's data and reduces all of it, in the order of ranks.
 *
 * Pulled, in chunks of MESH_CHUNK_BYTES. Rounds: staged, then one after each chunk: everybody has read it, so it may
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
    agreement: `data ${describeWindow(target)}, signal "${own.name}", op ${op}, algo mesh, lanes ${lanes}`,
    signal: own,
    target,
    pushes: false,
    buffers: [{ name: "data", bytes, writes: true }],
    options,
    run: async ({ engine, lane, context }) => {
      const runLane = async (index: number): Promise<void> => {
        const credits = lane(index);
        await credits.round();
        for (const chunk of laneChunks(bytes.byteLength, elementBytes(target.dtype), lanes, index)) {
          const operands = await Promise.all(
            group.members.map((_, source) =>
              source === group.rank
                ? Promise.resolve(gather(bytes, chunk).packed)
                : fetch(engine, context(1, index), source, target, chunk),
            ),
          );
          const result = new Uint8Array(operands[0]?.byteLength ?? 0);
          reduceInto(target.dtype, op, result, operands);
          await credits.round();
          scatter(bytes, chunk, 0, result);
        }
      };
      await Promise.all(Array.from({ length: lanes }, (_, index) => runLane(index)));
    },
  };
}

/** What one lane reduces, in chunks of about MESH_CHUNK_BYTES: the same on every rank. */
function laneChunks(bytes: number, size: number, lanes: number, lane: number): Span[][] {
  if (bytes === 0) return [];
  if (lanes === 1)
    return rowSpans(bytes, 0)
      .flatMap((whole) => cutSpan(whole, MESH_CHUNK_BYTES))
      .map((span) => [span]);
  const tileBytes = LANE_TILE_ELEMENTS * size;
  const tiles = Math.ceil(bytes / tileBytes);
  const mine = Math.max(0, Math.ceil((tiles - lane) / lanes));
  if (mine === 0) return [];
  const lastTile = lane + (mine - 1) * lanes;
  const lastBytes = Math.min(tileBytes, bytes - lastTile * tileBytes);
  const wholeTiles = lastBytes === tileBytes ? mine : mine - 1;
  const spans: Span[] = [];
  if (wholeTiles > 0) {
    spans.push({ offset: lane * tileBytes, rowBytes: tileBytes, rows: wholeTiles, strideBytes: lanes * tileBytes });
  }
  if (wholeTiles < mine) {
    spans.push({ offset: lastTile * tileBytes, rowBytes: lastBytes, rows: 1, strideBytes: lastBytes });
  }
  return spans.flatMap((span) => cutSpan(span, MESH_CHUNK_BYTES)).map((span) => [span]);
}
