import { describe, expect, it } from "vitest";
import type { Comm } from "../../../../rank/comm.ts";
import { Arena } from "../../../../rank/memory/arena.ts";
import { reduceInto, ReduceOp } from "../../../../rank/memory/reduce.ts";
import type { DType } from "../../../../shared/dtype.ts";
import { fromFloat16 } from "../../../../shared/half.ts";
import { Random } from "../../../../shared/random.ts";
import * as oracle from "../../../helpers/collective-oracle.ts";
import { range } from "../../../helpers/ranks.ts";
import { run } from "../../../helpers/sim.ts";

type Algo = "mesh" | "ring";

const ops = Object.values(ReduceOp);

/** Some reals; factors near 1, so that products of eight stay in range. */
function reals(dtype: DType, op: ReduceOp, rank: number, size: number): oracle.Block {
  const random = new Random(rank * 7919 + size);
  const data = oracle.block(dtype, size);
  for (let i = 0; i < size; i++) {
    oracle.put(data, i, op === "prod" ? 0.75 + random.next() / 2 : (random.next() - 0.5) * 8);
  }
  return data;
}

const bytesOf = ({ array }: oracle.Block): Uint8Array =>
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

interface Reduction {
  readonly nranks: number;
  readonly algo: Algo;
  readonly dtype: DType;
  readonly op: ReduceOp;
  readonly size: number;
  readonly coreNum?: number;
  readonly S?: number;
  readonly seed?: number;
  readonly meshChunkBytes?: number;
  readonly arena?: Arena;
}

/** The result of every rank, as bytes; all lanes' cells are seen to be zero afterwards. */
async function reduce({ nranks, algo, dtype, op, size, coreNum, S = 1, ...how }: Reduction): Promise<Uint8Array[]> {
  const results: Uint8Array[] = [];
  const { meshChunkBytes, arena } = how;
  const main = async (comm: Comm): Promise<void> => {
    const data = await comm.window("data", dtype, [size]);
    const signal = await comm.signal("signal", algo === "mesh" ? [nranks, S] : [2 * (nranks - 1) + 1, nranks]);
    const sync = await comm.signal("sync", [nranks, 1]);
    data.local.bytes.set(bytesOf(reals(dtype, op, comm.rank, size)));
    await comm.allReduce(data, signal, { op, algo, ...(coreNum === undefined ? {} : { coreNum }) });
    results[comm.rank] = data.local.bytes.slice();
    await comm.barrier(sync);
    expect(signal.local.array.every((cell) => cell === 0)).toBe(true);
  };
  const limits = meshChunkBytes === undefined ? {} : { meshChunkBytes };
  await run(nranks, main, { seed: how.seed ?? 1, limits, ...(arena === undefined ? {} : { arena }) });
  return results;
}

/** What the oracle says every rank must hold. */
function expected({ nranks, algo, dtype, op, size }: Reduction): oracle.Block {
  const data = range(nranks).map((rank) => reals(dtype, op, rank, size));
  oracle.allReduce(data, op, algo);
  return data[0]!;
}

describe.each(["mesh", "ring"] as const)("allreduce %s", (algo) => {
  it.each(
    [2, 3, 4].flatMap((nranks) =>
      [1, 17, 4097, ...(nranks === 3 ? [65_537] : [])].map((size) => [nranks, size] as const),
    ),
  )(
    "on %i ranks and %i elements is right for every op, in float32 and float16, and the same bits everywhere",
    async (nranks, size) => {
      for (const dtype of ["float32", "float16"] as const) {
        const tolerance = dtype === "float32" ? 1e-5 : 2e-2;
        for (const op of ops) {
          const results = await reduce({ nranks, algo, dtype, op, size });
          for (const bytes of results) expect(Buffer.compare(bytes, results[0]!)).toBe(0);
          const got = new (dtype === "float32" ? Float32Array : Uint16Array)(results[0]!.buffer as ArrayBuffer);
          const operands = range(nranks).map((rank) => reals(dtype, op, rank, size).array);
          let worst = 0;
          for (let i = 0; i < size; i++) {
            const decode = (stored: unknown): number =>
              dtype === "float16" ? fromFloat16(Number(stored)) : Number(stored);
            const values = operands.map((array) => decode(array[i]));
            const exact = values.reduce((a, b) =>
              op === "sum" ? a + b : op === "prod" ? a * b : op === "max" ? Math.max(a, b) : Math.min(a, b),
            );
            const scale = Math.max(1, Math.abs(exact));
            worst = Math.max(worst, Math.abs(decode(got[i]) - exact) / scale);
          }
          expect(worst).toBeLessThanOrEqual(tolerance);
        }
      }
    },
  );

  it.each(["float32", "float16", "bfloat16", "float64"] as const)(
    "adds %s in its documented order: 20 runs give the same bits, whatever the chunk and the order of deliveries",
    async (dtype) => {
      const reduction = { nranks: 4, algo, dtype, op: ReduceOp.Sum, size: 1031 };
      const golden = bytesOf(expected(reduction));
      for (let seed = 0; seed < 20; seed++) {
        const meshChunkBytes = [64, 1000, 2 ** 23][seed % 3]!;
        const lanes = algo === "mesh" ? { coreNum: 1 + (seed % 5), S: 5 } : {};
        for (const bytes of await reduce({ ...reduction, ...lanes, seed, meshChunkBytes })) {
          expect(Buffer.compare(bytes, golden)).toBe(0);
        }
      }
    },
  );

  it.each([1, 2, 3, 4, 7, 8])("takes any length on %i ranks, none too", async (nranks) => {
    for (const size of [0, 1, nranks - 1, nranks, nranks + 1, 255, 256, 257]) {
      const reduction = { nranks, algo, dtype: "int16", op: ReduceOp.Sum, size } as const;
      for (const bytes of await reduce(reduction)) {
        expect(Buffer.compare(bytes, bytesOf(expected(reduction)))).toBe(0);
      }
    }
  });
});

