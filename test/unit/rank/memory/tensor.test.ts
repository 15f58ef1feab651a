import { describe, expect, it } from "vitest";
import { checkTensor, makeTensor, sharesMemory, Tensor } from "../../../../rank/memory/tensor.ts";
import { type DType, dtypes } from "../../../../shared/dtype.ts";
import { expectRefusal } from "../../../helpers/sim.ts";

const names = Object.keys(dtypes) as DType[];

describe("makeTensor", () => {
  it.each(names)("makes zeros of %s", (dtype) => {
    const tensor = makeTensor(dtype, [2, 3]);
    expect(tensor.array).toBeInstanceOf(dtypes[dtype].array);
    expect([...tensor.array].map(Number)).toEqual([0, 0, 0, 0, 0, 0]);
    expect(tensor.bytes.byteLength).toBe(6 * dtypes[dtype].bytes);
    expect(tensor).toMatchObject({ dtype, shape: [2, 3] });
  });

  it("takes lengths of 0", () => {
    expect(makeTensor("float64", [0, 5]).array).toHaveLength(0);
  });

  // views into one buffer are how programs carve tensors out of memory that they already have
  it("wraps a view, honouring its byteOffset and length, and copies nothing", () => {
    const whole = Float32Array.from([0, 1, 2, 3, 4, 5, 6, 7]);
    const tensor = makeTensor("float32", [2, 2], whole.subarray(3, 7));
    expect([...tensor.array]).toEqual([3, 4, 5, 6]);
    expect([tensor.bytes.byteOffset, tensor.bytes.byteLength]).toEqual([12, 16]);
    tensor.array[0] = 99;
    expect(whole[3]).toBe(99);
    tensor.bytes.fill(0);
    expect([...whole]).toEqual([0, 1, 2, 0, 0, 0, 0, 7]);
  });

  it("holds float16 and bfloat16 as their bits and int64 as BigInt", () => {
    expect(makeTensor("bfloat16", [1], Uint16Array.of(0x3f80)).array[0]).toBe(0x3f80);
    expect(makeTensor("int64", [1], BigInt64Array.of(-1n)).array[0]).toBe(-1n);
  });

  it("refuses an array of another length", async () => {
    const error = await expectRefusal(
      () => makeTensor("int32", [2, 2], new Int32Array(5)),
      "ERR_SHAPE_MISMATCH",
      "array",
    );
    expect(error.message).toBe("tensor: shape [2, 2] has 4 elements, the array has 5");
  });

  it("refuses a strided array", async () => {
    const strided = { data: new Float32Array(8), shape: [2, 2], stride: [4, 1] };
    const error = await expectRefusal(
      () => makeTensor("float32", [2, 2], strided as unknown as Float32Array<ArrayBuffer>),
      "ERR_NOT_CONTIGUOUS",
      "array",
    );
    expect(error.message).toContain("copy it into a typed array");
  });

  it.each([
    ["another typed array", new Float64Array(4)],
    ["the right size of another kind", new Int32Array(4)],
    ["a plain list", [1, 2, 3, 4]],
    ["a buffer", new ArrayBuffer(16)],
    ["null", null],
  ])("refuses %s", async (_, array) => {
    await expectRefusal(() => makeTensor("float32", [4], array as never), "ERR_INVALID_ARGUMENT", "array");
  });

  it("refuses a wrong dtype or shape", async () => {
    await expectRefusal(() => makeTensor("FP32" as DType, [4]), "ERR_INVALID_ARGUMENT", "dtype");
    await expectRefusal(() => makeTensor("int8", [4, -1]), "ERR_INVALID_ARGUMENT", "shape");
  });

  it("says so when the platform does not grant the memory", async () => {
    const error = await expectRefusal(() => makeTensor("int8", [2 ** 52]), "ERR_SIZE_LIMIT");
    expect(error.message).toContain(String(2 ** 52));
    await expectRefusal(() => makeTensor("int64", [2 ** 51]), "ERR_SIZE_LIMIT");
  });
});

describe("view", () => {
  const base = makeTensor("int32", [6], Int32Array.of(0x04030201, 2, 3, 4, 5, 6));

  it("is the same memory under another shape or dtype", () => {
    expect([...base.view("int32", [2, 2], 8).array]).toEqual([3, 4, 5, 6]);
    const bytes = base.view("uint8", [4]);
    expect([...bytes.array]).toEqual([1, 2, 3, 4]);
    expect(bytes.array.buffer).toBe(base.array.buffer);
  });

  it("counts its byteOffset from the tensor, not from the buffer", () => {
    const inside = makeTensor("int32", [4], base.array.subarray(2));
    expect([...inside.view("int32", [1], 4).array]).toEqual([4]);
  });

  it("may reach the tensor's last byte and be empty there", () => {
    expect(base.view("int16", [2], 20).array).toHaveLength(2);
    expect(base.view("int16", [0], 24).array).toHaveLength(0);
  });

  it.each([
    ["beyond the end", [4], 12],
    ["from behind the end", [0], 25],
    ["from before the start", [1], -4],
    ["from a fraction of a byte", [1], 0.5],
    ["from no number", [1], Number.NaN],
    ["from a text", [1], "4" as unknown as number],
  ])("refuses to reach %s", async (_, shape, byteOffset) => {
    await expectRefusal(() => base.view("int32", shape, byteOffset), "ERR_OUT_OF_BOUNDS", "byteOffset");
  });

  it("refuses to start between two elements, counting from the memory's start", async () => {
    await expectRefusal(() => base.view("int32", [1], 2), "ERR_NOT_CONTIGUOUS", "byteOffset");
    const odd = makeTensor("uint8", [16], new Uint8Array(17).subarray(1));
    await expectRefusal(() => odd.view("int16", [1], 2), "ERR_NOT_CONTIGUOUS", "byteOffset");
    expect(odd.view("int16", [1], 1).array).toHaveLength(1);
  });
});

describe("sharesMemory", () => {
  const bytes = new Uint8Array(16);

  it("knows overlap from neighbourhood and from other memory", () => {
    expect(sharesMemory(bytes.subarray(0, 8), bytes.subarray(7, 9))).toBe(true);
    expect(sharesMemory(bytes.subarray(4, 6), bytes)).toBe(true);
    expect(sharesMemory(bytes.subarray(0, 8), bytes.subarray(8))).toBe(false);
    expect(sharesMemory(bytes, bytes.slice())).toBe(false);
  });
});

describe("checkTensor", () => {
  it("takes tensors, and names the argument that is none", async () => {
    const tensor = makeTensor("int8", [1]);
    expect(checkTensor("put", "source", tensor)).toBe(tensor);
    expect(tensor).toBeInstanceOf(Tensor);
    for (const other of [new Int8Array(1), undefined, null, { dtype: "int8" }, 5]) {
      await expectRefusal(() => checkTensor("put", "source", other), "ERR_INVALID_ARGUMENT", "source");
    }
  });
});
