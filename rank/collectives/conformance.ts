/** One cell of the conformance matrix, run by every rank of a job: a collective, a dtype, a length, an op and a mode. */
import { formatShape, offsetOf } from "../../shared/shape.ts";
import type { Comm } from "../comm.ts";
import type { Tensor } from "../memory/tensor.ts";
import type { Signal } from "../window.ts";
import type { Cell } from "./cell.ts";
import type { CollectiveRow } from "./row.ts";
import { getElement, setElement } from "./values.ts";

/** How often a cell calls its collective on the same buffers; the second call has other inputs. */
const ROUNDS = 2;

/** What an element holds that a collective must not touch. */
const SENTINEL = 77;

/**
 * Runs a cell and compares everything with the golden: the result, what must be left alone, the input, and at the
 * quiescent point the signal's cells. Returns the first difference, or undefined. `sync` [P, 1] serves barriers.
 */
export async function runCell(
  comm: Comm,
  row: CollectiveRow,
  cell: Cell,
  mode: "hand" | "builtin",
  sync: Signal,
): Promise<string | undefined> {
  const [data, signal] = await Promise.all([
    comm.window("conformance.data", cell.dtype, row.dataShape(cell)),
    comm.signal("conformance.signal", row.signalShape(cell)),
  ]);
  const input = comm.tensor(cell.dtype, row.inputShape(cell));
  let difference: string | undefined;
  for (let round = 0; round < ROUNDS; round++) {
    for (let i = 0; i < input.array.length; i++) setElement(input, i, row.input(cell, comm.rank, i, round));
    const before = input.bytes.slice();
    if (row.inPlace) data.local.bytes.set(input.bytes);
    else fill(data.local, SENTINEL);
    await comm.barrier(sync);
    const buffers = { input, data, signal, round };
    const call = (): Promise<void> => row[mode](comm, buffers, cell);
    await (row.proof === undefined ? call() : row.proof(comm, buffers, call));
    // nobody writes to this rank any more, in either mode, once everybody has come here
    await comm.barrier(sync);
    difference ??= compare(comm, row, cell, round, data.local);
    if (Buffer.compare(before, input.bytes) !== 0) difference ??= `round ${round}: the input was changed`;
  }
  const cellLeft = signal.local.array.findIndex((value) => value !== 0);
  if (cellLeft >= 0)
    difference ??= `signal cell ${formatShape(offsetOf(cellLeft, signal.shape))} holds ${String(signal.local.array[cellLeft])} at the end`;
  await Promise.all([data.free(), signal.free()]);
  return difference;
}

/** Sets every element, the first one and then copies of it. */
function fill(tensor: Tensor, value: number): void {
  const { bytes, array } = tensor;
  if (array.length === 0) return;
  setElement(tensor, 0, value);
  for (let done = array.BYTES_PER_ELEMENT; done < bytes.length; done *= 2) bytes.copyWithin(done, 0, done);
}

function compare(comm: Comm, row: CollectiveRow, cell: Cell, round: number, tensor: Tensor): string | undefined {
  for (let i = 0; i < tensor.array.length; i++) {
    const golden = row.golden(cell, comm.rank, i, round);
    // what an in-place collective leaves open may hold anything
    if (golden === undefined && row.inPlace) continue;
    const expected = golden ?? SENTINEL;
    const got = getElement(tensor, i);
    if (got !== expected) return `round ${round}, rank ${comm.rank}, element ${i}: got ${got}, expected ${expected}`;
  }
  return undefined;
}
