import { beforeEach, describe, expect, it } from "vitest";
import { pollWhileWaiting } from "../../../rank/poller.ts";
import { type PendingEntry, PendingWaits } from "../../../rank/pending.ts";
import { POLL_MS, POLL_PAUSE_MS, POLL_TURN_MS_MAX } from "../../../shared/constants.ts";

const entry = (): PendingEntry => ({
  since: performance.now(),
  deadline: performance.now() + 60_000,
  row: () => {
    throw new Error("nobody asks");
  },
  expire: () => {},
  reject: () => {},
});

let pending: PendingWaits;
beforeEach(() => {
  pending = new PendingWaits();
  pollWhileWaiting(pending);
});

/** Immediates that keep the event loop from going to sleep, but for the test's own. */
const polls = (): number => process.getActiveResourcesInfo().filter((name) => name === "Immediate").length;

const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

function compute(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
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

  it("does not look when nothing is awaited", async () => {
    const waiting = entry();
    pending.add(waiting);
    pending.delete(waiting);
    await turn();
    await turn();
    expect(polls()).toBe(0);
  });

  it("leaves the processor to others for POLL_PAUSE_MS after a turn that was interrupted", async () => {
    pending.add(entry());
    compute(POLL_TURN_MS_MAX * 2);
    await turn();
    await turn();
    const before = polls();
    pending.add(entry());
    expect(polls() - before).toBe(0);
    compute(POLL_PAUSE_MS);
    pending.add(entry());
    expect(polls() - before).toBe(1);
  });
});
