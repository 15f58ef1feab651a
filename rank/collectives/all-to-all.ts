import type { Engine } from "../engine.ts";
import type { Group } from "../group.ts";
import type { CollectiveSpec } from "./call.ts";
import { exchange, type ExchangeArguments } from "./exchange.ts";

/**
 * `all_to_all(x [P, …], data [P, …], signal)`: row s of `data` becomes the chunk that rank s meant for this rank.
 *
 * Rounds: ready (when the window has been a builtin's target before), then the puts, each with its credit of the
 * complete round. Received per rank: (P − 1) / P of the window. Other algorithms have other rounds: see `ExchangeAlgo`.
 */
export function allToAll(engine: Engine, group: Group, call: ExchangeArguments): CollectiveSpec {
  return exchange(engine, { op: "all_to_all", group }, call, {
    sourceShapes: (window) => [window],
    rowFor: (member) => member,
  });
}
