/** Benchmarks of the collectives, from the rows of their table. */
import { elementBytes } from "../../shared/dtype.ts";
import type { Cell } from "../collectives/cell.ts";
import type { CollectiveRow } from "../collectives/table.ts";
import { getElement, setElement } from "../collectives/values.ts";
import type { Tensor } from "../memory/tensor.ts";
import { type Bench, measure, total } from "./measure.ts";
import type { BenchPlan, BenchResult } from "./plan.ts";

/** Above this size every n-th element is compared, so that the golden does not take longer than the benchmark. */
const SAMPLE_BYTES = 16 * 1024 * 1024;

/** Measures one collective at one size. */
export async function benchCollective(
  bench: Bench,
  row: CollectiveRow,
  bytes: number,
  { dtype, op, iterations, warmup, check }: BenchPlan,
): Promise<BenchResult> {
  const { comm } = bench;
  const { nranks } = comm;
  const elements = Math.floor(bytes / elementBytes(dtype));
  const rows = row.dataShape({ dtype, op, nranks, length: 1 })[0] ?? 1;
  const perLength = row.dataShape({ dtype, op, nranks, length: 1 }).length === 1 ? 1 : rows;
  const cell: Cell = { dtype, op, nranks, length: Math.max(1, Math.floor(elements / perLength)) };
  const data = await comm.window("bench.data", dtype, row.dataShape(cell));
  const signal = await comm.signal("bench.signal", row.signalShape(cell));
  const input = comm.tensor(dtype, row.inputShape(cell));
  for (let i = 0; i < input.array.length; i++) setElement(input, i, row.input(cell, comm.rank, i, 0));
  await comm.barrier(bench.sync);
  const call = (): Promise<void> => row.builtin(comm, { input, data, signal, round: 0 }, cell);
  const times = await measure(bench, iterations, warmup, call);
  const checked = { wrong: 0, elements: 0 };
  if (check) {
    if (row.inPlace) data.local.bytes.set(input.bytes);
    await comm.barrier(bench.sync);
    await call();
    await comm.barrier(bench.sync);
    Object.assign(checked, countWrong(row, cell, comm.rank, data.local));
  }
  const [wrong = 0, compared = 0] = await total(bench, [checked.wrong, checked.elements]);
  await data.free();
  await signal.free();
  const count = data.local.array.length;
  return {
    name: row.name,
    bytes: count * elementBytes(dtype),
    count,
    dtype,
    op: row.reduces ? op : "none",
    root: row.name === "broadcast" ? 1 % nranks : -1,
    ...times,
    busFactor: nranks === 1 ? null : row.busFactor(nranks),
    wrong: check ? wrong : null,
    checked: compared,
  };
}

function countWrong(row: CollectiveRow, cell: Cell, rank: number, tensor: Tensor): { wrong: number; elements: number } {
  const step = Math.max(1, Math.ceil(tensor.bytes.byteLength / SAMPLE_BYTES));
  let wrong = 0;
  let elements = 0;
  for (let i = 0; i < tensor.array.length; i += step) {
    const golden = row.golden(cell, rank, i, 0);
    if (golden === undefined) continue;
    elements += 1;
    if (getElement(tensor, i) !== golden) wrong += 1;
  }
  return { wrong, elements };
}
