import type { Engine } from "../engine.ts";
import type { Group } from "../group.ts";
import type { CollectiveSpec } from "./call.ts";
import { exchange, type ExchangeArguments } from "./exchange.ts";

/**
 * `allgather(x, data [P, …], signal)`: row s of `data` becomes rank s's chunk, on every rank.
 *
 * Rounds: ready (when the window has been a builtin's target before), then the puts, each with its credit of the
 * complete round. Received per rank: (P − 1) / P of the window. Other algorithms have other rounds: see `ExchangeAlgo`.
 */
export function allGather(engine: Engine, group: Group, call: ExchangeArguments): CollectiveSpec {
  return exchange(engine, { op: "allgather", group }, call, {
    sourceShapes: ([, ...row]) => (row.length === 0 ? [[1]] : [row, [1, ...row]]),
    rowFor: () => 0,
  });
}
