import { expect, it } from "vitest";
import { InFlight } from "../../../../rank/collectives/in-flight.ts";
import { unhandledIn } from "../../../helpers/unhandled.ts";
import type { RunningCall } from "../../../../rank/collectives/running-call.ts";

const call = Object.create(null) as RunningCall;

// a chain of calls, each made before the one before it has ended, would keep the memory of all of them
it("a task that is done holds on to no other and to no call", () => {
  const first = new InFlight("first", []);
  const second = new InFlight("second", [first], call);
  expect([second.follows.length, second.call]).toEqual([1, call]);
  second.settle("done");
  expect([second.state, second.follows.length, second.call]).toEqual(["done", 0, undefined]);
});

it("one that has failed keeps what it came after, which may not have ended, and no call", () => {
  const first = new InFlight("first", []);
  const second = new InFlight("second", [first], call);
  second.settle("failed");
  expect([second.state, second.follows, second.call]).toEqual(["failed", [first], undefined]);
});

it("a promise is known as the task that it was made", () => {
  const record = new InFlight("task", []);
  const promise = record.becomes(Promise.resolve());
  expect(InFlight.of(promise)).toBe(record);
  for (const other of [Promise.resolve(), undefined, null, {}, 7]) expect(InFlight.of(other)).toBeUndefined();
});

it.each([
  ["nothing else tells", undefined, 1],
  ["is told otherwise before its promise is known", true, 0],
  ["is told otherwise later", false, 0],
])("a failure that %s is an unhandled rejection only then", async (_, early, count) => {
  const unhandled = await unhandledIn(() => {
    const record = new InFlight("task", []);
    if (early === true) record.toldOtherwise();
    void record.becomes(Promise.reject(new Error("no")));
    if (early === false) record.toldOtherwise();
  });
  expect(unhandled).toHaveLength(count);
});
