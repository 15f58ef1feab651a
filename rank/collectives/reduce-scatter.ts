import type { Group } from "../group.ts";
import { Scratch } from "../memory/arena.ts";
import { reduceInto, ReduceOp } from "../memory/reduce.ts";
import { checkOptions, checkReduceOp, checkRows, checkSignal, checkWindow, describeWindow } from "./arguments.ts";
import type { CollectiveSpec } from "./call.ts";
import type { ReduceOptions } from "./reduce-options.ts";
import { fetch, rowBytesOf, rowSpans } from "./rows.ts";

/**
 * `reduce_scatter(data [P, …], signal, { op })`, in place: row `rank` of this rank's `data` becomes the reduction of
 * everybody's row `rank`. The other rows keep what they held.
 *
 * Pulled. Rounds: staged, read. Operands are taken in the order of ranks. Received per rank: (P − 1) / P of the window.
 */
export function reduceScatter(group: Group, data: unknown, signal: unknown, options: ReduceOptions): CollectiveSpec {
  const place = { op: "reduce_scatter", group };
  checkOptions(place, options, ["op"]);
  const target = checkWindow(place, "data", data);
  checkRows(place, "data", target);
  const own = checkSignal(place, signal, group.members.length, 1);
  const op = checkReduceOp(place, options.op ?? ReduceOp.Sum);
  const rowBytes = rowBytesOf(target);
  return {
    op: "reduce_scatter",
    terms: { of: [target.ordinal, op], text: () => `data ${describeWindow(target)}, signal "${own.name}", op ${op}` },
    signal: own,
    target,
    pushes: false,
    queues: false,
    buffers: [{ name: "data", bytes: target.local.bytes, writes: true }],
    options,
    hears: group.peers(),
    run: async (call) => {
      const { engine } = call;
      const credits = call.lane(0);
      await credits.round();
      const { rank } = group;
      const scratch = new Scratch(engine.arena);
      const mine = target.local.bytes.subarray(rank * rowBytes, (rank + 1) * rowBytes);
      const rows = await Promise.all(
        group.members.map((_, source) =>
          source === rank
            ? Promise.resolve(mine)
            : fetch(engine, call.context(1, 0), source, target, rowSpans(rowBytes, rank), scratch),
        ),
      );
      reduceInto(target.dtype, op, mine, rows);
      scratch.giveBack();
      await credits.round();
    },
  };
}
