/** The buffers of an exchange, for programs that make a mistake with them. */
import type { Comm, IndexedAllToAllVOptions, Signal, Tensor, Window } from "rankwise";

/** Buffers of indexed_all_to_all_v with 16 input rows of 8 elements and 6 slots a rank, counts 6, rows 0, 1, 2, … */
export interface IndexedBuffers {
  readonly input: Tensor<"float32">;
  readonly target: Window<"float32">;
  readonly credits: Signal;
  readonly options: IndexedAllToAllVOptions;
}

export async function indexedBuffers(comm: Comm, capacity = 6, name = ""): Promise<IndexedBuffers> {
  const { rank, nranks } = comm;
  const input = comm.tensor("float32", [16, 8]);
  for (let i = 0; i < input.array.length; i++) input.array[i] = 1000 * rank + 10 * Math.floor(i / 8) + (i % 8);
  const target = await comm.window(`target${name}`, "float32", [nranks * capacity, 8]);
  const credits = await comm.signal(`credits${name}`, [nranks, 2]);
  const sendCounts = await comm.window(`counts${name}`, "int32", [nranks, 1]);
  sendCounts.local.array.fill(capacity);
  const recvCounts = comm.tensor("int32", [nranks, 1]);
  const index = comm.tensor("int32", [nranks, capacity]);
  for (let i = 0; i < index.array.length; i++) index.array[i] = (i % capacity) % 16;
  return { input, target, credits, options: { sendCounts, recvCounts, index, coreNum: 2 } };
}

/** Buffers of all_to_all_v with partitions of 4 rows of 16 elements, of which rank d gets min(P − d, 4). */
export interface VariableBuffers {
  readonly input: Tensor<"float32">;
  readonly target: Window<"float32">;
  readonly credits: Signal;
  readonly options: { readonly sendCounts: Tensor<"int32">; readonly recvCounts: Tensor<"int32"> };
}

export async function variableBuffers(comm: Comm): Promise<VariableBuffers> {
  const { rank, nranks } = comm;
  const input = comm.tensor("float32", [nranks * 4, 16]);
  input.array.fill(rank + 1);
  const target = await comm.window("target", "float32", [nranks * 4, 16]);
  const credits = await comm.signal("credits", [nranks, 1]);
  const sendCounts = comm.tensor("int32", [nranks]);
  for (let d = 0; d < nranks; d++) sendCounts.array[d] = nranks - d;
  return { input, target, credits, options: { sendCounts, recvCounts: comm.tensor("int32", [nranks]) } };
}
