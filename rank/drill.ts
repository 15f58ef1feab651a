/**
 * The program behind `rankwise drill`: one collective again and again, each result checked, until a fault ends the
 * group or the calls are done. `settled-RANK.json` in the drill's folder says when and how this rank's calls ended.
 *
 * Arguments: the collective, the number of calls, and what a rank does in its handler when the group has ended:
 * `none`, `abort`, or `block`: never to come back, so that not even a SIGTERM is heard.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ENV } from "../shared/config.ts";
import { RankwiseError } from "../shared/errors.ts";
import type { Comm } from "./comm.ts";

export const modes = ["hand"];

/** Elements of one chunk, rows of one partition. */
const CHUNK = 64;
const ROWS = 4;

/** Pause between two calls: a drill is about the end of a group, not about the speed of its life. */
const PAUSE_MS = 2;

export default async function main(comm: Comm): Promise<void> {
  const [call = "all_to_all", count = "8", handler = "none"] = comm.args;
  const prepare = drilled[call];
  if (prepare === undefined) throw new RankwiseError("ERR_USAGE", `drill: no collective ${call}`);
  try {
    const once = await prepare(comm);
    for (let round = 0; round < Number(count); round++) {
      await once(round);
      await sleep(PAUSE_MS);
    }
  } catch (error) {
    settled(comm.rank, error);
    const ended = error instanceof RankwiseError && error.code === "ERR_GROUP_ENDED";
    if (ended && handler === "block") Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    if (ended && handler === "abort") process.kill(process.pid, "SIGABRT");
    throw error;
  }
}

function settled(rank: number, error: unknown): void {
  const folder = process.env[ENV.drillDir];
  if (folder === undefined) return;
  const code = error instanceof RankwiseError ? error.code : "ERR_PROGRAM_THREW";
  const cause = error instanceof Error && error.cause instanceof RankwiseError ? error.cause : undefined;
  const note = { atMs: Date.now(), code, cause: cause?.code ?? null, rank: cause?.context.rank ?? null };
  writeFileSync(join(folder, `settled-${rank}.json`), JSON.stringify(note));
}

type Once = (round: number) => Promise<void>;

const drilled: Readonly<Record<string, (comm: Comm) => Promise<Once>>> = {
  async all_to_all(comm) {
    const { rank, nranks } = comm;
    const data = await comm.window("data", "int32", [nranks, CHUNK]);
    const signal = await comm.signal("signal", [nranks, 1]);
    return async (round) => {
      const x = comm.tensor("int32", [nranks, CHUNK]);
      x.array.forEach((_, at) => (x.array[at] = value(round, rank, Math.floor(at / CHUNK))));
      await comm.allToAll(x, data, signal);
      expectAll(data.local.array, (at) => value(round, Math.floor(at / CHUNK), rank));
    };
  },

  async allreduce(comm) {
    const { rank, nranks } = comm;
    const data = await comm.window("data", "int32", [CHUNK * nranks + 1]);
    const signal = await comm.signal("signal", [2 * (nranks - 1) + 1, nranks]);
    return async (round) => {
      data.local.array.fill(value(round, rank, 0));
      await comm.allReduce(data, signal, { algo: "ring" });
      const sum = Array.from({ length: nranks }, (_, peer) => value(round, peer, 0)).reduce((a, b) => a + b, 0);
      expectAll(data.local.array, () => sum);
    };
  },

  async all_to_all_v(comm) {
    const { rank, nranks } = comm;
    const target = await comm.window("target", "int32", [nranks * ROWS, CHUNK]);
    const signal = await comm.signal("signal", [nranks, 1]);
    const recvCounts = comm.tensor("int32", [nranks]);
    return async (round) => {
      const input = comm.tensor("int32", [nranks * ROWS, CHUNK]);
      input.array.forEach((_, at) => (input.array[at] = value(round, rank, Math.floor(at / CHUNK / ROWS))));
      const sendCounts = comm.tensor("int32", [nranks]);
      sendCounts.array.fill(ROWS);
      await comm.allToAllV(input, target, signal, { sendCounts, recvCounts });
      expectAll(target.local.array, (at) => value(round, Math.floor(at / CHUNK / ROWS), rank));
    };
  },

  async indexed_all_to_all_v(comm) {
    const { rank, nranks } = comm;
    const target = await comm.window("target", "int8", [nranks * ROWS, CHUNK]);
    const sendCounts = await comm.window("sendCounts", "int32", [nranks, 1]);
    const signal = await comm.signal("signal", [nranks, 1]);
    const recvCounts = comm.tensor("int32", [nranks, 1]);
    const index = comm.tensor("int32", [nranks, ROWS]);
    index.array.forEach((_, at) => (index.array[at] = Math.floor(at / ROWS)));
    return async (round) => {
      const input = comm.tensor("int8", [nranks, CHUNK]);
      input.array.forEach((_, at) => (input.array[at] = value(round, rank, Math.floor(at / CHUNK)) % 100));
      sendCounts.local.array.fill(ROWS);
      await comm.indexedAllToAllV(input, target, signal, { sendCounts, recvCounts, index });
      expectAll(target.local.array, (at) => value(round, Math.floor(at / CHUNK / ROWS), rank) % 100);
    };
  },
};

/** What a source has for a destination in a round. */
function value(round: number, source: number, destination: number): number {
  return (round % 1000) * 10_000 + source * 100 + destination;
}

function expectAll(
  array: { readonly length: number; readonly [index: number]: number },
  golden: (at: number) => number,
): void {
  for (let at = 0; at < array.length; at++) {
    if (array[at] !== golden(at)) {
      throw new RankwiseError("ERR_WRONG_DATA", `drill: element ${at} is ${array[at]}, expected ${golden(at)}`);
    }
  }
}
