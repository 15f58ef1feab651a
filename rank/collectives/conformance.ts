/** One cell of the conformance matrix, run by every rank of a job: a collective, a dtype, a length, an op and a mode. */
import type { Comm } from "../comm.ts";
import type { Cell } from "./cell.ts";
import type { CollectiveRow } from "./table.ts";
import { getElement, setElement } from "./values.ts";

/** How often a cell calls its collective on the same buffers; the second call has other inputs. */
const ROUNDS = 2;

/** What an element holds that a collective must not touch. */
const SENTINEL = 77;

/**
 * Runs a cell and compares everything with the golden: the result, what must be left alone, the input, and at the
 * quiescent point the signal's cells. Returns the first difference, or undefined.
 */
export async function runCell(
  comm: Comm,
  row: CollectiveRow,
  cell: Cell,
  mode: "hand" | "builtin",
): Promise<string | undefined> {
  const data = await comm.window("conformance.data", cell.dtype, row.dataShape(cell));
  const signal = await comm.signal("conformance.signal", row.signalShape(cell));
  const sync = await comm.signal("conformance.sync", [comm.nranks, 1]);
  const input = comm.tensor(cell.dtype, row.inputShape(cell));
  let difference: string | undefined;
  for (let round = 0; round < ROUNDS; round++) {
    for (let i = 0; i < input.array.length; i++) setElement(input, i, row.input(cell, comm.rank, i, round));
    const before = input.bytes.slice();
    if (row.inPlace) data.local.bytes.set(input.bytes);
    else for (let i = 0; i < data.local.array.length; i++) setElement(data.local, i, SENTINEL);
    await comm.barrier(sync);
    await row[mode](comm, { input, data, signal, round }, cell);
    // nobody writes to this rank any more, in either mode, once everybody has come here
    await comm.barrier(sync);
    difference ??= compare(comm, row, cell, round, data.local);
    if (Buffer.compare(before, input.bytes) !== 0) difference ??= `round ${round}: the input was changed`;
    await comm.barrier(sync);
  }
  const cellLeft = signal.local.array.findIndex((value) => value !== 0);
  if (cellLeft >= 0) difference ??= `signal cell ${cellLeft} holds ${String(signal.local.array[cellLeft])} at the end`;
  await data.free();
  await signal.free();
  await sync.free();
  return difference;
}

function compare(
  comm: Comm,
  row: CollectiveRow,
  cell: Cell,
  round: number,
  tensor: Parameters<typeof getElement>[0],
): string | undefined {
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
