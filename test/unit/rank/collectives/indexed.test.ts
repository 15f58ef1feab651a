import { describe, expect, it } from "vitest";
import { type IndexedCase, expectExchange, type IndexedRound, runIndexed } from "../../../helpers/indexed.ts";
import { allRounds, countPatterns, indexPatterns, makeRound } from "../../../helpers/indexed-patterns.ts";
import { range } from "../../../helpers/ranks.ts";

const P = [1, 2, 3, 4, 7];
const CAPACITY = 13;
const HEIGHT = 20;

/** Launch widths below, equal to and above P. */
const widths = (nranks: number): number[] => [
  ...new Set([1, Math.max(1, nranks - 1), nranks, nranks + 1, 2 * nranks + 1]),
];

const geometries = P.flatMap((nranks) =>
  widths(nranks).flatMap((coreNum) => (["float32", "int8"] as const).map((dtype) => ({ nranks, coreNum, dtype }))),
);

/** One exchange with every pair at the same count, rows in order. */
function uniform(nranks: number, count: number, fields: Partial<IndexedCase> = {}): IndexedCase {
  const geometry = { nranks, capacity: Math.max(count, 1), height: Math.max(count, 1) };
  const round = makeRound("", geometry, () => count, indexPatterns["identity"]!);
  return {
    nranks,
    coreNum: 1,
    capacity: geometry.capacity,
    width: 3,
    dtype: "int8",
    heights: range(nranks).map(() => geometry.height),
    rounds: [round],
    ...fields,
  };
}

describe("every pattern of counts with every pattern of indices", () => {
  it.each(geometries)("$nranks ranks, $coreNum lanes, $dtype", async ({ nranks, coreNum, dtype }) => {
    await expectExchange(
      {
        nranks,
        coreNum,
        dtype,
        capacity: CAPACITY,
        width: dtype === "float32" ? 3 : 5,
        heights: range(nranks).map(() => HEIGHT),
        rounds: allRounds({ nranks, capacity: CAPACITY, height: HEIGHT }),
        refill: true,
      },
      { seed: nranks * 100 + coreNum },
    );
  });
});

describe("persistent calls", () => {
  const rounds = (nranks: number, capacity: number, counts: (round: number) => number): IndexedRound[] =>
    range(5).map((round) =>
      makeRound(
        "",
        { nranks, capacity, height: HEIGHT },
        (geometry, s, d) => Math.min(counts(round), countPatterns["asymmetric"]!(geometry, s + round, d)),
        ({ height }, s, d, j) => (11 * j + 3 * d + 7 * s + round) % height,
      ),
    );

  it.each(P)(
    "back to back on %i ranks, everything changed, counts shrink: what is not written stays",
    async (nranks) => {
      for (const coreNum of widths(nranks)) {
        await expectExchange({
          nranks,
          coreNum,
          dtype: "float32",
          capacity: CAPACITY,
          width: 4,
          heights: range(nranks).map(() => HEIGHT),
          rounds: rounds(nranks, CAPACITY, (round) => CAPACITY - 3 * round),
        });
      }
    },
  );

  it("whatever the order of deliveries", async () => {
    for (const seed of range(40)) {
      await expectExchange(
        {
          nranks: 3,
          coreNum: 2,
          dtype: "int8",
          capacity: CAPACITY,
          width: 4,
          heights: [HEIGHT, HEIGHT, HEIGHT],
          rounds: rounds(3, CAPACITY, () => CAPACITY),
        },
        { seed },
      );
    }
  });

  it("over sockets", async () => {
    for (const transport of ["unix", "tcp"] as const) {
      await expectExchange(
        {
          nranks: 3,
          coreNum: 4,
          dtype: "int8",
          capacity: CAPACITY,
          width: 4160,
          heights: [HEIGHT, HEIGHT, HEIGHT],
          rounds: rounds(3, CAPACITY, () => CAPACITY),
        },
        { transport },
      );
    }
  });
});

