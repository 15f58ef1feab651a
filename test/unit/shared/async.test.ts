import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { deferred, delay, withDeadline } from "../../../shared/async.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe("deferred", () => {
  it("resolves and rejects from outside", async () => {
    const good = deferred<number>();
    good.resolve(3);
    expect(await good.promise).toBe(3);
    const bad = deferred<number>();
    bad.reject(new Error("no"));
    await expect(bad.promise).rejects.toThrow("no");
  });

  it("may be rejected while nobody listens", async () => {
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    deferred<void>().reject(new Error("nobody listens"));
    vi.useRealTimers();
    // Node reports unhandled rejections between two turns of its loop
    await new Promise(setImmediate);
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });
});

describe("delay", () => {
  it("resolves after its time and not before", async () => {
    const done = vi.fn();
    void delay(1000).then(done);
    await vi.advanceTimersByTimeAsync(999);
    expect(done).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(done).toHaveBeenCalledOnce();
  });
});

describe("withDeadline", () => {
  const late = (): Error => new Error("late");

  it("gives the value and leaves no timer", async () => {
    expect(await withDeadline(Promise.resolve("value"), 1000, late)).toBe("value");
    expect(vi.getTimerCount()).toBe(0);
  });

  it("gives the promise's own error and leaves no timer", async () => {
    await expect(withDeadline(Promise.reject(new Error("own")), 1000, late)).rejects.toThrow("own");
    expect(vi.getTimerCount()).toBe(0);
  });

  it("gives the late error when the time has passed, made only then", async () => {
    const made = vi.fn(late);
    const outcome = withDeadline(new Promise(() => {}), 1000, made).catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(999);
    expect(made).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(await outcome).toEqual(new Error("late"));
    expect(vi.getTimerCount()).toBe(0);
  });
});
