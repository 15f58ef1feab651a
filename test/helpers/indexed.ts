/** Exchanges of indexed_all_to_all_v on ranks of this process, with their one-line oracle and their exact account. */
import type { Comm } from "../../rank/comm.ts";
import type { SimulationResult } from "../../rank/simulate.ts";
import { SELF_SLOT_BYTES, SQE_ROWS_MAX, SQE_WQEBBS, DOORBELL_SQES_MAX } from "../../shared/constants.ts";
import { elementBytes } from "../../shared/dtype.ts";
import type { QueueCounters } from "../../shared/messages.ts";
import { range, runRanks, type RankRun } from "./ranks.ts";

/** One call of every rank: `counts[s][d]` rows, `index[s][d]` with C entries, tails included. */
export interface IndexedRound {
  readonly name?: string;
  readonly counts: readonly (readonly number[])[];
  readonly index: readonly (readonly (readonly number[])[])[];
}

/** Persistent calls on the same buffers. */
export interface IndexedCase {
  readonly nranks: number;
  readonly coreNum: number;
  /** Columns of the signal; default: as many as lanes. */
  readonly signalWidth?: number;
  /** C. */
  readonly capacity: number;
  /** H. */
  readonly width: number;
  readonly dtype: "float32" | "int8";
  /** Nmax of each rank. */
  readonly heights: readonly number[];
  readonly rounds: readonly IndexedRound[];
  /** Fill the target anew before each round; else tails keep the rows of earlier rounds. */
  readonly refill?: boolean;
}

/** What an exchange ran as. */
export interface IndexedRun extends SimulationResult {
  /** Each slot, count or input that was not as the oracle says, at most a few. */
  readonly differences: readonly string[];
}

const DIFFERENCES_MAX = 5;

/** Runs every round on every rank and compares the target, the counts, the input and at last the signal. */
export async function runIndexed(
  given: IndexedCase,
  options: Omit<RankRun, "nranks" | "main"> = {},
): Promise<IndexedRun> {
  const { nranks, coreNum, signalWidth = coreNum, capacity, width, dtype, heights, rounds, refill = false } = given;
  const differences: string[] = [];
  const differ = (text: string): void => {
    if (differences.length < DIFFERENCES_MAX) differences.push(text);
  };
  const rowBytes = rowBytesOf(given);
  const main = async (comm: Comm): Promise<void> => {
    const { rank } = comm;
    const input = comm.tensor(dtype, [heights[rank]!, width]);
    const index = comm.tensor("int32", [nranks, capacity]);
    const recvCounts = comm.tensor("int32", [nranks, 1]);
    const target = await comm.window("target", dtype, [nranks * capacity, width]);
    const sendCounts = await comm.window("counts", "int32", [nranks, 1]);
    const signal = await comm.signal("signal", [nranks, signalWidth]);
    const sync = await comm.signal("sync", [nranks, 1]);
    const golden = new Uint8Array(target.local.bytes.byteLength);
    for (const [round, { name = "", counts, index: indices }] of rounds.entries()) {
      const where = `round ${round} ${name}, rank ${rank}`;
      input.bytes.set(inputBytes(given, rank, round));
      sendCounts.local.array.set(counts[rank]!);
      index.array.set(indices[rank]!.flat());
      if (round === 0 || refill) {
        target.local.bytes.set(sentinel(target.local.bytes.byteLength, dtype));
        golden.set(target.local.bytes);
        await comm.barrier(sync);
      }
      await comm.indexedAllToAllV(input, target, signal, { sendCounts, recvCounts, index, coreNum });
      for (const s of range(nranks)) {
        // the oracle: target_d[s·C + j] = input_s[index_s[d][j]]
        const sent = inputBytes(given, s, round);
        for (const j of range(counts[s]![rank]!)) {
          const row = indices[s]![rank]![j]!;
          golden.set(sent.subarray(row * rowBytes, (row + 1) * rowBytes), (s * capacity + j) * rowBytes);
        }
        if (recvCounts.array[s] !== counts[s]![rank]) differ(`${where}: count of ${s} is ${recvCounts.array[s]}`);
      }
      const wrong = firstDifference(target.local.bytes, golden);
      if (wrong !== undefined) {
        const row = Math.floor(wrong / rowBytes);
        differ(
          `${where}: slot ${row % capacity} of ${Math.floor(row / capacity)} is wrong from byte ${wrong % rowBytes}`,
        );
      }
      if (firstDifference(input.bytes, inputBytes(given, rank, round)) !== undefined) differ(`${where}: input changed`);
    }
    await comm.barrier(sync); // every rank has come out of its last call
    if (signal.local.array.some((cell) => cell !== 0)) differ(`rank ${rank}: signal is ${signal.local.array.join()}`);
  };
  const result = await runRanks({ ...options, nranks, main });
  return { ...result, differences };
}

