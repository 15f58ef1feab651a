/** What indexed_all_to_all_v refuses before anything moves, and what ends the group. */
import { describe, expect, it } from "vitest";
import type { Comm } from "../../../../rank/comm.ts";
import type { IndexedAllToAllVOptions } from "../../../../rank/collectives/indexed-all-to-all-v.ts";
import type { Tensor } from "../../../../rank/memory/tensor.ts";
import type { Signal, Window } from "../../../../rank/window.ts";
import { platforms } from "../../../../shared/config.ts";
import type { ErrorCode } from "../../../../shared/errors.ts";
import { range } from "../../../helpers/ranks.ts";
import { errorOf, fails, run } from "../../../helpers/sim.ts";

const P = 2;
const C = 4;
const H = 2;
const NMAX = 6;

interface Parts {
  input: Tensor<"int8">;
  target: Window<"int8">;
  signal: Signal;
  options: IndexedAllToAllVOptions & {
    sendCounts: Window<"int32">;
    recvCounts: Tensor<"int32">;
    index: Tensor<"int32">;
  };
}

async function prepare(comm: Comm, suffix = ""): Promise<Parts> {
  const { nranks } = comm;
  return {
    input: comm.tensor("int8", [NMAX, H]),
    target: await comm.window(`target${suffix}`, "int8", [nranks * C, H]),
    signal: await comm.signal(`signal${suffix}`, [nranks, 2]),
    options: {
      sendCounts: await comm.window(`counts${suffix}`, "int32", [nranks, 1]),
      recvCounts: comm.tensor("int32", [nranks, 1]),
      index: comm.tensor("int32", [nranks, C]),
      coreNum: 2,
    },
  };
}

function call(comm: Comm, { input, target, signal, options }: Parts): Promise<void> {
  return comm.indexedAllToAllV(input, target, signal, options);
}

/** A call that every rank is refused; afterwards the same group does it right, under the number that was not used up. */
async function refused(
  change: (comm: Comm, parts: Parts) => unknown,
  code: ErrorCode,
  message: string | RegExp,
): Promise<void> {
  const messages: string[] = [];
  const { states } = await run(P, async (comm) => {
    const parts = await prepare(comm);
    const { input, target, signal, options } = parts;
    const changed = { input, target, signal, options: { ...options } };
    await change(comm, changed);
    const error = await errorOf(() => call(comm, changed));
    messages.push(`${error.code}: ${error.message}`);
    const credits = await comm.signal("credits", [P, 1]);
    await comm.barrier(credits);
    expect(target.local.array.every((element) => element === 0)).toBe(true);
    options.sendCounts.local.array.fill(C);
    await call(comm, parts);
    expect([...options.recvCounts.array]).toEqual([C, C]);
  });
  for (const text of messages) {
    expect(text.startsWith(`${code}: indexed_all_to_all_v: `), text).toBe(true);
    expect(text).toMatch(message);
  }
  for (const { counters } of states) expect(counters.payloadBytesSent).toBe(C * H);
}

/** Memory of two pieces that overlap by some bytes. */
function overlapping(
  first: number,
  second: number,
  shared: number,
): [Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>] {
  const buffer = new ArrayBuffer(first + second);
  return [new Uint8Array(buffer, 0, first), new Uint8Array(buffer, first - shared, second)];
}

function asInt32(bytes: Uint8Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  return new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
}

