import type { Group } from "../group.ts";
import { checkOptions, checkRows, checkSignal, checkSource, checkWindow, describeWindow } from "./arguments.ts";
import type { CallOptions, CollectiveSpec } from "./call.ts";
import { pushAndComplete } from "./push.ts";
import { rowBytesOf, rowSpans } from "./rows.ts";

/**
 * `allgather(x, data [P, …], signal)`: row s of `data` becomes rank s's chunk, on every rank.
 *
 * Rounds: ready (when the window has been a builtin's target before), then the puts, each with its credit of the
 * complete round. Received per rank: (P − 1) / P of the window.
 */
export function allGather(
  group: Group,
  x: unknown,
  data: unknown,
  signal: unknown,
  options: CallOptions,
): CollectiveSpec {
  const place = { op: "allgather", group };
  checkOptions(place, options);
  const target = checkWindow(place, "data", data);
  checkRows(place, "data", target);
  const row = target.shape.slice(1);
  const source = checkSource(place, "x", x, target, "data", row.length === 0 ? [[1]] : [row, [1, ...row]]);
  const own = checkSignal(place, signal, group.members.length, 1);
  const rowBytes = rowBytesOf(target);
  return {
    op: "allgather",
    agreement: `data ${describeWindow(target)}, signal "${own.name}"`,
    signal: own,
    target,
    pushes: true,
    buffers: [
      { name: "x", bytes: source.bytes, writes: false },
      { name: "data", bytes: target.local.bytes, writes: true },
    ],
    options,
    run: async (call) => {
      const credits = call.lane(0);
      if (call.ready) await credits.round();
      await pushAndComplete(call, credits, target, () => ({
        spans: rowSpans(rowBytes, group.rank),
        source: { bytes: source.bytes, spans: rowSpans(rowBytes, 0) },
      }));
    },
  };
}
