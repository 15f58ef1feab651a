import { checkPeer } from "../checks.ts";
import type { Group } from "../group.ts";
import { get } from "../get.ts";
import { checkOptions, checkSignal, checkWindow, describeWindow } from "./arguments.ts";
import type { CallOptions, CollectiveSpec } from "./call.ts";
import { rowSpans } from "./rows.ts";

/** Options of `broadcast`. */
export interface BroadcastOptions extends CallOptions {
  /** The rank whose data everybody gets. Default 0. */
  readonly root?: number;
}

/**
 * `broadcast(data, signal, { root })`: every rank's `data` becomes root's; what the others had staged never shows.
 *
 * Pulled. Rounds: staged (root's data may be read), read (nobody reads any more). Received: all of `data` at each
 * rank but root.
 */
export function broadcast(group: Group, data: unknown, signal: unknown, options: BroadcastOptions): CollectiveSpec {
  const place = { op: "broadcast", group };
  checkOptions(place, options, ["root"]);
  const target = checkWindow(place, "data", data);
  const own = checkSignal(place, signal, group.members.length, 1);
  const root = checkPeer("broadcast", group, options.root ?? 0, "root");
  return {
    op: "broadcast",
    terms: {
      of: [target.ordinal, root],
      text: () => `data ${describeWindow(target)}, signal "${own.name}", root ${root}`,
    },
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
      if (group.rank !== root) {
        const whole = rowSpans(target.local.bytes.byteLength, 0);
        await get(engine, call.context(1, 0), root, target, whole, { bytes: target.local.bytes, spans: whole });
      }
      await credits.round();
    },
  };
}
