/** Waiting costs nothing: from the kernel's own accounting. */
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { startCli } from "../helpers/cli.ts";
import { range } from "../helpers/ranks.ts";

const late = fileURLToPath(new URL("../fixtures/programs/late.ts", import.meta.url));

const NRANKS = 16;
const WAIT_MS = 5000;

/** Hundredths of a second: the unit of /proc/PID/stat (USER_HZ). */
const TICK_MS = 10;

test.runIf(process.platform === "linux")(
  "15 ranks that wait 5 s for a late one use less than 5 % of a core together",
  async () => {
    await using job = await startCli(["run", late, "-n", String(NRANKS), "--", String(WAIT_MS + 3000)], {
      timeoutMs: 40_000,
    });
    const pids: number[] = [];
    for (const rank of range(NRANKS)) {
      const [, pid] = await job.says(new RegExp(`rank ${rank} is process (\\d+)`, "u"));
      if (rank > 0) pids.push(Number(pid));
    }
    await sleep(2000); // what the start has left to do is done by then
    const before = await cpuMs(pids);
    await sleep(WAIT_MS);
    const used = (await cpuMs(pids)) - before;
    const { exitCode, text } = await job.ended;
    expect(exitCode, text).toBe(0);
    expect(used).toBeLessThan(0.05 * WAIT_MS);
  },
);

/** Processor time that processes have used together, in user and kernel mode. */
async function cpuMs(pids: readonly number[]): Promise<number> {
  let ticks = 0;
  for (const pid of pids) {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8");
    // the name in parentheses may hold spaces; utime and stime are fields 14 and 15
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    ticks += Number(fields[11]) + Number(fields[12]);
  }
  return ticks * TICK_MS;
}
