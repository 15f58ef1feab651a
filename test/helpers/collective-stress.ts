/** Collectives back to back on one signal and one window, while a random rank falls asleep between their steps. */
import type { CollectiveRow } from "../../rank/collectives/row.ts";
import { collectives } from "../../rank/collectives/table.ts";
import type { Cell } from "../../rank/collectives/cell.ts";
import { getElement, setElement } from "../../rank/collectives/values.ts";
import type { Comm } from "../../rank/comm.ts";
import { ReduceOp } from "../../rank/memory/reduce.ts";
import { simulate } from "../../rank/simulate.ts";
import { Random } from "../../shared/random.ts";

export interface Stress {
  readonly name: string;
  readonly nranks: number;
  readonly rounds: number;
  readonly seed: number;
  readonly testFault?: string;
}

/** Turns of the event loop that a sleeping rank lets pass; each delivers one frame somewhere. */
const SLEEP_TURNS = 60;

/** Elements of a chunk; with this limit the mesh moves them in three rounds. */
const LENGTH = 3;
const MESH_CHUNK_BYTES = 4;

/** The row of a collective. */
export function rowOf(name: string): CollectiveRow {
  const row = collectives.find((candidate) => candidate.name === name);
  if (row === undefined) throw new Error(`no collective ${name}`);
  return row;
}

/**
 * Runs the rounds, and checks every result and at the quiescent point every cell. Returns what was wrong, or undefined;
 * the first round's result does not count when a round is left out on purpose, since its rounds are others.
 */
export async function stress({ name, nranks, rounds, seed, testFault }: Stress): Promise<string | undefined> {
  const row = rowOf(name);
  const cell: Cell = { dtype: "int32", length: LENGTH, op: ReduceOp.Sum, nranks };
  const { failure } = await simulate({
    nranks,
    seed,
    waitTimeoutMs: 5000,
    limits: { meshChunkBytes: MESH_CHUNK_BYTES },
    ...(testFault === undefined ? {} : { testFault }),
    main: (comm) => runRounds(comm, row, cell, rounds, seed, testFault === undefined ? 0 : 1),
  });
  return failure === undefined ? undefined : `${failure.error.code}: ${failure.error.message}`;
}

async function runRounds(
  comm: Comm,
  row: CollectiveRow,
  cell: Cell,
  rounds: number,
  seed: number,
  firstChecked: number,
): Promise<void> {
  const random = new Random(seed); // the same on every rank
  const input = comm.tensor(cell.dtype, row.inputShape(cell));
  const data = await comm.window("data", cell.dtype, row.dataShape(cell));
  const signal = await comm.signal("signal", row.signalShape(cell));
  const other = await comm.signal("other", [comm.nranks, 1]);
  for (let round = 0; round < rounds; round++) {
    const [slow, step] = [random.below(comm.nranks), random.below(4)];
    const rest = async (at: number): Promise<void> => {
      if (slow === comm.rank && step === at) await turns(SLEEP_TURNS);
    };
    await rest(0);
    for (let i = 0; i < input.array.length; i++) setElement(input, i, row.input(cell, comm.rank, i, round));
    if (row.inPlace) data.local.bytes.set(input.bytes);
    const buffers = { input, data, signal, round };
    const call = async (): Promise<void> => {
      await rest(1);
      await row.builtin(comm, buffers, cell);
      await rest(2);
    };
    await (row.proof === undefined ? call() : row.proof(comm, buffers, call));
    if (round >= firstChecked) {
      for (let i = 0; i < data.local.array.length; i++) {
        const golden = row.golden(cell, comm.rank, i, round);
        const got = getElement(data.local, i);
        if (golden !== undefined && got !== golden) {
          throw new Error(`round ${round}, rank ${comm.rank}, element ${i}: got ${got}, expected ${golden}`);
        }
      }
    }
    await rest(3);
  }
  await comm.barrier(other);
  const left = signal.local.array.findIndex((value) => value !== 0);
  if (left >= 0) throw new Error(`cell ${left} holds ${signal.local.array[left]} at the quiescent point`);
}

/** Lets so many turns of the event loop pass. */
export async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise(setImmediate);
}
