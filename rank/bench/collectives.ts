/** Benchmarks of the collectives, from the rows of their table. */
import { elementBytes } from "../../shared/dtype.ts";
import type { Buffers, Cell } from "../collectives/cell.ts";
import type { CollectiveRow } from "../collectives/row.ts";
import { getElement, setElement } from "../collectives/values.ts";
import { type BenchCall, prepareCall, roundOf } from "./calls.ts";
import { type Bench, measure, total } from "./measure.ts";
import { type BenchPlan, type BenchResult, isSized, sampleStep } from "./plan.ts";

/** What no element of a golden is, as bytes of any dtype: a NaN, or -1. Nothing of an earlier call passes for a result. */
const CLEARED = 0xff;

/** Elements by which a call without payload proves itself. */
const PROOF_ELEMENTS = 64;

/** Measures one collective at one size. */
export async function benchCollective(
  bench: Bench,
  row: CollectiveRow,
  bytes: number,
  plan: BenchPlan,
): Promise<BenchResult> {
  const { comm } = bench;
  const { nranks } = comm;
  const { dtype, op, root, check } = plan;
  const sized = isSized(row.name);
  const cell: Cell = { dtype, op, nranks, length: sized ? lengthOf(row, bytes, plan, nranks) : PROOF_ELEMENTS };
  const round = roundOf(row, nranks, root);
  const data = await comm.window("bench.data", dtype, row.dataShape(cell));
  const signal = await comm.signal("bench.signal", row.signalShape(cell));
  const input = comm.tensor(dtype, row.inputShape(cell));
  for (let i = 0; i < input.array.length; i++) setElement(input, i, row.input(cell, comm.rank, i, round));
  if (row.inPlace) data.local.bytes.set(input.bytes);
  const buffers = { input, data, signal, round };
  const call = await prepareCall(comm, row, cell, buffers);
  const times = await measure(bench, plan, call);
  const checked = check ? await countWrong(bench, row, buffers, call) : { wrong: 0, elements: 0 };
  const [wrong = 0, compared = 0] = await total(bench, [checked.wrong, checked.elements]);
  await call.free();
  await data.free();
  await signal.free();
  const count = sized ? data.local.array.length : 0;
  return {
    name: row.name,
    bytes: count * elementBytes(dtype),
    count,
    dtype,
    op: row.reduces ? op : "none",
    root: row.name === "broadcast" ? root : -1,
    ...times,
    busFactor: nranks === 1 || !sized ? null : row.busFactor(nranks),
    wrong: check ? wrong : null,
    checked: compared,
  };
}

/** Elements of a chunk, so that the window has about so many bytes. */
function lengthOf(row: CollectiveRow, bytes: number, { dtype, op }: BenchPlan, nranks: number): number {
  const unit = row.dataShape({ dtype, op, nranks, length: 1 }).reduce((product, length) => product * length, 1);
  return Math.max(1, Math.floor(bytes / elementBytes(dtype) / unit));
}

/** One more call, on a window that holds nothing of the ones before, and its elements against their goldens. */
async function countWrong(
  { comm, sync }: Bench,
  row: CollectiveRow,
  buffers: Buffers,
  { call, golden }: BenchCall,
): Promise<{ wrong: number; elements: number }> {
  const { input, data } = buffers;
  await comm.barrier(sync); // nobody reads or writes any more
  if (row.inPlace) data.local.bytes.set(input.bytes);
  else data.local.bytes.fill(CLEARED);
  await comm.barrier(sync);
  await (row.proof === undefined ? call() : row.proof(comm, buffers, call));
  await comm.barrier(sync);
  const step = sampleStep(data.local.bytes.byteLength);
  let wrong = 0;
  let elements = 0;
  for (let i = 0; i < data.local.array.length; i += step) {
    const expected = golden(i);
    if (expected === undefined) continue;
    elements += 1;
    if (getElement(data.local, i) !== expected) wrong += 1;
  }
  return { wrong, elements };
}
