import { describe, expect, it, vi } from "vitest";
import { Peer, serialReached } from "../../../rank/peer.ts";
import { deferred } from "../../../shared/async.ts";
import type { PendingEntry } from "../../../rank/pending.ts";

const IN_FLIGHT_MAX = 1000;

describe("serials", () => {
  // a job of a week sends more than 2^32 frames: serials go round
  it("are compared on a circle of 2^32", () => {
    expect(serialReached(5, 5)).toBe(true);
    expect(serialReached(6, 5)).toBe(true);
    expect(serialReached(4, 5)).toBe(false);
    expect(serialReached(2, 2 ** 32 - 3)).toBe(true);
    expect(serialReached(2 ** 32 - 3, 2)).toBe(false);
    expect(serialReached(0, 2 ** 32 - 1)).toBe(true);
  });

  it("count from 1, and from 2^32 - 1 to 0", () => {
    const peer = new Peer(3, IN_FLIGHT_MAX);
    expect([peer.nextSerial(), peer.nextSerial()]).toEqual([1, 2]);
    peer.sent = 2 ** 32 - 2;
    expect([peer.nextSerial(), peer.nextSerial(), peer.nextSerial()]).toEqual([2 ** 32 - 1, 0, 1]);
  });
});

describe("acknowledge", () => {
  const entry = {} as PendingEntry;
  const fence = (serial: number): Peer["fences"][number] => ({ serial, entry, done: deferred<void>() });

  it("returns the fences that are met, in order, once", () => {
    const peer = new Peer(0, IN_FLIGHT_MAX);
    peer.fences.push(fence(3), fence(5), fence(9));
    expect(peer.acknowledge(2)).toEqual([]);
    expect(peer.acknowledge(6).map(({ serial }) => serial)).toEqual([3, 5]);
    expect(peer.acknowledge(6)).toEqual([]);
    expect(peer.acknowledge(9).map(({ serial }) => serial)).toEqual([9]);
  });

  it("never goes back", () => {
    const peer = new Peer(0, IN_FLIGHT_MAX);
    peer.acknowledge(7);
    peer.acknowledge(4);
    expect(peer.acked).toBe(7);
  });

  it("goes round with the serials", () => {
    const peer = new Peer(0, IN_FLIGHT_MAX);
    peer.acked = 2 ** 32 - 2;
    peer.fences.push(fence(1));
    expect(peer.acknowledge(2 ** 32 - 1)).toEqual([]);
    expect(peer.acknowledge(1)).toHaveLength(1);
  });
});

describe("gets", () => {
  it("are numbered in the INT32 range, which goes round", () => {
    const peer = new Peer(0, IN_FLIGHT_MAX);
    const first = peer.nextRequest();
    expect(peer.nextRequest()).toBe(first + 1);
    for (const number of [first, first + 1]) expect(number).toBeLessThan(2 ** 31);
  });

  it("fit up to the limit, and one alone always fits", () => {
    const peer = new Peer(0, IN_FLIGHT_MAX);
    expect(peer.getFits(2 * IN_FLIGHT_MAX)).toBe(true);
    peer.getBytesInFlight = 1;
    expect(peer.getFits(IN_FLIGHT_MAX - 1)).toBe(true);
    expect(peer.getFits(IN_FLIGHT_MAX)).toBe(false);
  });

  it("leave the queue in order, as many as fit", () => {
    const peer = new Peer(0, IN_FLIGHT_MAX);
    const queued = [IN_FLIGHT_MAX - 10, 10, 1].map((bytes) => ({
      bytes,
      send: vi.fn(() => (peer.getBytesInFlight += bytes)),
    }));
    peer.getQueue.push(...queued);
    peer.sendQueuedGets();
    expect(queued.map(({ send }) => send.mock.calls.length)).toEqual([1, 1, 0]);
    peer.getBytesInFlight = 0;
    peer.sendQueuedGets();
    expect(queued[2]?.send).toHaveBeenCalledOnce();
    expect(peer.getQueue).toEqual([]);
  });
});
