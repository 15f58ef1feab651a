import type { Engine } from "../engine.ts";
import type { Group } from "../group.ts";
import { notify } from "../issue.ts";
import { ignore } from "../../shared/async.ts";
import { BarrierAlgo, type BarrierOptions, checkAlgo, isCrowded } from "./algo.ts";
import { checkOptions, checkSignal } from "./arguments.ts";
import type { CollectiveCall, CollectiveSpec } from "./call.ts";
import { HUB, hubHears } from "./hub.ts";

/**
 * `barrier(signal)`: one credit round. No rank leaves before every rank has entered.
 *
 * Through the hub there are two: everybody's credit to it, and, when all are there, one back to everybody.
 */
export function barrier(engine: Engine, group: Group, signal: unknown, options: BarrierOptions): CollectiveSpec {
  const place = { op: "barrier", group };
  checkOptions(place, options, ["algo"]);
  const own = checkSignal(place, signal, group.members.length, 1);
  const { algo = BarrierAlgo.Direct } = options;
  const asked = checkAlgo(place.op, BarrierAlgo, algo);
  const hub = asked === BarrierAlgo.Hub || (asked === BarrierAlgo.Auto && isCrowded(engine, group));
  return {
    op: "barrier",
    terms: { of: [hub], text: () => `signal "${own.name}"${hub ? ", algo hub" : ""}` },
    signal: own,
    target: undefined,
    pushes: false,
    queues: false,
    buffers: [],
    options,
    hears: hub ? hubHears(group) : group.peers(),
    run: (call) => (hub ? runHub(call) : call.lane(0).round()),
  };
}

function runHub(call: CollectiveCall): Promise<unknown> {
  const { engine, group } = call;
  const credits = call.lane(0);
  const entered = credits.begin();
  if (group.rank !== HUB) {
    notify(engine, entered, HUB, credits.credit())?.catch(ignore);
    return credits.arrived(credits.begin(), [HUB]);
  }
  return credits.arrived(entered).then(() => {
    const left = credits.begin();
    for (const peer of group.peers()) notify(engine, left, peer, credits.credit())?.catch(ignore);
  });
}