describe("shapes", () => {
  it("Nmax may differ from rank to rank, and be 0 where nothing is sent", async () => {
    const counts = [[2, 3, 0], [0, 0, 0], [1, 3, 2]]; // prettier-ignore
    const index = counts.map((row, s) => row.map((count) => range(3).map((j) => (j < count ? (s + j) % 4 : -1))));
    await expectExchange({
      nranks: 3,
      coreNum: 2,
      capacity: 3,
      width: 2,
      dtype: "float32",
      heights: [4, 0, 9],
      rounds: [{ counts, index }],
    });
  });

  it.each([
    ["no slots", { capacity: 0, width: 3 }],
    ["rows of no bytes", { capacity: 3, width: 0 }],
  ])("%s", async (_name, { capacity, width }) => {
    const rounds = [makeRound("", { nranks: 2, capacity, height: 3 }, () => capacity, indexPatterns["identity"]!)];
    await expectExchange({ nranks: 2, coreNum: 1, capacity, width, dtype: "int8", heights: [3, 3], rounds });
  });

  it.each([1, 5, 4095, 4096, 4160, 8191, 8192, 8193, 20_000])("rows of %i bytes", async (width) => {
    const rounds = ["identity", "scattered", "runs"].map((name) =>
      makeRound(name, { nranks: 2, capacity: 14, height: 9 }, () => 14, indexPatterns[name]!),
    );
    await expectExchange({ nranks: 2, coreNum: 1, capacity: 14, width, dtype: "int8", heights: [9, 9], rounds });
  });

  it("a signal may be wider than the launch", async () => {
    await expectExchange(uniform(3, 4, { coreNum: 2, signalWidth: 2 }));
    await expectExchange(uniform(3, 4, { coreNum: 2, signalWidth: 3 }));
    const { failure, states } = await runIndexed(uniform(3, 4, { coreNum: 2, signalWidth: 1 }));
    expect(failure?.error.code).toBe("ERR_SHAPE_MISMATCH");
    expect(failure?.error.message).toContain('signal "signal" [3, 1] must have at least [3, 2] cells');
    for (const { counters } of states) expect(counters.payloadBytesSent).toBe(0);
  });

  it("frames are cut at the frame limit, doorbells are not", async () => {
    for (const framePayloadBytes of [1, 7, 64, 100, 1000]) {
      await expectExchange(uniform(2, 30, { width: 20 }), { limits: { framePayloadBytes } });
    }
  });

  it("a narrow link holds segments back and loses none", async () => {
    await expectExchange(uniform(3, 100, { width: 5000, coreNum: 3 }), {
      transport: "unix",
      limits: { linkQueueBytes: 1 },
    });
  });
});

describe("submission queues", () => {
  it.each([0, 1, 11, 12, 13, 24, 25, 768])("%i rows: entries, blocks, doorbells and completions", async (count) => {
    const { states } = await expectExchange(uniform(2, count));
    const sqes = Math.ceil(count / 12);
    expect(states[0]?.queues).toEqual(
      count === 0 ? [] : [{ peer: 1, lane: 0, sqes, wqebbs: 4 * sqes, doorbells: 1, cqes: 1, submittedWqeCount: 1 }],
    );
  });

  it.each([
    [768, 256, 1],
    [769, 260, 2],
    [1536, 512, 2],
    [1537, 516, 3],
  ])("%i rows, with a depth of %i, ring %i doorbells", async (count, sqDepth, doorbells) => {
    const { states } = await expectExchange(uniform(2, count), { settings: { sqDepth } });
    for (const { queues } of states) expect(queues).toMatchObject([{ doorbells, cqes: 1 }]);
  });

  it.each([
    [1, 3],
    [12, 3],
    [13, 7],
    [769, 256],
    [769, 259],
  ])("%i rows do not fit a depth of %i, and nothing is posted", async (count, sqDepth) => {
    const { failure, states } = await runIndexed(uniform(2, count), { settings: { sqDepth } });
    const needed = Math.ceil(count / 12) * 4;
    expect(failure?.error.code).toBe("ERR_QUEUE_DEPTH");
    expect(failure?.error.message).toMatch(
      new RegExp(
        `rank \\d: ${count} rows for destination \\d need ${needed} WQEBBs, the queue has sqDepth ${sqDepth}`,
        "u",
      ),
    );
    expect(failure?.error.message).toContain(`a depth of ${needed} would do (--sq-depth ${needed})`);
    for (const { queues, counters } of states) {
      expect(queues).toEqual([]);
      expect(counters.payloadBytesSent).toBe(0);
    }
    await expectExchange(uniform(2, count), { settings: { sqDepth: needed } });
  });

  it("the advised depth is that of the largest transfer", async () => {
    const geometry = { nranks: 3, capacity: 30, height: 30 };
    const round = makeRound("", geometry, (_g, s, d) => (s === 0 ? [0, 13, 30][d]! : 0), indexPatterns["identity"]!);
    const given = { ...uniform(3, 30), rounds: [round] };
    const { failure } = await runIndexed(given, { settings: { sqDepth: 4 } });
    expect(failure?.error.message).toContain("13 rows for destination 1 need 8 WQEBBs");
    expect(failure?.error.message).toContain("a depth of 12 would do");
    await expectExchange(given, { settings: { sqDepth: 12 } });
  });

  it("own rows need no queue, whatever its depth", async () => {
    const round = makeRound(
      "",
      { nranks: 2, capacity: 50, height: 50 },
      countPatterns["self only"]!,
      indexPatterns["runs"]!,
    );
    await expectExchange({ ...uniform(2, 50), rounds: [round] }, { settings: { sqDepth: 0 } });
  });

  it("counters go on from call to call", async () => {
    const { rounds } = uniform(2, 13);
    const { states } = await expectExchange({ ...uniform(2, 13), rounds: [...rounds, ...rounds, ...rounds] });
    expect(states[0]?.queues).toMatchObject([{ sqes: 6, wqebbs: 24, doorbells: 3, cqes: 3, submittedWqeCount: 3 }]);
  });
});
