import { byteLength, formatShape } from "../../shared/shape.ts";
import type { Group } from "../group.ts";
import { put } from "../issue.ts";
import { checkRows, checkSignal, checkSource, checkWindow } from "./arguments.ts";
import type { CallOptions, CollectiveSpec } from "./call.ts";

/**
 * `all_to_all(x [P, …], data [P, …], signal)`: row s of `data` becomes the chunk that rank s meant for this rank.
 *
 * Rounds: ready (when the window has been a builtin's target before), then the puts, each with its credit of the
 * complete round. Received per rank: (P − 1) / P of the window.
 */
export function allToAll(
  group: Group,
  x: unknown,
  data: unknown,
  signal: unknown,
  options: CallOptions,
): CollectiveSpec {
  const target = checkWindow("all_to_all", "data", group, data);
  checkRows("all_to_all", "data", group, target);
  const source = checkSource("all_to_all", "x", x, target, "data");
  const own = checkSignal("all_to_all", group, signal, 1);
  const rowBytes = byteLength("all_to_all", target.dtype, target.shape.slice(1).concat(1));
  const row = (index: number) =>
    rowBytes === 0 ? [] : [{ offset: index * rowBytes, rowBytes, rows: 1, strideBytes: rowBytes }];
  return {
    op: "all_to_all",
    agreement: `data "${target.name}" ${target.dtype} ${formatShape(target.shape)}, signal "${own.name}"`,
    signal: own,
    target,
    buffers: [
      { name: "x", bytes: source.bytes, writes: false },
      { name: "data", bytes: target.local.bytes, writes: true },
    ],
    options,
    run: async ({ engine, credits, ready }) => {
      if (ready) await credits.round();
      const ctx = credits.begin();
      const { rank, members } = group;
      const sent: Promise<void>[] = [];
      // rank r starts with peer r + 1, so that not all ranks write to the same one at once
      for (let step = 1; step <= members.length; step++) {
        const peer = (rank + step) % members.length;
        const chunk = { bytes: source.bytes, spans: row(peer) };
        const credit = peer === rank ? undefined : credits.credit();
        sent.push(put(engine, ctx, { peer, target, spans: row(rank), source: chunk, change: credit }));
      }
      await Promise.all(sent);
      await credits.arrived(ctx);
    },
  };
}
