import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { pollWhileWaiting } from "../../../rank/poller.ts";
import { type PendingEntry, PendingWaits } from "../../../rank/pending.ts";
import {
  POLL_CALM_MS,
  POLL_MS,
  POLL_PAUSE_MS_MAX,
  POLL_PAUSE_MS_MIN,
  POLL_TURN_MS_MAX,
} from "../../../shared/constants.ts";

const entry = (): PendingEntry => ({
  since: performance.now(),
  deadline: performance.now() + 60_000,
  rows: () => {
    throw new Error("nobody asks");
  },
  expire: () => {},
  reject: () => {},
});

let clockMs = 0;
let pending: PendingWaits;
let frameArrived: () => void;
beforeEach(() => {
  clockMs = 1000;
  vi.spyOn(performance, "now").mockImplementation(() => clockMs);
  pending = new PendingWaits();
  frameArrived = pollWhileWaiting(pending);
});

afterEach(() => {
  vi.restoreAllMocks();
});

/** Immediates that keep the event loop from going to sleep, but for the test's own. */
const polls = (): number => process.getActiveResourcesInfo().filter((name) => name === "Immediate").length;

const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

function compute(ms: number): void {
  clockMs += ms;
}

describe("a rank that waits", () => {
  it("looks in one chain of turns, however many waits there are", () => {
    const before = polls();
    for (let i = 0; i < 5; i++) pending.add(entry());
    expect(polls() - before).toBe(1);
  });

  it("goes to sleep after POLL_MS", async () => {
    pending.add(entry());
    compute(POLL_MS);
    await turn();
    await turn();
    expect(polls()).toBe(0);
  });

  it("looks on for POLL_MS after a frame that has not ended the wait", async () => {
    pending.add(entry());
    compute(POLL_MS);
    await turn();
    await turn();
    const before = polls();
    frameArrived();
    expect(polls() - before).toBe(1);
    compute(POLL_MS);
    await turn();
    await turn();
    expect(polls()).toBe(0);
  });

  it("does not look after a frame when nothing is awaited", () => {
    const before = polls();
    frameArrived();
    expect(polls() - before).toBe(0);
  });

  it("does not look when nothing is awaited", async () => {
    const waiting = entry();
    pending.add(waiting);
    pending.delete(waiting);
    await turn();
    await turn();
    expect(polls()).toBe(0);
  });

  /** One wait in which a look is interrupted. */
  async function interrupt(): Promise<void> {
    pending.add(entry());
    compute(POLL_TURN_MS_MAX * 2);
    await turn();
    await turn();
  }

  /** Whether a rank that begins to wait now looks for frames. */
  const looks = (): boolean => {
    const before = polls();
    pending.add(entry());
    return polls() > before;
  };

  it("goes on soon after a turn that was interrupted once", async () => {
    await interrupt();
    compute(POLL_PAUSE_MS_MIN);
    expect(looks()).toBe(true);
  });

  it("leaves the processor to others for longer, the more often it is interrupted", async () => {
    let since = 0;
    for (let pause = POLL_PAUSE_MS_MIN; pause <= POLL_PAUSE_MS_MAX; pause *= 2) {
      await interrupt();
      since = performance.now();
      if (pause < POLL_PAUSE_MS_MAX) compute(pause);
    }
    expect(looks()).toBe(false);
    compute(since + POLL_PAUSE_MS_MAX - performance.now());
    expect(looks()).toBe(true);
  });

  it("forgets after POLL_CALM_MS how often it was interrupted", async () => {
    for (let pause = POLL_PAUSE_MS_MIN; pause <= POLL_PAUSE_MS_MAX; pause *= 2) {
      await interrupt();
      compute(pause);
    }
    compute(POLL_CALM_MS);
    await interrupt();
    compute(POLL_PAUSE_MS_MIN);
    expect(looks()).toBe(true);
  });
});
