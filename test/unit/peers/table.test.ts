import { describe, expect, it } from "vitest";
import { ourBench, peerBytes, rows, runsOn, selectRows, type Row, targetOf, targets } from "../../peers/rows.ts";
import { formatTable, median, type Measured, ourTime, peerTime, ratioLines } from "../../peers/table.ts";

const row = (name: string): Row => {
  const found = rows.find((one) => one.name === name);
  if (found === undefined) throw new Error(`no row ${name}`);
  return found;
};

/** As the benchmarks printed them, with what mpirun and torch say around them. */
const recorded = {
  mpi: '{"us":42.281,"calls":9456,"warmupCalls":5000,"wrong":0}\n',
  gloo: '[W] no NumPy\n{"us": 388.3410712383428, "calls": 1123, "warmupCalls": 1627, "wrong": 0}\n',
  wrong: '{"us":42.281,"calls":9456,"warmupCalls":5000,"wrong":3}\n',
  nothing: "mpirun was unable to launch\n",
};

const bench = (...results: [name: string, timeUs: number, wrong?: number | null][]) => ({
  results: results.map(([name, timeUs, wrong = 0]) => ({ name, timeUs, wrong })),
});

const measured: readonly Measured[] = [
  { row: row("all_to_all-64B"), nranks: 2, ours: [50, 40, 60], peers: { mpi: [41, 42, 100], gloo: [400, 390, 410] } },
  { row: row("all_to_all-4M"), nranks: 4, ours: [8001], peers: { mpi: [16_000], gloo: [16_858] } },
  { row: row("allgather-64B"), nranks: 2, ours: [20], peers: { mpi: [18], gloo: [20] } },
  { row: row("put-1M"), nranks: 2, ours: [262], peers: { mpi: [262] } },
];

describe("what benchmarks print", () => {
  it("is read for its time, and refused when elements were wrong or nothing came", () => {
    expect(peerTime(recorded.mpi)).toBe(42.281);
    expect(peerTime(recorded.gloo)).toBeCloseTo(388.341, 3);
    expect(() => peerTime(recorded.wrong)).toThrow("3 elements are wrong");
    expect(() => peerTime(recorded.nothing)).toThrow("no line of figures");
  });

  it("of ours is that of the algorithm that chooses itself, else of the fastest", () => {
    expect(ourTime(bench(["all_to_all", 23.5]))).toEqual({ us: 23.5, name: "all_to_all" });
    expect(ourTime(bench(["allreduce:mesh", 5], ["allreduce:ring", 4]))).toEqual({ us: 4, name: "allreduce:ring" });
    expect(ourTime(bench(["allreduce:auto", 6], ["allreduce:ring", 4]))).toEqual({ us: 6, name: "allreduce:auto" });
    expect(() => ourTime(bench(["allreduce:mesh", 5], ["allreduce:ring", 4, 1]))).toThrow("allreduce:ring: 1 elements");
    expect(() => ourTime(bench(["barrier", 5, null]))).toThrow("barrier: unchecked elements are wrong");
    expect(() => ourTime(bench())).toThrow("measured nothing");
  });
});

describe("the table", () => {
  it("has the ratio of medians, its target, and whether it is met", () => {
    const lines = ratioLines("mpi", measured);
    expect(lines.map(({ oursUs, peerUs, target, met }) => [oursUs, peerUs, target, met])).toEqual([
      [50, 42, "≤ 1.2", true],
      [8001, 16_000, "≤ 0.5", false],
      [20, 18, "", null],
      [262, 262, "≤ 1", true],
    ]);
    expect(lines[0]?.ratio).toBeCloseTo(50 / 42, 10);
  });

  it("leaves out what a peer has not, and wants less than gloo's time, not the same", () => {
    const lines = ratioLines("gloo", measured);
    expect(lines.map(({ row: name, target, met }) => [name, target, met])).toEqual([
      ["all_to_all-64B", "< 1", true],
      ["all_to_all-4M", "< 1", true],
      ["allgather-64B", "< 1", false],
    ]);
  });

  it("prints its columns", () => {
    const [heading, ...lines] = formatTable(ratioLines("mpi", measured)).map((line) => line.trim().split(/\s{2,}/u));
    expect(heading).toEqual(["row", "P", "ours µs", "peer µs", "ratio", "target", "met"]);
    expect(lines[0]).toEqual(["all_to_all-64B", "2", "50.0", "42.0", "1.19", "≤ 1.2", "yes"]);
    expect(lines[1]).toEqual(["all_to_all-4M", "4", "8001.0", "16000.0", "0.50", "≤ 0.5", "NO"]);
    expect(lines[2]?.slice(-2)).toEqual(["-", "-"]);
  });

  it("has the middle of an odd number of rounds, and the mean of two of an even one", () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 2, 3])).toBe(2.5);
    expect(median([])).toBeNaN();
  });
});

describe("rows", () => {
  it("are chosen by name or operation", () => {
    expect(selectRows(["barrier", "put"]).map(({ name }) => name)).toEqual(["barrier", "put-64B", "put-1M"]);
    expect(selectRows(["allreduce-Px1M"]).map(({ name }) => name)).toEqual(["allreduce-Px1M"]);
    expect(selectRows([])).toEqual(rows);
    expect(() => selectRows(["alltoall"])).toThrow("no row alltoall; known: all_to_all, ");
  });

  it("are small where ranks outnumber processors by far", () => {
    const small = rows.filter((one) => runsOn(one, 16)).map(({ name }) => name);
    expect(small).toEqual(["all_to_all-64B", "all_to_all-1K", "allgather-64B", "allgather-1K", "barrier"]);
    expect(rows.every((one) => runsOn(one, 4))).toBe(true);
  });

  it("move the same bytes on both sides", () => {
    expect(ourBench(row("all_to_all-1K"), 4)).toEqual({ name: "all_to_all", bytes: 4096 });
    expect(peerBytes(row("all_to_all-1K"), 4)).toBe(1024);
    expect(ourBench(row("allreduce-Px64K"), 4)).toEqual({ name: "allreduce", bytes: 262_144 });
    expect(peerBytes(row("allreduce-Px64K"), 4)).toBe(262_144);
    expect(ourBench(row("put-1M"), 4)).toEqual({ name: "put_lat", bytes: 1_048_576 });
  });

  it("have the targets that stand for them, and every target stands for one", () => {
    const most = (name: string, nranks: number): number | undefined => targetOf("mpi", row(name), nranks)?.most;
    expect([2, 4, 8, 16].map((nranks) => most("all_to_all-1K", nranks))).toEqual([1.2, 1.2, 0.8, 0.5]);
    expect([2, 4, 8, 16].map((nranks) => most("barrier", nranks))).toEqual([1.1, 1.2, 0.7, 0.5]);
    expect(["64K", "1M", "4M"].map((size) => most(`allgather-${size}`, 4))).toEqual([0.9, 0.9, 0.5]);
    expect(["64K", "1M", "4M"].map((size) => most(`allreduce-Px${size}`, 2))).toEqual([0.9, 0.9, 0.9]);
    expect([most("put-64B", 2), most("put-1M", 4)]).toEqual([2, 1]);
    const used = [2, 4, 8, 16].flatMap((nranks) =>
      rows.flatMap((one) => [targetOf("mpi", one, nranks), targetOf("gloo", one, nranks)]),
    );
    expect(targets.filter((target) => !used.includes(target))).toEqual([]);
  });
});
