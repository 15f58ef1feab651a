/**
 * Looks for arriving frames without going to sleep in between, for a moment after a wait has begun, or after a frame
 * that has not ended it.
 *
 * To be woken costs some 10 µs at either end, more than a small message takes; but a rank that looks takes its processor
 * from another one. So only ranks that have a processor each do it, only while something is awaited, and only briefly: a
 * long wait costs nothing. A look that took long was interrupted: by the collection of garbage or the rank's own work, after
 * which one may go on at once, or by others who want the processor; the more often it happens, the longer they get it.
 */
import { POLL_CALM_MS, POLL_MS, POLL_PAUSE_MS_MAX, POLL_PAUSE_MS_MIN, POLL_TURN_MS_MAX } from "../shared/constants.ts";
import type { PendingWaits } from "./pending.ts";

/** Polls while `pending` has entries, until POLL_MS after the latest was added, or after the latest call of what is returned. */
export function pollWhileWaiting(pending: PendingWaits): () => void {
  let polling = false;
  let until = 0;
  let last = 0;
  let pauseMs = POLL_PAUSE_MS_MIN;
  let pausedUntil = 0;
  const pause = (now: number): void => {
    const soon = now - pausedUntil < POLL_CALM_MS;
    pauseMs = soon ? Math.min(2 * pauseMs, POLL_PAUSE_MS_MAX) : POLL_PAUSE_MS_MIN;
    pausedUntil = now + pauseMs;
  };
  // one chain of turns of the event loop, however many waits there are: each turn reads what has arrived
  const turn = (): void => {
    const now = performance.now();
    if (now - last > POLL_TURN_MS_MAX) pause(now);
    last = now;
    polling = pending.size > 0 && now < until && now >= pausedUntil;
    if (polling) setImmediate(turn);
  };
  const poll = (now: number): void => {
    until = now + POLL_MS;
    // a wait that is added, or a frame that was served, is the rank's own work up to here
    last = now;
    if (polling || now < pausedUntil) return;
    polling = true;
    setImmediate(turn);
  };
  pending.onAdded = poll;
  return () => {
    if (pending.size > 0) poll(performance.now());
  };
}
