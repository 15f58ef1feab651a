import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { StallWatch } from "../../../coordinator/stall-watch.ts";

let nowMs = 0;
let stalls: number[] = [];
beforeEach(() => {
  vi.useFakeTimers();
  nowMs = 0;
  stalls = [];
});
afterEach(() => void vi.useRealTimers());

function start(): StallWatch {
  return new StallWatch({ livenessMs: 1000, onStall: (stallMs) => stalls.push(stallMs), now: () => nowMs });
}

/** Time passes, and the process runs. */
function pass(ms: number): void {
  for (let spent = 0; spent < ms; spent += 10) {
    nowMs += 10;
    vi.advanceTimersByTime(10);
  }
}

test("a process that runs has no stalls, however little it hears", () => {
  start();
  pass(5000);
  expect(stalls).toEqual([]);
});

test("one that did not run tells it once, when it first looks or is first asked", () => {
  const watch = start();
  pass(1000);
  nowMs += 2500; // nothing ran
  watch.look();
  expect(stalls).toHaveLength(1);
  const [stallMs = 0] = stalls;
  expect(stallMs - 2500, "it may have stopped any time after it has looked").toBeGreaterThanOrEqual(0);
  expect(stallMs - 2500).toBeLessThanOrEqual(175);
  pass(1000);
  nowMs += 500; // and at most 175 until it looks
  pass(200);
  expect(stalls, "a shorter one is none").toHaveLength(1);
});

test("once stopped it says nothing", () => {
  start().stop();
  nowMs += 5000;
  vi.advanceTimersByTime(5000);
  expect(stalls).toEqual([]);
});
