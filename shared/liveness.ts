/**
 * Notices a peer that has fallen silent, by counting pings without an answer rather than by comparing times: after
 * this process itself has been stopped for a while, answers are waiting to be read, and only one ping went unanswered.
 */
import { LIVENESS_MISSES_MAX } from "./constants.ts";

/** A running check. */
export interface LivenessCheck {
  /** Something was heard from the peer. */
  readonly heard: () => void;
  readonly stop: () => void;
}

/**
 * Calls `probe` again and again, and `silent` once when nothing was heard for `livenessMs`.
 * Timers keep no process alive.
 */
export function watchLiveness(livenessMs: number, probe: () => void, silent: () => void): LivenessCheck {
  let misses = 0;
  const timer = setInterval(
    () => {
      misses++;
      if (misses > LIVENESS_MISSES_MAX) {
        clearInterval(timer);
        silent();
      } else {
        probe();
      }
    },
    livenessMs / (LIVENESS_MISSES_MAX + 1),
  );
  timer.unref();
  probe();
  return {
    heard: () => {
      misses = 0;
    },
    stop: () => {
      clearInterval(timer);
    },
  };
}
