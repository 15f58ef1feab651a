import { expect, it } from "vitest";
import { bandwidths, footerLines, resultLines } from "../../../../coordinator/cli/bench-table.ts";
import type { BenchResult } from "../../../../rank/bench/plan.ts";

const result: BenchResult = {
  name: "all_to_all",
  bytes: 4_000_000,
  count: 1_000_000,
  dtype: "float32",
  op: "none",
  root: -1,
  calls: 100,
  warmupCalls: 10,
  timeUs: 1000,
  p50Us: 1100,
  p99Us: 2200,
  minUs: 900,
  busFactor: 0.75,
  wrong: 0,
  checked: 4_000_000,
};

it("prints the columns of nccl-tests, with a heading where another benchmark begins", () => {
  const lines = resultLines(result, undefined);
  expect(lines.slice(0, 2).map((line) => line.split(/\s+/u))).toEqual([
    ["#", "all_to_all"],
    ["#", "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "p50", "p99"],
  ]);
  const row = "4000000 1000000 float32 none -1 1000.0 4.00 3.00 0 1100.0 2200.0";
  expect(lines[3]?.trim().split(/\s+/u).join(" ")).toBe(row);
  expect(resultLines(result, result)).toHaveLength(1);
  expect(resultLines({ ...result, wrong: null }, result)[0]).toMatch(/ N\/A /u);
});

it("says where a sample was compared", () => {
  const large = { ...result, count: 2 ** 24 };
  expect(resultLines(large, result)[0]).toBe("# above 16777216 B: every 5th element compared");
  expect(resultLines({ ...large, wrong: null }, result)).toHaveLength(1);
});

it("counts the wire's bytes as bus bandwidth, where there is a wire", () => {
  expect(bandwidths(result)).toEqual({ algbw: 4, busbw: 3 });
  expect(bandwidths({ ...result, busFactor: null })).toEqual({ algbw: null, busbw: null });
  expect(footerLines([result, { ...result, busFactor: 0.25 }, { ...result, busFactor: null }])).toEqual([
    "# Out of bounds values : 0 OK",
    "# Elements compared    : 12000000",
    "# Avg bus bandwidth    : 2.00000",
  ]);
  expect(footerLines([{ ...result, wrong: 3, busFactor: null }])).toEqual([
    "# Out of bounds values : 3 FAILED",
    "# Elements compared    : 4000000",
    "# Avg bus bandwidth    : n/a",
  ]);
});
