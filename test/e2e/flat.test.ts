/** Calls leave nothing behind. The campaign `flat` does the same with more calls. */
import { expect, test } from "vitest";
import { leaks, runFlat } from "../helpers/flat.ts";

test.runIf(process.platform === "linux")("memory and descriptors stay flat over calls of all kinds", async () => {
  expect(leaks(await runFlat(2, 1000, 10, 25_000))).toEqual([]);
});

test("what grows is told, and what shrinks is not", () => {
  const last = { heapUsed: 1, external: 1, rss: 1, descriptors: 1 };
  const still = { heapUsed: 0, external: 0, rss: -1e9, descriptors: 0 };
  expect(leaks([{ last, growth: still }])).toEqual([]);
  expect(leaks([{ last, growth: { ...still, external: 2 ** 18, descriptors: 0.1 } }])).toEqual([
    "external grew by 262144, more than 131072",
    "descriptors grew by 0.1, more than 0",
  ]);
});