function asInt8(bytes: Uint8Array<ArrayBuffer>): Int8Array<ArrayBuffer> {
  return new Int8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

describe("arguments", () => {
  it.each<[string, ErrorCode, string | RegExp, (comm: Comm, parts: Parts) => unknown]>([
    [
      "a private target",
      "ERR_NOT_A_WINDOW",
      "target must be a window",
      (comm, parts) => (parts.target = comm.tensor("int8", [P * C, H]) as never),
    ],
    [
      "the signal as target",
      "ERR_NOT_A_WINDOW",
      'target is signal "signal"',
      (_, parts) => (parts.target = parts.signal as never),
    ],
    [
      "private sendCounts",
      "ERR_NOT_A_WINDOW",
      "sendCounts must be a window",
      (comm, parts) => (parts.options.sendCounts = comm.tensor("int32", [P, 1]) as never),
    ],
    [
      "sendCounts that is the local part of a window",
      "ERR_NOT_A_WINDOW",
      "sendCounts must be a window",
      (_, parts) => (parts.options.sendCounts = parts.options.sendCounts.local as never),
    ],
    [
      "sendCounts of another shape",
      "ERR_SHAPE_MISMATCH",
      "sendCounts must be a packed int32 tensor [2, 1], got int32 [2]",
      async (comm, parts) => (parts.options.sendCounts = await comm.window("flat", "int32", [P])),
    ],
    [
      "sendCounts of another dtype",
      "ERR_DTYPE_MISMATCH",
      "sendCounts must be a packed int32 tensor [2, 1], got float32",
      async (comm, parts) => (parts.options.sendCounts = (await comm.window("floats", "float32", [P, 1])) as never),
    ],
    [
      "recvCounts of another shape",
      "ERR_SHAPE_MISMATCH",
      "recvCounts must be",
      (comm, parts) => (parts.options.recvCounts = comm.tensor("int32", [1, P])),
    ],
    [
      "recvCounts that is a window",
      "ERR_INVALID_ARGUMENT",
      "recvCounts must be a tensor",
      async (comm, parts) => (parts.options.recvCounts = (await comm.window("received", "int32", [P, 1])) as never),
    ],
    [
      "an index of another dtype",
      "ERR_DTYPE_MISMATCH",
      "index must be a packed int32 tensor [2, C], got int64",
      (comm, parts) => (parts.options.index = comm.tensor("int64", [P, C]) as never),
    ],
    [
      "an index for another number of ranks",
      "ERR_SHAPE_MISMATCH",
      "index must be a packed int32 tensor [2, C], got int32 [3, 4]",
      (comm, parts) => (parts.options.index = comm.tensor("int32", [P + 1, C])),
    ],
    [
      "an index with strides",
      "ERR_INVALID_ARGUMENT",
      "index must be a tensor",
      (_, parts) => (parts.options.index = { dtype: "int32", shape: [P, C], strides: [8, 2] } as never),
    ],
    [
      "an input of another dtype",
      "ERR_DTYPE_MISMATCH",
      'input is uint8, target "target" is int8',
      (comm, parts) => (parts.input = comm.tensor("uint8", [NMAX, H]) as never),
    ],
    [
      "rows of another dtype",
      "ERR_UNSUPPORTED",
      "rows are float32 or int8 (view other dtypes as int8)",
      async (comm, parts) => {
        parts.target = (await comm.window("halves", "bfloat16", [P * C, H])) as never;
        parts.input = comm.tensor("bfloat16", [NMAX, H]) as never;
      },
    ],
    [
      "another H",
      "ERR_SHAPE_MISMATCH",
      'input [6, 3] must be [Nmax, H] and target "target" [8, 2] [P·C, H] with P·C = 8',
      (comm, parts) => (parts.input = comm.tensor("int8", [NMAX, H + 1])),
    ],
    [
      "another C",
      "ERR_SHAPE_MISMATCH",
      "with P·C = 10",
      (comm, parts) => (parts.options.index = comm.tensor("int32", [P, C + 1])),
    ],
    [
      "an input of three dimensions",
      "ERR_SHAPE_MISMATCH",
      "must be [Nmax, H]",
      (comm, parts) => (parts.input = comm.tensor("int8", [NMAX, H, 1])),
    ],
    [
      "no signal",
      "ERR_NOT_A_SIGNAL",
      "signal must come from comm.signal",
      (_, parts) => (parts.signal = parts.target as never),
    ],
    [
      "fewer signal columns than lanes",
      "ERR_SHAPE_MISMATCH",
      'signal "signal" [2, 2] must have at least [2, 3] cells',
      (_, parts) => (parts.options = { ...parts.options, coreNum: 3 }),
    ],
    ...[0, -1, 1.5, Number.NaN, "2"].map(
      (coreNum): [string, ErrorCode, string, (comm: Comm, parts: Parts) => unknown] => [
        `coreNum ${JSON.stringify(coreNum)}`,
        "ERR_INVALID_ARGUMENT",
        "coreNum: the number of lanes must be an integer > 0, got",
        (_, parts) => (parts.options = { ...parts.options, coreNum: coreNum as number }),
      ],
    ),
    ...(["queueMode:SHARED_POOL", "queueMode:shared_pool", "level:in_core", "engine:remote_mte"] as const).map(
      (choice): [string, ErrorCode, RegExp, (comm: Comm, parts: Parts) => unknown] => {
        const [name = "", value = ""] = choice.split(":");
        return [
          choice,
          "ERR_UNSUPPORTED",
          new RegExp(`${name} "${value}" is not supported; ${name} "\\w+" is`, "u"),
          (_, parts) => (parts.options = { ...parts.options, [name]: value }),
        ];
      },
    ),
  ])("%s", async (_name, code, message, change) => {
    await refused(change, code, message);
  });

  it("a window of another group", async () => {
    await run(P, async (comm) => {
      const parts = await prepare(comm);
      const other = comm.group([1, 0]);
      const signal = await other.signal("signal", [P, 2]);
      expect(await errorOf(() => call(other, { ...parts, signal }))).toMatchObject({ code: "ERR_FOREIGN_GROUP" });
    });
  });

  it("more lanes than the platform has", async () => {
    const { lanesMax } = platforms.a5sim;
    await run(P, async (comm) => {
      const parts = await prepare(comm);
      const signal = await comm.signal("wide", [P, lanesMax + 1]);
      const wide = (coreNum: number): Promise<void> =>
        call(comm, { ...parts, signal, options: { ...parts.options, coreNum } });
      const error = await errorOf(() => wide(lanesMax + 1));
      expect(error.code).toBe("ERR_LIMIT");
      expect(error.message).toContain(`${lanesMax + 1} lanes exceed the platform's limit of ${lanesMax}`);
      await wide(lanesMax);
    });
  });

  it("a platform that does not have it", async () => {
    const { failure, states } = await platformRun("a2a3sim");
    expect(failure?.error.message).toBe("indexed_all_to_all_v: platform a2a3sim does not have it; -p a5sim does");
    expect(failure?.error.code).toBe("ERR_UNSUPPORTED");
    for (const { counters } of states) expect(counters.payloadBytesSent).toBe(0);
  });

  async function platformRun(platform: "a2a3sim") {
    const { simulate } = await import("../../../../rank/simulate.ts");
    const main = async (comm: Comm): Promise<void> => call(comm, await prepare(comm));
    return await simulate({ nranks: P, seed: 1, main, settings: { platform } });
  }
});

describe("buffers that share memory", () => {
  const inputBytes = NMAX * H;
  const indexBytes = P * C * 4;
  const countBytes = P * 4;

  it.each<[string, string, string, (comm: Comm, parts: Parts) => unknown]>([
    ["input", "target", "wholly", (_, p) => (p.input = p.target.local.view("int8", [P * C, H]) as never)],
    ["input", "target", "partly", (_, p) => (p.input = p.target.local.view("int8", [1, H], H))],
    ["input", "sendCounts", "partly", (_, p) => (p.input = p.options.sendCounts.local.view("int8", [1, H], 3))],
    ["input", "signal", "partly", (_, p) => (p.input = p.signal.local.view("int8", [2, H], 5))],
    [
      "input",
      "recvCounts",
      "partly",
      (comm, p) => {
        const [input, counts] = overlapping(inputBytes, countBytes, 4);
        p.input = comm.tensor("int8", [NMAX, H], asInt8(input));
        p.options.recvCounts = comm.tensor("int32", [P, 1], asInt32(counts));
      },
    ],
    [
      "input",
      "index",
      "partly",
      (comm, p) => {
        const [input, index] = overlapping(inputBytes, indexBytes, 4);
        p.input = comm.tensor("int8", [NMAX, H], asInt8(input));
        p.options.index = comm.tensor("int32", [P, C], asInt32(index));
      },
    ],
    ["target", "recvCounts", "partly", (_, p) => (p.options.recvCounts = p.target.local.view("int32", [P, 1], 4))],
    [
      "target",
      "index",
      "partly",
      async (comm, p) => {
        p.target = await comm.window("wide", "int8", [P * C, 4]);
        p.input = comm.tensor("int8", [NMAX, 4]);
        p.options.index = p.target.local.view("int32", [P, C]);
      },
    ],
    ["sendCounts", "recvCounts", "wholly", (_, p) => (p.options.recvCounts = p.options.sendCounts.local)],
    [
      "sendCounts",
      "recvCounts",
      "by an array over the window's memory",
      (comm, p) => {
        const { buffer, byteOffset } = p.options.sendCounts.local.array;
        p.options.recvCounts = comm.tensor("int32", [P, 1], new Int32Array(buffer, byteOffset, P));
      },
    ],
    [
      "sendCounts",
      "index",
      "wholly",
      async (comm, p) => {
        p.target = await comm.window("narrow", "int8", [P, H]);
        p.options.index = p.options.sendCounts.local.view("int32", [P, 1]);
      },
    ],
    [
      "recvCounts",
      "index",
      "partly",
      (comm, p) => {
        const [counts, index] = overlapping(countBytes, indexBytes, 4);
        p.options.recvCounts = comm.tensor("int32", [P, 1], asInt32(counts));
        p.options.index = comm.tensor("int32", [P, C], asInt32(index));
      },
    ],
    ["recvCounts", "signal", "wholly", (_, p) => (p.options.recvCounts = p.signal.local.view("int32", [P, 1]))],
    ["recvCounts", "signal", "partly", (_, p) => (p.options.recvCounts = p.signal.local.view("int32", [P, 1], 8))],
    [
      "index",
      "signal",
      "wholly",
      async (comm, p) => {
        p.target = await comm.window("two", "int8", [P * 2, H]);
        p.options.index = p.signal.local.view("int32", [P, 2]);
      },
    ],
  ])("%s and %s, %s", async (first, second, _how, change) => {
    await refused(change, "ERR_ALIASED_BUFFERS", `${first} and ${second} share memory; use two buffers`);
  });

  it("sendCounts and the signal, target and sendCounts: one cannot be the other", async () => {
    await refused(
      (_, p) => (p.options.sendCounts = p.signal as never),
      "ERR_NOT_A_WINDOW",
      'sendCounts is signal "signal"; data goes into a window',
    );
    await refused((_, p) => (p.options.sendCounts = p.target as never), "ERR_DTYPE_MISMATCH", "sendCounts must be");
  });

  it("side by side is legal", async () => {
    await run(P, async (comm) => {
      const parts = await prepare(comm);
      const [counts, index] = overlapping(countBytes, indexBytes, 0);
      parts.options.recvCounts = comm.tensor("int32", [P, 1], asInt32(counts));
      parts.options.index = comm.tensor("int32", [P, C], asInt32(index));
      parts.options.sendCounts.local.array.fill(C);
      await call(comm, parts);
      expect([...parts.options.recvCounts.array]).toEqual([C, C]);
    });
  });
});

describe("values that end the group", () => {
  /** Rank 1 does something wrong that only it can see. */
  async function ends(change: (parts: Parts) => unknown): Promise<string> {
    const failure = await fails(3, async (comm) => {
      const parts = await prepare(comm);
      parts.options.sendCounts.local.array.fill(C);
      if (comm.rank === 1) change(parts);
      await call(comm, parts);
      throw new Error("no rank may come out of the call");
    });
    expect(failure.call).toBe("indexed_all_to_all_v #1");
    expect(failure.error.context).toMatchObject({ rank: 1, collective: "indexed_all_to_all_v", seq: 1 });
    return `${failure.error.code}: ${failure.error.message}`;
  }

  it.each([-1, C + 1, -(2 ** 31), 2 ** 31 - 1])("a count of %i", async (count) => {
    for (const destination of range(3)) {
      expect(await ends(({ options }) => (options.sendCounts.local.array[destination] = count))).toMatch(
        `ERR_OUT_OF_BOUNDS: indexed_all_to_all_v #1: rank 1: count ${count} for destination ${destination} (sendCounts slot ${destination}) is outside [0, ${C}]; sendCounts are [`,
      );
    }
  });

  it.each([-1, NMAX, -(2 ** 31), 2 ** 31 - 1])("an index of %i inside the count", async (row) => {
    for (const [destination, slot] of [
      [0, 0],
      [1, 2],
      [2, C - 1],
    ] as const) {
      // prettier-ignore
      expect(await ends(({ options }) => (options.index.array[destination * C + slot] = row))).toBe(
        `ERR_OUT_OF_BOUNDS: indexed_all_to_all_v #1: rank 1: index ${row} in slot ${slot} for destination ${destination} is outside [0, ${NMAX})`,
      );
    }
  });

  it("any row of an input that has none", async () => {
    await run(P, async (comm) => {
      const parts = await prepare(comm);
      parts.input = comm.tensor("int8", [0, H]);
      await call(comm, parts);
    });
    expect(await ends((parts) => (parts.input = parts.input.view("int8", [0, H])))).toContain(
      "index 0 in slot 0 for destination 0 is outside [0, 0)",
    );
  });

  it("a count that is not the expected one", async () => {
    const expected = (comm: Comm, count: number): Tensor<"int32"> =>
      comm.tensor("int32", [comm.nranks, 1], new Int32Array(comm.nranks).fill(count));
    const main =
      (wrong: number) =>
      async (comm: Comm): Promise<void> => {
        const parts = await prepare(comm);
        parts.options.sendCounts.local.array.fill(3);
        const expectedRecvCounts = expected(comm, 3);
        if (comm.rank === 1) expectedRecvCounts.array[0] = wrong;
        await call(comm, { ...parts, options: { ...parts.options, expectedRecvCounts } });
        expect([...parts.options.recvCounts.array]).toEqual([3, 3]);
      };
    await run(P, main(3));
    const failure = await fails(P, main(2));
    expect(`${failure.error.code}: ${failure.error.message}`).toBe(
      "ERR_MISMATCH: indexed_all_to_all_v #1: rank 1: rank 0 sends 3 rows, expectedRecvCounts says 2",
    );
  });

  it("another launch width, and another call", async () => {
    for (const options of [{ coreNum: 1 }, undefined]) {
      const failure = await fails(3, async (comm) => {
        const parts = await prepare(comm);
        const other = { ...parts, options: { ...parts.options, ...options } };
        if (comm.rank !== 1) await call(comm, parts);
        else await (options === undefined ? comm.barrier(parts.signal) : call(comm, other));
      });
      expect(failure.error.code).toBe("ERR_MISMATCH");
    }
  });
});

describe("two calls in flight on one rank", () => {
  it.each(["with windows and signals of their own", "on the same ones"])("%s: a conflict", async (how) => {
    const { states } = await run(P, async (comm) => {
      const first = await prepare(comm);
      const second = how === "on the same ones" ? first : await prepare(comm, "2");
      first.options.sendCounts.local.array.fill(C);
      const task = call(comm, first);
      const error = await errorOf(() => call(comm, second));
      expect(error.code).toBe("ERR_QUEUE_CONFLICT");
      expect(error.message).toContain("pass { after: task } to run after it");
      await task;
      expect([...first.options.recvCounts.array]).toEqual([C, C]);
      await call(comm, second); // nothing is in flight any more
    });
    for (const { counters } of states) {
      expect(counters.payloadBytesSent).toBe((how === "on the same ones" ? 2 : 1) * C * H);
    }
  });

  it("in overlapping groups: a conflict too", async () => {
    await run(P, async (comm) => {
      const first = await prepare(comm);
      const other = comm.group([1, 0]);
      const second = await prepare(other, "2");
      const task = call(comm, first);
      expect((await errorOf(() => call(other, second))).code).toBe("ERR_QUEUE_CONFLICT");
      await task;
    });
  });

  it("one after the other: both", async () => {
    await run(3, async (comm) => {
      const first = await prepare(comm);
      const second = await prepare(comm, "2");
      first.options.sendCounts.local.array.fill(2);
      second.options.sendCounts.local.array.fill(3);
      const after = call(comm, first);
      const last = call(comm, { ...second, options: { ...second.options, after } });
      const third = call(comm, { ...first, options: { ...first.options, after: last } });
      await Promise.all([after, last, third]);
      expect([...first.options.recvCounts.array]).toEqual([2, 2, 2]);
      expect([...second.options.recvCounts.array]).toEqual([3, 3, 3]);
    });
  });

  it("beside another collective: fine, unless they share a buffer", async () => {
    await run(P, async (comm) => {
      const parts = await prepare(comm);
      const data = await comm.window("data", "int8", [P, 4]);
      const credits = await comm.signal("credits", [P, 1]);
      await Promise.all([call(comm, parts), comm.allToAll(comm.tensor("int8", [P, 4]), data, credits)]);
      const task = call(comm, parts);
      const whole = comm.tensor("int8", [P * C, H]);
      const error = await errorOf(() => comm.allToAll(whole, parts.target, credits));
      expect(["ERR_BUFFER_CONFLICT", "ERR_SHAPE_MISMATCH"]).toContain(error.code);
      await task;
    });
  });
});

describe("groups", () => {
  it("ranks, counts and slots are those of the group, in its order", async () => {
    await run(4, async (comm) => {
      if (comm.rank === 1) return;
      const members = [3, 0, 2];
      const group = comm.group(members);
      const { rank, nranks } = group;
      const parts = await prepare(group);
      for (const d of range(nranks)) {
        parts.options.sendCounts.local.array[d] = d + 1;
        for (const j of range(C)) parts.options.index.array[d * C + j] = (d + j) % NMAX;
      }
      for (const i of range(NMAX * H)) parts.input.array[i] = 20 * comm.rank + Math.floor(i / H);
      await call(group, parts);
      expect([...parts.options.recvCounts.array]).toEqual(range(nranks).map(() => rank + 1));
      for (const s of range(nranks)) {
        for (const j of range(C)) {
          const element = parts.target.local.array[(s * C + j) * H];
          expect(element).toBe(j <= rank ? 20 * members[s]! + ((rank + j) % NMAX) : 0);
        }
      }
    });
  });
});
