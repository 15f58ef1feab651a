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
    agreement: `signal "${own.name}"${hub ? ", algo hub" : ""}`,
    signal: own,
    target: undefined,
    pushes: false,
    buffers: [],
    options,
    ...(hub ? { hears: hubHears(group) } : {}),
    run: (call) => (hub ? runHub(call) : call.lane(0).round()),
  };
}

async function runHub({ engine, group, lane }: CollectiveCall): Promise<void> {
  const credits = lane(0);
  const entered = credits.begin();
  if (group.rank === HUB) {
    await credits.arrived(entered);
    const left = credits.begin();
    for (const peer of group.peers()) notify(engine, left, peer, credits.credit()).catch(ignore);
    return;
  }
  notify(engine, entered, HUB, credits.credit()).catch(ignore);
  await credits.arrived(credits.begin(), [HUB]);
}
