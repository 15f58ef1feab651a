import { hostname } from "node:os";
import { expect, test } from "vitest";
import { listenAddress } from "../../../coordinator/supervisor.ts";

const own = "10.0.0.7";

test.each([
  ["nothing", {}, { bind: own, advertise: own }],
  ["an address", { bind: "10.1.1.1" }, { bind: "10.1.1.1", advertise: "10.1.1.1" }],
  ["a name", { advertise: "box" }, { bind: own, advertise: "box" }],
  ["both", { bind: "0.0.0.0", advertise: "box" }, { bind: "0.0.0.0", advertise: "box" }],
  ["a wildcard", { bind: "0.0.0.0" }, { bind: "0.0.0.0", advertise: hostname() }],
  ["the other wildcard", { bind: "::" }, { bind: "::", advertise: hostname() }],
])("given %s, ranks bind and advertise", (_name, given, expected) => {
  expect(listenAddress(given, own)).toEqual(expected);
});
