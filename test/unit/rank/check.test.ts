import { describe, expect, it } from "vitest";
import type { Comm } from "../../../rank/comm.ts";
import { FrameKind } from "../../../shared/frame.ts";
import { errorOf, expectRefusal, fails, Rig, run, settled, turn } from "../../helpers/sim.ts";

describe("check", () => {
  it("takes an array, a typed array or a function of the index", async () => {
    const rig = new Rig({ nranks: 1 });
    const x = rig.comm.tensor("int32", [2, 3], Int32Array.of(0, 1, 2, 10, 11, 12));
    await rig.comm.check(x, [0, 1, 2, 10, 11, 12]);
    await rig.comm.check(x, Int32Array.of(0, 1, 2, 10, 11, 12));
    await rig.comm.check(x, (i: number, j: number) => i * 10 + j);
    await rig.comm.check(await rig.window("zero", "float64", [2]), [0, 0]);
  });

  it("names rank, row and element, what was got and what was expected", async () => {
    const rig = new Rig({ nranks: 1 });
    const x = rig.comm.tensor("int32", [2, 3], Int32Array.of(0, 1, 2, 10, 99, 98));
    const error = await errorOf(() => rig.comm.check(x, (i: number, j: number) => i * 10 + j));
    expect(error).toMatchObject({
      code: "ERR_WRONG_DATA",
      message: "rank 0 row 1 holds wrong data; element [1, 1]: got 99, expected 11",
      context: { rank: 0, offset: [1, 1] },
    });
  });

  it("says what a wrong value is, where it can be told", async () => {
    const rig = new Rig({ nranks: 1 });
    const x = rig.comm.tensor("float32", [3, 2], Float32Array.of(0, 1, 100, 101, 310, 311));
    const decode = (value: number | bigint): string =>
      `rank ${Math.floor(Number(value) / 100)}'s chunk for rank ${Math.floor((Number(value) % 100) / 10)}`;
    const error = await errorOf(() => rig.comm.check(x, (i: number, j: number) => i * 100 + j, { decode }));
    expect(error.message).toBe("rank 0 row 2 holds rank 3's chunk for rank 1; element [2, 0]: got 310, expected 200");
  });

  // a golden is computed in float64
  it("rounds a golden to float32 before it compares", async () => {
    const rig = new Rig({ nranks: 1 });
    const x = rig.comm.tensor("float32", [2], Float32Array.of(0.1, 16_777_217));
    await rig.comm.check(x, [0.1, 16_777_217]);
    await expectRefusal(() => rig.comm.check(x, [0.1, 16_777_218]), "ERR_WRONG_DATA");
    await expectRefusal(() => rig.comm.check(rig.comm.tensor("float64", [1]), [1e-300]), "ERR_WRONG_DATA");
  });

  it("takes NaN for NaN, and both zeros for zero", async () => {
    const rig = new Rig({ nranks: 1 });
    const x = rig.comm.tensor("float64", [3], Float64Array.of(Number.NaN, 0, -0));
    await rig.comm.check(x, [Number.NaN, -0, 0]);
    await expectRefusal(() => rig.comm.check(x, [1, 0, 0]), "ERR_WRONG_DATA");
  });

  it("compares int64 with BigInt goldens, and with numbers", async () => {
    const rig = new Rig({ nranks: 1 });
    const x = rig.comm.tensor("int64", [2], BigInt64Array.of(2n ** 60n, -1n));
    await rig.comm.check(x, [2n ** 60n, -1n]);
    await expectRefusal(() => rig.comm.check(x, [2n ** 60n + 1n, -1n]), "ERR_WRONG_DATA");
    await rig.comm.check(rig.comm.tensor("int64", [2], BigInt64Array.of(0n, 1n)), (i: number) => i);
  });

  it("refuses a golden of another length, and what is no golden", async () => {
    const rig = new Rig({ nranks: 2 });
    const x = rig.comm.tensor("int32", [4]);
    await expectRefusal(() => rig.comm.check(x, [0, 0, 0]), "ERR_SHAPE_MISMATCH", "golden");
    for (const golden of [7, undefined, {}, null]) {
      await expectRefusal(() => rig.comm.check(x, golden as never), "ERR_INVALID_ARGUMENT", "golden");
    }
    await expectRefusal(() => rig.comm.check([0] as never, [0]), "ERR_INVALID_ARGUMENT", "tensor");
    expect(rig.sent).toEqual([]);
  });

  it("tells every peer that this rank has come to it, whatever its outcome", async () => {
    const rig = new Rig({ nranks: 3 });
    await rig.comm.check(rig.comm.tensor("int8", [1]), [0]);
    expect(rig.sent.map(({ peer, header }) => [peer, header.kind])).toEqual([
      [1, FrameKind.Checked],
      [2, FrameKind.Checked],
    ]);
  });
});

