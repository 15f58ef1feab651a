import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { watchLiveness } from "../../../shared/liveness.ts";

const probe = vi.fn();
const silent = vi.fn();

beforeEach(() => {
  vi.useFakeTimers();
  vi.clearAllMocks();
});
afterEach(() => {
  vi.useRealTimers();
});

test("a peer that answers is left alone", () => {
  const check = watchLiveness(1000, probe, silent);
  for (let time = 0; time < 10_000; time += 250) {
    vi.advanceTimersByTime(250);
    check.heard();
  }
  expect(probe).toHaveBeenCalledTimes(41);
  expect(silent).not.toHaveBeenCalled();
  check.stop();
});

test("one that does not is silent after the time given, once", () => {
  watchLiveness(1000, probe, silent);
  vi.advanceTimersByTime(999);
  expect(silent).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(silent).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(10_000);
  expect(silent).toHaveBeenCalledTimes(1);
});

test("a check that was stopped says nothing", () => {
  watchLiveness(1000, probe, silent).stop();
  vi.advanceTimersByTime(10_000);
  expect(silent).not.toHaveBeenCalled();
});
