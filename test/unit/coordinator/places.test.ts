import { describe, expect, it } from "vitest";
import { Places } from "../../../coordinator/places.ts";

describe("Places", () => {
  it("know the address of each rank that has joined", () => {
    const places = new Places();
    places.add(1, { host: "b", address: "ws://b:1", processors: 4 });
    places.add(0, { host: "a", address: "unix:/s/0", processors: 8 });
    expect([0, 1, 2].map((rank) => places.address(rank))).toEqual(["unix:/s/0", "ws://b:1", null]);
    expect(places.addresses.toSorted()).toEqual(["unix:/s/0", "ws://b:1"]);
    places.clear();
    expect(places.addresses).toEqual([]);
    expect(places.address(0)).toBeNull();
  });

  it("count hosts once, and take the fewest processors", () => {
    const places = new Places();
    for (const rank of [0, 1, 2]) {
      places.add(rank, {
        host: rank === 2 ? "b" : "a",
        address: `ws://h:${rank + 1}`,
        processors: [8, 8, 2][rank] ?? 1,
      });
    }
    expect(places.placement).toEqual({ hosts: 2, processors: 2 });
  });
});
