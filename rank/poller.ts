/**
 * Looks for arriving frames without going to sleep in between, for a moment after a wait has begun.
 *
 * To be woken costs some 10 µs at either end, more than a small message takes; but a rank that looks takes its processor
 * from another one. So only ranks that have a processor each do it, only while something is awaited, and only briefly: a
 * long wait costs nothing.
 */
import { POLL_MS } from "../shared/constants.ts";
import type { PendingWaits } from "./pending.ts";

/** Polls while `pending` has entries that are younger than POLL_MS. */
export function pollWhileWaiting(pending: PendingWaits): void {
  let polling = false;
  let until = 0;
  // one chain of turns of the event loop, however many waits there are: each turn reads what has arrived
  const turn = (): void => {
    polling = pending.size > 0 && performance.now() < until;
    if (polling) setImmediate(turn);
  };
  pending.onAdded = () => {
    until = performance.now() + POLL_MS;
    if (polling) return;
    polling = true;
    setImmediate(turn);
  };
}
