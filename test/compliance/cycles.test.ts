/** Windows, signals and groups that come and go leave nothing behind. */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { type Comm, NotifyOp, WaitCmp } from "rankwise";
import { describe, expect, test } from "vitest";
import { range, runRanksWell } from "../helpers/ranks.ts";
import { turns } from "./expect.ts";

const CYCLES = 1000;

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

describe.each(["inproc", "unix", "unix direct"] as const)("over %s", (transport) => {
  test.each([
    { what: "windows and signals of the world", own: false, bytesPerCycle: 400 },
    { what: "a group with its windows and signals", own: true, bytesPerCycle: 2000 },
  ])(`${CYCLES} cycles of $what stay flat`, async ({ own, bytesPerCycle }) => {
    const samples: { memory: number; descriptors: number }[] = [];
    await runRanksWell({
      transport,
      nranks: 2,
      main: async (world) => {
        for (const k of range(CYCLES + 1)) {
          if (world.rank === 0 && k % (CYCLES / 4) === 0) samples.push(await measure());
          await cycle(own ? world.group([1, 0]) : world, k);
        }
      },
    });
    const [, first, , , last] = samples; // the first quarter warms up
    const growth = ((last?.memory ?? 0) - (first?.memory ?? 0)) / (CYCLES * 0.75);
    // both ranks live in this process
    expect(growth / 2, JSON.stringify(samples)).toBeLessThan(bytesPerCycle);
    expect(last?.descriptors).toBe(first?.descriptors);
  });
});

/** Opens a window of 4 KiB and a signal, uses them, and frees both. */
async function cycle(comm: Comm, k: number): Promise<void> {
  const data = await comm.window("data", "float32", [2, 512]);
  const signal = await comm.signal("signal", [2, 1]);
  const x = comm.tensor("float32", [1, 8]);
  x.array.fill(k);
  const region = { dstOffset: [comm.rank, 0], shape: [1, 8] };
  await data.putSignal(1 - comm.rank, x, region, signal, [0, 0], 1, NotifyOp.Set);
  await signal.wait([0, 0], 1, WaitCmp.Ge);
  assert.equal(data.local.array[(1 - comm.rank) * 512], k);
  await Promise.all([data.free(), signal.free()]);
}

/** The least of several looks: each sees what the one before has let go of in the background. */
async function measure(): Promise<{ memory: number; descriptors: number }> {
  let memory = Infinity;
  for (const _ of range(5)) {
    collectGarbage();
    await turns(10);
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    memory = Math.min(memory, heapUsed + arrayBuffers);
  }
  const descriptors = process.platform === "linux" ? readdirSync("/proc/self/fd").length : 0;
  return { memory, descriptors };
}
