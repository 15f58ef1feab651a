import { describe, expect, it } from "vitest";
import type { Comm } from "../../../../rank/comm.ts";
import type { Tensor } from "../../../../rank/memory/tensor.ts";
import { range } from "../../../helpers/ranks.ts";
import { errorOf, fails, run } from "../../../helpers/sim.ts";

const M = 4;
const H = 6;

/** What every rank fills its target with first: no row that is sent holds it. */
const SALT = -5;

const value = (source: number, dest: number, row: number, j: number): number =>
  1000 * source + 100 * dest + 10 * row + (j % 10);

type Count = (source: number, dest: number, ranks: number) => number;

const clamp = (count: number): number => Math.min(Math.max(count, 0), M);

/** One call with salted targets; every row of every partition is checked, sent or not. */
async function exchange(comm: Comm, count: Count, { coreNum = 1, S = 1 } = {}): Promise<void> {
  const { rank, nranks } = comm;
  const input = comm.tensor("float32", [nranks * M, H]);
  input.array.forEach((_, i) => {
    const [row, j] = [Math.floor(i / H), i % H];
    input.array[i] = value(rank, Math.floor(row / M), row % M, j);
  });
  const before = input.array.slice();
  const target = await comm.window("target", "float32", [nranks * M, H]);
  const signal = await comm.signal("signal", [nranks, S]);
  const sync = await comm.signal("sync", [nranks, 1]);
  const sendCounts = comm.tensor("int32", [nranks]);
  const recvCounts = comm.tensor("int32", [nranks]);
  range(nranks).forEach((dest) => (sendCounts.array[dest] = count(rank, dest, nranks)));
  target.local.array.fill(SALT);
  await comm.barrier(sync);
  await comm.allToAllV(input, target, signal, { sendCounts, recvCounts, coreNum });
  expect([...recvCounts.array]).toEqual(range(nranks).map((source) => clamp(count(source, rank, nranks))));
  await comm.check(target, (row, j) => {
    const source = Math.floor(row / M);
    return row % M < clamp(count(source, rank, nranks)) ? value(source, rank, row % M, j) : SALT;
  });
  expect(input.array).toEqual(before);
  expect([...sendCounts.array]).toEqual(range(nranks).map((dest) => count(rank, dest, nranks)));
  await comm.barrier(sync);
  expect(signal.local.array.every((cell) => cell === 0)).toBe(true);
}

const skews: Readonly<Record<string, Count>> = {
  "P − d": (_s, d, ranks) => ranks - d,
  "zero and full": (s, d) => ((s + d) % 2 === 0 ? 0 : M),
  "one and full": (s, d) => ((s + d) % 2 === 0 ? 1 : M),
  "over capacity": (s, d) => (s === d ? 2 : M + 3),
  negative: (s, d) => (s < d ? -2 : 3),
  nothing: () => 0,
  "one side only": (s, d) => (s < d ? M : 0),
};

describe("all_to_all_v", () => {
  it.each(Object.keys(skews).flatMap((name) => [1, 2, 3, 4, 7, 8].map((nranks) => [name, nranks] as const)))(
    "with counts %s moves the counted rows and nothing else, %i ranks",
    async (name, nranks) => {
      const count = skews[name]!;
      const { states } = await run(nranks, (comm) => exchange(comm, count), { seed: nranks });
      for (const [rank, { counters }] of states.entries()) {
        const others = range(nranks).filter((peer) => peer !== rank);
        const rows = (pairs: readonly (readonly [number, number])[]): number =>
          pairs.reduce((sum, [s, d]) => sum + clamp(count(s, d, nranks)), 0);
        expect(counters.payloadBytesReceived).toBe(rows(others.map((s) => [s, rank])) * H * 4);
        expect(counters.payloadBytesSent).toBe(rows(others.map((d) => [rank, d])) * H * 4);
        const clamped = range(nranks).filter((d) => count(rank, d, nranks) !== clamp(count(rank, d, nranks)));
        expect(counters.clampedCounts).toBe(clamped.length);
      }
    },
  );

  it.each([
    [2, 2, 2],
    [2, 5, 4],
    [2, 6, 6],
    [4, 2, 2],
    [4, 10, 8],
    [2, 2, 3],
    [3, 1, 1],
    [3, 2, 2],
    [1, 5, 5],
  ])("on P = %i ranks asked for L = %i lanes works on a signal of S = %i columns", async (nranks, coreNum, S) => {
    for (const count of Object.values(skews)) await run(nranks, (comm) => exchange(comm, count, { coreNum, S }));
  });

  it("launches the largest multiple of P not above L, and needs a column for each lane", async () => {
    await run(2, async (comm) => {
      const call = (coreNum: number, S: number): Promise<void> => exchangeOn(comm, coreNum, S);
      // 5 lanes asked for are 4 launched
      const narrow = await errorOf(() => call(5, 3));
      expect([narrow.code, narrow.context.argument]).toEqual(["ERR_SHAPE_MISMATCH", "signal"]);
      expect(narrow.message).toContain("must have at least [2, 4] cells");
      const wide = await errorOf(() => call(comm.lanesMax + 3, 2));
      const launched = comm.lanesMax + 3 - ((comm.lanesMax + 3) % 2);
      expect(wide.code).toBe("ERR_LIMIT");
      expect(wide.message).toContain(`coreNum: ${launched} lanes exceed the platform's limit of ${comm.lanesMax}`);
    });
  });

  it("reports counts to which expectedRecvCounts do not agree, before any rank returns", async () => {
    for (let seed = 0; seed < 30; seed++) {
      let returned = 0;
      const { error } = await fails(
        3,
        async (comm) => {
          const expectedRecvCounts = comm.tensor("int32", [3], Int32Array.of(2, comm.rank === 2 ? 1 : 2, 2));
          await exchangeOn(comm, 1, 1, { expectedRecvCounts });
          returned += 1;
        },
        { seed },
      );
      expect(error.code).toBe("ERR_MISMATCH");
      expect(error.message).toBe("all_to_all_v #1: rank 1 sends 2 rows to rank 2, which expects 1");
      expect(returned).toBe(0);
    }
  });

  it("takes the counts that are expected", async () => {
    await run(3, (comm) =>
      exchangeOn(comm, 1, 1, { expectedRecvCounts: comm.tensor("int32", [3], Int32Array.of(2, 2, 2)) }),
    );
  });

  /** A call in which everybody sends two rows to everybody. */
  async function exchangeOn(
    comm: Comm,
    coreNum: number,
    S: number,
    options: { expectedRecvCounts?: Tensor<"int32"> } = {},
  ): Promise<void> {
    const { nranks } = comm;
    const input = comm.tensor("float32", [nranks * M, H]);
    const target = await comm.window(`target ${coreNum}`, "float32", [nranks * M, H]);
    const signal = await comm.signal(`signal ${coreNum}`, [nranks, S]);
    const sendCounts = comm.tensor("int32", [nranks], new Int32Array(nranks).fill(2));
    const recvCounts = comm.tensor("int32", [nranks]);
    await comm.allToAllV(input, target, signal, { sendCounts, recvCounts, coreNum, ...options });
  }
});
