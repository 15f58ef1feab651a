/**
 * The speed of reductions of two operands into a third place, by SIMD in an arena and by plain JavaScript: GB/s of one
 * operand, the best of `--runs` batches. What it prints is not a verdict: read it beside the load of the machine.
 */
import { execFile } from "node:child_process";
import { rm } from "node:fs/promises";
import { cpus, loadavg } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import type { Campaign } from "./campaign.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

export const campaign: Campaign = {
  runs: 20,
  start: async ({ seed, runs, say }) => {
    // beside the kernels, as the scripts of dist/
    const outfile = join(root, "dist", `.bench-reduce-${process.pid}.mjs`);
    const source = join(root, "test", "fixtures", "bench-reduce.ts");
    await build({ entryPoints: [source], outfile, bundle: true, format: "esm", platform: "node", logLevel: "error" });
    try {
      say(`load ${loadavg()[0]?.toFixed(1) ?? "?"} on ${cpus().length} processors, best of ${runs} batches`);
      const { stdout } = await promisify(execFile)(process.execPath, [outfile, String(seed), String(runs)]);
      for (const line of stdout.trimEnd().split("\n")) say(line);
    } finally {
      await rm(outfile, { force: true });
    }
  },
};