describe("a second look", () => {
  /** The hand form without the wait in front of the read-back; rank 0 is read too early. */
  const withoutWait = async (comm: Comm): Promise<void> => {
    const { rank, nranks } = comm;
    const data = await comm.window("data", "int32", [nranks, 2]);
    const x = comm.tensor("int32", [1, 2]);
    x.array.fill(rank + 1);
    if (rank === 1) for (let i = 0; i < 50; i++) await turn();
    for (const peer of [rank, ...comm.peers]) await data.put(peer, x, { dstOffset: [rank, 0], shape: [1, 2] });
    await comm.check(data, (source: number) => source + 1);
  };

  it("tells what arrived after it was read from what is wrong", async () => {
    const { error, call } = await fails(4, withoutWait);
    expect(error.code).toBe("ERR_WRONG_DATA");
    expect(error.message).toMatch(/^rank \d row \d arrived after it was read: no wait ordered this read; element \[/u);
    expect(call).toBeNull();
  });

  it("is taken once every peer has checked too, or has left", async () => {
    const rig = new Rig({ nranks: 3 });
    const data = await rig.window("data", "int32", [2]);
    const outcome = errorOf(() => rig.comm.check(data, [5, 0]));
    rig.feed(1, { kind: FrameKind.Checked });
    await turn();
    data.local.array[0] = 5;
    rig.feed(2, { kind: FrameKind.Goodbye });
    expect((await outcome).message).toContain("arrived after it was read");
  });

  it("counts checks: a peer that is one check behind has not come", async () => {
    const rig = new Rig({ nranks: 2 });
    const data = await rig.window("data", "int32", [1]);
    await rig.comm.check(data, [0]);
    rig.feed(1, { kind: FrameKind.Checked });
    const outcome = errorOf(() => rig.comm.check(data, [5]));
    await turn();
    data.local.array[0] = 5;
    rig.feed(1, { kind: FrameKind.Checked });
    expect((await outcome).message).toContain("arrived after it was read");
  });

  it("lets concurrent checks of one rank both see their peers", async () => {
    const rig = new Rig({ nranks: 2 });
    const [a, b] = [await rig.window("a", "int32", [1]), await rig.window("b", "int32", [1])];
    const outcomes = [errorOf(() => rig.comm.check(a, [5])), errorOf(() => rig.comm.check(b, [5]))];
    await turn();
    for (let i = 0; i < 2; i++) rig.feed(1, { kind: FrameKind.Checked });
    // neither has to wait for RECHECK_MS
    expect(await settled(Promise.all(outcomes))).toBe(true);
    for (const outcome of outcomes) expect((await outcome).code).toBe("ERR_WRONG_DATA");
  });

  // every pending call settles within 250 ms of the group's end, this one too
  it("is not waited for once the group has ended", async () => {
    const rig = new Rig({ nranks: 2 });
    const data = await rig.window("data", "int32", [1]);
    const outcome = rig.comm.check(data, [5]);
    await turn();
    rig.end();
    expect(await settled(outcome)).toBe(true);
    await expect(outcome).rejects.toMatchObject({ code: expect.stringMatching(/ERR_(GROUP_ENDED|WRONG_DATA)/u) });
  });

  it("of data that stays wrong says so", async () => {
    const { error } = await fails(2, async (comm) => {
      const x = comm.tensor("int32", [1], Int32Array.of(comm.rank));
      await comm.check(x, [0], { decode: (value) => `rank ${String(value)}'s` });
    });
    expect(error.message).toBe("rank 1 row 0 holds rank 1's; element [0]: got 1, expected 0");
  });

  it("is none where the data was right", async () => {
    await run(3, async (comm) => {
      await comm.check(comm.tensor("int32", [1]), [0]);
    });
  });
});
