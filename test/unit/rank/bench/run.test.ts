import { describe, expect, it } from "vitest";
import { type BenchPlan, type BenchResult, primitives, isSized, sampleStep } from "../../../../rank/bench/plan.ts";
import { runBench } from "../../../../rank/bench/run.ts";
import { algorithmsOf, benchRows, operations, rowOf } from "../../../../rank/bench/rows.ts";
import { simulate, type SimulationResult } from "../../../../rank/simulate.ts";
import { type DType, elementBytes } from "../../../../shared/dtype.ts";

const rowsFor = (dtype: DType): string[] =>
  benchRows.filter(({ dtypes }) => dtypes?.includes(dtype) ?? true).map(({ name }) => name);

async function measured(
  nranks: number,
  changes: Partial<BenchPlan>,
  testFault?: string,
): Promise<{ results: BenchResult[]; failure: SimulationResult["failure"] }> {
  const plan: BenchPlan = {
    names: [],
    sizesBytes: [64, 1000],
    dtype: "float32",
    op: "sum",
    root: 0,
    iterations: 2,
    warmup: 1,
    check: true,
    ...changes,
  };
  const results: BenchResult[] = [];
  const { failure } = await simulate({
    nranks,
    seed: nranks,
    main: (comm) =>
      runBench(comm, plan, (result) => {
        if (comm.rank === 0) results.push(result);
      }),
    ...(testFault === undefined ? {} : { testFault }),
  });
  return { results, failure };
}

describe("every benchmark, checked", () => {
  for (const dtype of ["float32", "float16", "int8"] as const) {
    it.each([1, 2, 3, 4, 8])(`${dtype}: nothing is wrong on %i ranks`, async (nranks) => {
      const names = [...rowsFor(dtype), ...primitives];
      const { results, failure } = await measured(nranks, { names, dtype, root: nranks - 1 });
      expect(failure?.error.message).toBeUndefined();
      expect(results.map(({ name }) => name)).toEqual(names.flatMap((name) => (isSized(name) ? [name, name] : [name])));
      for (const result of results) {
        expect(result.wrong, result.name).toBe(0);
        expect(result.checked, result.name).toBeGreaterThan(0);
        expect(result.bytes, result.name).toBe(result.count * elementBytes(dtype));
        expect(result.calls).toBe(2);
        expect(result.warmupCalls).toBe(1);
      }
    });
  }

  it("compares all elements that a call fills, on all ranks that it fills them on", async () => {
    const names = ["all_to_all", "all_to_all_v", "indexed_all_to_all_v", "reduce_scatter", "put_lat", "barrier"];
    const { results } = await measured(2, { names, sizesBytes: [512] });
    const whole = 512 / 4;
    expect(results.map(({ checked }) => checked)).toEqual([2 * whole, 2 * whole, 2 * whole, whole, whole, 2 * 64]);
  });

  it("counts what a corrupted link makes wrong", async () => {
    // rank 1 gets a put in each of 1 + 2 calls together, 2 single ones, one exchange of figures, and the checked call
    const fault = "flip_byte:rank=1,nth=";
    const flipped = async (name: string, nth: number): Promise<number | null | undefined> =>
      (await measured(2, { names: [name], sizesBytes: [64] }, `${fault}${nth}`)).results[0]?.wrong;
    for (const name of ["all_to_all", "allgather", "all_to_all_v", "put_lat"]) {
      // what came before the checked call does not count
      expect(await flipped(name, 1), name).toBe(0);
      expect(await flipped(name, 7), name).toBe(1);
    }
  });

  it("says nothing of what was not checked", async () => {
    const { results } = await measured(2, { names: ["all_to_all", "put_lat", "notify_lat"], check: false });
    expect(results.map(({ wrong }) => wrong)).toEqual([null, null, null, null, null]);
    expect(results.every(({ checked }) => checked === 0)).toBe(true);
  });
});

describe("figures", () => {
  it("has a bandwidth factor from the table, and none at one rank or without payload", async () => {
    const names = ["all_to_all", "allreduce:ring", "put_bw", "barrier"];
    const factors = async (nranks: number): Promise<(number | null)[]> =>
      (await measured(nranks, { names, sizesBytes: [64] })).results.map(({ busFactor }) => busFactor);
    expect(await factors(4)).toEqual([3 / 4, 6 / 4, 1, null]);
    expect(await factors(1)).toEqual([null, null, null, null]);
  });

  it("chooses the number of calls itself, the same on all ranks", async () => {
    const open = { names: ["all_to_all"], sizesBytes: [64], iterations: null, warmup: null };
    const { results, failure } = await measured(2, open);
    expect(failure).toBeUndefined();
    expect(results[0]?.warmupCalls).toBeGreaterThan(1);
    expect(results[0]?.calls).toBeGreaterThanOrEqual(10);
  });

  it("puts the root where it is told", async () => {
    for (const root of [0, 2]) {
      const { results } = await measured(3, { names: ["broadcast", "allgather"], sizesBytes: [64], root });
      expect(results.map((result) => result.root)).toEqual([root, -1]);
      expect(results.every(({ wrong }) => wrong === 0)).toBe(true);
    }
  });
});

it("a sample has an odd step, and is only taken above 16 MiB", () => {
  expect([1, 16 * 2 ** 20, 16 * 2 ** 20 + 1, 64 * 2 ** 20, 2 ** 32].map(sampleStep)).toEqual([1, 1, 3, 5, 257]);
});

describe("the algorithms of a collective", () => {
  it("are those of the table, the plain one, and the choice among them", () => {
    expect(algorithmsOf("barrier")).toEqual(["direct", "hub", "auto"]);
    expect(algorithmsOf("all_to_all")).toEqual(["direct", "eager", "hub", "auto"]);
    expect(algorithmsOf("allreduce")).toEqual(["mesh", "ring", "exchange", "hub", "two_phase", "auto"]);
    expect(algorithmsOf("broadcast")).toEqual([]);
  });

  it("name its rows, each once", () => {
    const rows = operations.flatMap((operation) => algorithmsOf(operation).map((algo) => rowOf(operation, algo)?.name));
    expect(new Set(rows).size).toBe(rows.length);
    expect(rows).not.toContain(undefined);
    expect(rowOf("all_to_all", "direct")?.name).toBe("all_to_all");
    expect(rowOf("broadcast", "direct")?.name).toBe("broadcast");
    expect(rowOf("broadcast", "auto")).toBeUndefined();
    expect(rowOf("allreduce", "direct")).toBeUndefined();
  });
});
