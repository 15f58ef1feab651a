import type { Group } from "../group.ts";
import { checkOptions, checkSignal } from "./arguments.ts";
import type { CallOptions, CollectiveSpec } from "./call.ts";

/** `barrier(signal)`: one credit round. No rank leaves before every rank has entered. */
export function barrier(group: Group, signal: unknown, options: CallOptions): CollectiveSpec {
  const place = { op: "barrier", group };
  checkOptions(place, options);
  const own = checkSignal(place, signal, group.members.length, 1);
  return {
    op: "barrier",
    agreement: `signal "${own.name}"`,
    signal: own,
    target: undefined,
    pushes: false,
    buffers: [],
    options,
    run: async ({ lane }) => {
      await lane(0).round();
    },
  };
}