/** Throws unless the exchange ended well, agreed with its oracle, and cost exactly what it must. */
export async function expectExchange(
  given: IndexedCase,
  options: Omit<RankRun, "nranks" | "main"> = {},
): Promise<IndexedRun> {
  const result = await runIndexed(given, options);
  if (result.failure !== undefined) throw result.failure.error;
  const wrong = [...result.differences];
  for (const rank of range(given.nranks)) {
    const { counters, queues } = result.states[rank]!;
    const account = {
      queues: queues.toSorted((a, b) => a.peer - b.peer),
      sent: counters.payloadBytesSent,
      received: counters.payloadBytesReceived,
      copies: counters.coalescedCopies,
    };
    const due = {
      queues: expectedQueues(given, rank),
      sent: rows(given, (s, d) => s === rank && d !== rank) * rowBytesOf(given),
      received: rows(given, (s, d) => d === rank && s !== rank) * rowBytesOf(given),
      copies: expectedCopies(given, rank),
    };
    const [got, expected] = [JSON.stringify(account), JSON.stringify(due)];
    if (got !== expected) wrong.push(`rank ${rank} counted ${got}, expected ${expected}`);
  }
  if (wrong.length > 0) throw new Error(wrong.join("\n"));
  return result;
}

/** The queues of one rank after all rounds, by peer. */
function expectedQueues({ nranks, coreNum, rounds, width }: IndexedCase, rank: number): QueueCounters[] {
  const queues: QueueCounters[] = [];
  for (const peer of range(nranks)) {
    const transfers = rounds.map(({ counts }) => counts[rank]![peer]!).filter((count) => count > 0);
    if (peer === rank || transfers.length === 0 || width === 0) continue;
    const entries = transfers.map((count) => Math.ceil(count / SQE_ROWS_MAX));
    const sqes = sum(entries);
    queues.push({
      peer,
      lane: coreNum < nranks ? peer % coreNum : peer,
      sqes,
      wqebbs: SQE_WQEBBS * sqes,
      doorbells: sum(entries.map((count) => Math.ceil(count / DOORBELL_SQES_MAX))),
      cqes: transfers.length,
      submittedWqeCount: transfers.length,
    });
  }
  return queues;
}

/** Copies of own rows: runs of consecutive rows within a lane's share, in pieces that fit a slot. */
function expectedCopies(given: IndexedCase, rank: number): number {
  let copies = 0;
  for (const { counts, index } of given.rounds) {
    const own = index[rank]![rank]!.slice(0, counts[rank]![rank]);
    for (const lane of range(given.coreNum)) {
      const from = Math.floor((lane * own.length) / given.coreNum);
      const share = own.slice(from, Math.floor(((lane + 1) * own.length) / given.coreNum));
      let run = 0;
      for (const [at, row] of share.entries()) {
        run += rowBytesOf(given);
        if (share[at + 1] === row + 1) continue;
        copies += Math.ceil(run / SELF_SLOT_BYTES);
        run = 0;
      }
    }
  }
  return copies;
}

/** Counts of all rounds, summed over some pairs. */
function rows({ nranks, rounds }: IndexedCase, takes: (s: number, d: number) => boolean): number {
  let total = 0;
  for (const { counts } of rounds) {
    for (const s of range(nranks)) for (const d of range(nranks)) if (takes(s, d)) total += counts[s]![d]!;
  }
  return total;
}

function rowBytesOf({ width, dtype }: Pick<IndexedCase, "width" | "dtype">): number {
  return width * elementBytes(dtype);
}

/** Bytes of a rank's input in a round: each row begins with what it is, the rest is noise that no float is exempt from. */
function inputBytes(given: IndexedCase, rank: number, round: number): Uint8Array {
  const bytes = new Uint8Array(given.heights[rank]! * rowBytesOf(given));
  let state = (rank * 7919 + round * 104_729 + 1) >>> 0;
  for (let i = 0; i < bytes.length; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}

/** What tails hold: NaN with a payload of its own, or a byte. */
function sentinel(bytes: number, dtype: "float32" | "int8"): Uint8Array {
  const filled = new Uint8Array(bytes).fill(0x5a);
  if (dtype === "float32") new Uint32Array(filled.buffer).fill(0x7fc1_2345);
  return filled;
}

function firstDifference(a: Uint8Array, b: Uint8Array): number | undefined {
  if (Buffer.compare(a, b) === 0) return undefined;
  return a.findIndex((byte, at) => byte !== b[at]);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
