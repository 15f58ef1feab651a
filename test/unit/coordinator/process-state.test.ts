import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { processState, ProcessWatch } from "../../../coordinator/process-state.ts";
import type { ProcessState } from "../../../shared/messages.ts";

async function reaches(pid: number, state: ProcessState): Promise<void> {
  const untilMs = performance.now() + 5000;
  // one look decides: a process that has just started sleeps and runs by turns
  for (;;) {
    const seen = processState(pid);
    if (seen === state) return;
    if (performance.now() >= untilMs) expect(seen).toBe(state);
    await sleep(5);
  }
}

test.runIf(process.platform === "linux")("the operating system tells sleeping, busy and stopped apart", async () => {
  const child = spawn(process.execPath, ["-e", "process.stdin.once('data', () => { for (;;); })"], { stdio: "pipe" });
  const pid = child.pid ?? Number.NaN;
  try {
    await reaches(pid, "sleeping");
    child.stdin.write("go");
    await reaches(pid, "busy");
    child.kill("SIGSTOP");
    await reaches(pid, "stopped");
  } finally {
    child.kill("SIGKILL");
    await once(child, "exit");
  }
  expect(processState(pid)).toBe("unknown");
});

describe("a watch", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  let state: ProcessState = "sleeping";
  function watch(): { watch: ProcessWatch; stopped: string[] } {
    state = "sleeping";
    const stopped: string[] = [];
    const made = new ProcessWatch({
      livenessMs: 800,
      processes: () => [[3, 77]],
      onStopped: (rank, pid, ms) => stopped.push(`rank ${rank}, pid ${pid}, ${ms} ms`),
      read: () => state,
    });
    return { watch: made, stopped };
  }

  test("names a stopped process once, within the time, and again when it stops again", () => {
    const { watch: made, stopped } = watch();
    vi.advanceTimersByTime(1000);
    state = "stopped";
    vi.advanceTimersByTime(500);
    expect(stopped).toEqual([]);
    vi.advanceTimersByTime(300);
    expect(stopped).toEqual(["rank 3, pid 77, 500 ms"]);
    vi.advanceTimersByTime(5000);
    expect(stopped).toHaveLength(1);
    state = "sleeping";
    vi.advanceTimersByTime(100);
    state = "stopped";
    vi.advanceTimersByTime(800);
    expect(stopped).toHaveLength(2);
    made.stop();
    state = "sleeping";
    vi.advanceTimersByTime(5000);
    expect(stopped).toHaveLength(2);
  });

  test("does not mind a short stop", () => {
    const { watch: made, stopped } = watch();
    for (let round = 0; round < 5; round++) {
      state = "stopped";
      vi.advanceTimersByTime(400);
      state = "busy";
      vi.advanceTimersByTime(200);
    }
    expect(stopped).toEqual([]);
    made.stop();
  });

  test("calls a process busy that was so before, not one that happens to run", () => {
    const { watch: made } = watch();
    vi.advanceTimersByTime(300);
    state = "busy";
    expect(made.states()).toEqual([{ rank: 3, state: "sleeping" }]);
    vi.advanceTimersByTime(300);
    expect(made.states()).toEqual([{ rank: 3, state: "busy" }]);
    state = "stopped";
    expect(made.states()).toEqual([{ rank: 3, state: "stopped" }]);
    made.stop();
  });
});
