import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type PendingEntry, PendingWaits } from "../../../rank/pending.ts";
import { RankwiseError } from "../../../shared/errors.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

interface Spied extends PendingEntry {
  expire: ReturnType<typeof vi.fn<() => void>>;
  reject: ReturnType<typeof vi.fn<(error: RankwiseError) => void>>;
}

function entry(ms: number, call = `wait of ${ms}`): Spied {
  const since = performance.now();
  const row = {
    call,
    group: [0, 1],
    seq: 0,
    lane: 0,
    signal: "signal",
    cell: [1],
    compare: "ge",
    expected: 1,
    current: 0,
    lastWriter: null,
    missing: [1],
  };
  return { since, deadline: since + ms, rows: () => [row], expire: vi.fn<() => void>(), reject: vi.fn() };
}

const ended = new RankwiseError("ERR_GROUP_ENDED", "the group has ended");

describe("deadlines", () => {
  it("expire each entry once, at its own time, in any order of arrival", async () => {
    const pending = new PendingWaits();
    const entries = [entry(300), entry(100), entry(200)];
    for (const each of entries) pending.add(each);
    const calls = (): number[] => entries.map(({ expire }) => expire.mock.calls.length);
    await vi.advanceTimersByTimeAsync(99);
    expect(calls()).toEqual([0, 0, 0]);
    await vi.advanceTimersByTimeAsync(2);
    expect(calls()).toEqual([0, 1, 0]);
    await vi.advanceTimersByTimeAsync(100);
    expect(calls()).toEqual([0, 1, 1]);
    await vi.advanceTimersByTimeAsync(1000);
    expect(calls()).toEqual([1, 1, 1]);
  });

  it("of satisfied waits mean nothing", async () => {
    const pending = new PendingWaits();
    const [met, other] = [entry(100), entry(150)];
    pending.add(met);
    pending.add(other);
    pending.delete(met);
    await vi.advanceTimersByTimeAsync(200);
    expect([met.expire.mock.calls.length, other.expire.mock.calls.length]).toEqual([0, 1]);
  });

  it("share one timer, however many wait", () => {
    const pending = new PendingWaits();
    for (let i = 0; i < 100; i++) pending.add(entry(1000 - i));
    expect(vi.getTimerCount()).toBe(1);
    pending.end(ended);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("do not keep a process alive once nothing waits any more and the rank says so", () => {
    const pending = new PendingWaits();
    const met = entry(60_000);
    pending.add(met);
    pending.disarm();
    expect(vi.getTimerCount()).toBe(1);
    pending.delete(met);
    pending.disarm();
    expect(vi.getTimerCount()).toBe(0);
    // and it is not lost for the next wait
    pending.add(met);
    expect(vi.getTimerCount()).toBe(1);
    pending.end(ended);
  });

  it("may be added while another expires", async () => {
    const pending = new PendingWaits();
    const late = entry(500);
    const first = entry(100);
    first.expire.mockImplementation(() => pending.add(late));
    pending.add(first);
    await vi.advanceTimersByTimeAsync(101);
    await vi.advanceTimersByTimeAsync(500);
    expect(late.expire).toHaveBeenCalledOnce();
  });
});

describe("rows", () => {
  it("are the entries with their age, oldest first", async () => {
    const pending = new PendingWaits();
    pending.add(entry(1000, "first"));
    await vi.advanceTimersByTimeAsync(40);
    pending.add(entry(500, "second"));
    await vi.advanceTimersByTimeAsync(2);
    expect(pending.rows().map(({ call, ageMs }) => [call, ageMs])).toEqual([
      ["first", 42],
      ["second", 2],
    ]);
  });
});

describe("end", () => {
  it("rejects what is pending once, and what is added later at once", () => {
    const pending = new PendingWaits();
    const [before, after] = [entry(100), entry(100)];
    pending.add(before);
    pending.end(ended);
    pending.add(after);
    expect(before.reject.mock.calls).toEqual([[ended]]);
    expect(after.reject.mock.calls).toEqual([[ended]]);
    expect(pending.rows()).toEqual([]);
    expect(vi.getTimerCount()).toBe(0);
  });
});
