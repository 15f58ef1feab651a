/**
 * indexed_all_to_all_v against all_to_all of the same bytes, and the exchanges of expert dispatch: medians of batches of
 * back-to-back calls that take turns in one run. `--runs` is the number of batches. What it prints is not a verdict:
 * read it beside the load of the machine, which it prints too.
 */
import { execFile } from "node:child_process";
import { cpus, loadavg } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Campaign } from "./campaign.ts";

const CALLS = 20;

interface Measured {
  readonly times: Readonly<Record<string, readonly number[]>>;
  readonly processor: Readonly<Record<string, readonly number[]>>;
  readonly bytes: Readonly<Record<string, number>>;
}

export const campaign: Campaign = {
  runs: 30,
  start: async ({ runs, say }) => {
    say(`load ${loadavg()[0]?.toFixed(1) ?? "?"} on ${cpus().length} processors; ${runs} batches of ${CALLS} calls`);
    for (const nranks of [2, 4]) {
      const { times, processor, bytes } = await measure(nranks, runs);
      const [clockBase, processorBase] = [median(times["all_to_all"]), median(processor["all_to_all"])];
      say(`P = ${nranks}         bytes received  µs: min  median     p99  ratio   processor  ratio`);
      for (const [name, list] of Object.entries(times)) {
        const sorted = list.toSorted((a, b) => a - b);
        const clock = [sorted[0] ?? 0, median(list), sorted[Math.floor(list.length * 0.99)] ?? 0];
        const columns = [
          ...[`  ${name.padEnd(20)}`, column(bytes[name] ?? 0, 10), ...clock.map((us) => column(us, 8))],
          ...[(median(list) / clockBase).toFixed(2).padStart(7), column(median(processor[name]), 12)],
          (median(processor[name]) / processorBase).toFixed(2).padStart(7),
        ];
        say(columns.join(""));
      }
    }
  },
};

function column(value: number, width: number): string {
  return String(Math.round(value)).padStart(width);
}

async function measure(nranks: number, batches: number): Promise<Measured> {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const program = join(root, "test", "fixtures", "programs", "bench-indexed.ts");
  const args = ["run", program, "-n", String(nranks), "--", String(batches), String(CALLS)];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(root, "dist", "cli.js"), ...args]);
  const line = /^\[0\] (\{.*\})$/mu.exec(stderr)?.[1];
  if (stdout !== "OK\n" || line === undefined) throw new Error(`the benchmark failed\n${stdout}${stderr}`);
  return JSON.parse(line) as Measured;
}

function median(times: readonly number[] = []): number {
  const sorted = times.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