describe("allreduce lanes", () => {
  it.each([
    [2, 2, 1, 2],
    [2, 4, 4127, 6],
    [4, 2, 1041, 2],
    [3, 5, 256, 5],
    [3, 3, 1537, 3],
  ])("on P = %i with %i lanes reduce %i elements on a signal of %i columns", async (nranks, coreNum, size, S) => {
    for (const meshChunkBytes of [1024, 2048, 2 ** 23]) {
      const reduction = { nranks, algo: "mesh", dtype: "float32", op: ReduceOp.Sum, size } as const;
      for (const bytes of await reduce({ ...reduction, coreNum, S, meshChunkBytes })) {
        expect(Buffer.compare(bytes, bytesOf(expected(reduction)))).toBe(0);
      }
    }
  });

  it("count the rounds of the call, not of each lane", async () => {
    const main = async (comm: Comm): Promise<void> => {
      const data = await comm.window("data", "float32", [256 * 7 + 3]);
      const signal = await comm.signal("signal", [2, 3]);
      await comm.allReduce(data, signal, { coreNum: 3 });
    };
    // lane 0 has tiles 0, 3 and 6, lane 1 has 1, 4 and the short one
    const { states } = await run(2, main, { limits: { meshChunkBytes: 1024 } });
    for (const { counters } of states) expect(counters.barriers).toBe(1 + 3);
    for (const { counters } of states) expect(counters.payloadBytesReceived).toBe((256 * 7 + 3) * 4);
  });
});

describe("in an arena", () => {
  const arena = new Arena(1024 * 1024);

  it.each(["mesh", "ring"] as const)("%s gives the same bits, and gives all scratch back", async (algo) => {
    for (const dtype of ["float32", "float16", "bfloat16", "float64"] as const) {
      for (const op of ops) {
        const reduction: Reduction = { nranks: 3, algo, dtype, op, size: 2049, meshChunkBytes: 1000 };
        const lanes = algo === "mesh" && op === "sum" ? { coreNum: 2, S: 2 } : {};
        const plain = await reduce({ ...reduction, ...lanes });
        const before = arena.lentBytes;
        expect(await reduce({ ...reduction, ...lanes, arena })).toEqual(plain);
        // the first kernel keeps its table of addresses
        if (before > 0) expect(arena.lentBytes).toBe(before);
      }
    }
    expect(arena.lentBytes).toBe(4096);
  });
});

describe("reduceInto", () => {
  const reduced = (dtype: DType, op: ReduceOp, ...operands: (readonly number[])[]): oracle.Block => {
    const blocks = operands.map((values) => {
      const data = oracle.block(dtype, values.length);
      values.forEach((value, i) => {
        oracle.put(data, i, value);
      });
      return data;
    });
    const result = oracle.block(dtype, operands[0]!.length);
    reduceInto(dtype, op, bytesOf(result), blocks.map(bytesOf));
    return result;
  };

  it.each([
    ["float32", 4],
    ["float64", 8],
    ["float16", 2],
    ["bfloat16", 2],
  ] as const)("gives one NaN of %s, whatever NaNs and infinities it got", (dtype, size) => {
    const operands = [
      [Number.NaN, Infinity, -Infinity, 0, 1],
      [1, -Infinity, Infinity, Number.NaN, 2],
    ];
    const { array } = reduced(dtype, "sum", ...operands);
    const bytes = bytesOf({ dtype, array });
    const nan = bytes.slice(0, size);
    expect(nan.at(-1)).toBe(dtype === "float16" ? 0x7e : 0x7f);
    for (let i = 1; i < 4; i++) expect(bytes.slice(i * size, (i + 1) * size)).toEqual(nan);
    expect(bytes.slice(4 * size)).not.toEqual(nan);
  });

  it("wraps integers", () => {
    expect([...reduced("int8", "sum", [127], [1], [1]).array]).toEqual([-127]);
    expect([...reduced("uint8", "prod", [16], [17]).array]).toEqual([16]);
    expect([...reduced("int32", "prod", [65_537], [65_537]).array]).toEqual([131_073]);
    expect([...reduced("int16", "sum", [32_767], [1]).array]).toEqual([-32_768]);
    const far = 2 ** 62;
    expect([...reduced("int64", "sum", [far], [far]).array]).toEqual([-(2n ** 63n)]);
  });

  it("rounds half types once: what float16 steps would lose is kept", () => {
    // 2048 + 1 is 2048 in float16, 2048 + 1 + 1 is not
    expect(fromFloat16(Number(reduced("float16", "sum", [2048], [1], [1]).array[0]))).toBe(2050);
  });
});
