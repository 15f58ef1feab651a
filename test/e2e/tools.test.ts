import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type BenchResult, primitives } from "../../rank/bench/plan.ts";
import { runCli } from "../helpers/cli.ts";

interface BenchReport {
  readonly results: readonly BenchResult[];
  readonly machine: Readonly<Record<string, string | number>>;
}

describe("rankwise bench", () => {
  it("prints the columns of nccl-tests, checks every element, and writes the same as JSON", async () => {
    const folder = await mkdtemp(join(tmpdir(), "t-"));
    const file = join(folder, "out.json");
    const sizes = ["-b", "8", "-e", "4K", "-f", "512", "--iters", "3", "-w", "1"];
    const run = await runCli([
      "bench",
      "all_to_all",
      "allreduce",
      "put_lat",
      "notify_lat",
      "-n",
      "2",
      ...sizes,
      "-J",
      file,
    ]);
    expect(run.exitCode).toBe(0);
    const rows = run.stdout.split("\n").filter((line) => !line.startsWith("#") && line !== "");
    // two sizes of four benchmarks, but a notify has none
    expect(rows).toHaveLength(2 * 3 + 1);
    expect(rows.every((row) => row.trim().split(/\s+/u).length === 11)).toBe(true);
    expect(run.stdout).toContain("# Out of bounds values : 0 OK");
    expect(run.stdout).toMatch(/# Avg bus bandwidth {4}: \d/u);
    const { results, machine } = JSON.parse(await readFile(file, "utf8")) as BenchReport;
    await rm(folder, { recursive: true });
    expect(machine).toMatchObject({ nranks: 2, transport: "unix", node: process.version });
    expect(run.stdout).toContain(`# rankwise ${machine.rankwise}, `);
    expect(run.stdout).toContain("# ranks reach each other by unix");
    expect(results.map(({ name, bytes }) => [name, bytes])).toEqual([
      ["all_to_all:auto", 8],
      ["all_to_all:auto", 4096],
      ["allreduce:auto", 8],
      ["allreduce:auto", 4096],
      ["put_lat", 8],
      ["put_lat", 4096],
      ["notify_lat", 0],
    ]);
    expect(results.every(({ wrong, timeUs }) => wrong === 0 && timeUs > 0)).toBe(true);
    // all_to_all counts each element of the window on both ranks
    expect(results[1]?.checked).toBe(2 * 1024);
  });

  it("counts what a corrupted link makes wrong, and then exits with 1", async () => {
    // rank 1 receives one put a call: together, single, the exchange of figures, and then the checked call
    const sizes = ["-b", "64", "-e", "64", "--iters", "1", "-w", "0"];
    const run = await runCli(["bench", "all_to_all", "-n", "2", ...sizes], {
      env: { RANKWISE_TEST_FAULT: "flip_byte:rank=1,nth=4" },
    });
    expect(run.exitCode).toBe(1);
    expect(run.stdout).toContain("# Out of bounds values : 1 FAILED");
  });

  it("measures one algorithm where one is asked for, and everything where all is", async () => {
    const sizes = ["-b", "64", "-e", "64", "--iters", "1", "-w", "0"];
    const names = async (...args: string[]): Promise<string[]> => {
      const run = await runCli(["bench", ...args, "-n", "2", ...sizes]);
      expect(run.exitCode, run.text).toBe(0);
      return [...run.stdout.matchAll(/^# (\S+)$/gmu)].map(([, name = ""]) => name);
    };
    expect(await names("allreduce", "--algo", "ring")).toEqual(["allreduce:ring"]);
    expect(await names("barrier", "--algo", "all")).toEqual(["barrier", "barrier:hub", "barrier:auto"]);
    const chosen = [
      "barrier:auto",
      "broadcast",
      "allgather:auto",
      "reduce_scatter",
      "allreduce:auto",
      "all_to_all:auto",
    ];
    expect(await names("all", "-d", "half")).toEqual([...chosen, "all_to_all_v", ...primitives]);
  });

  it("says n/a where one rank makes a bandwidth meaningless", async () => {
    const run = await runCli(["bench", "all_to_all", "-n", "1", "-b", "64", "-e", "64", "--iters", "1", "-w", "0"]);
    expect(run.exitCode).toBe(0);
    expect(run.stdout).toContain("n/a");
    expect(run.stdout).toContain("# Avg bus bandwidth    : n/a");
  });

  it.each([
    [["no_such_thing"], "no benchmark no_such_thing; known: "],
    [["all_to_all", "-b", "8", "-e", "4"], "-e 4 is below -b 8"],
    [["all_to_all", "-d", "complex"], "no dtype complex"],
    [["indexed_all_to_all_v", "-d", "half"], "-d float16: indexed_all_to_all_v takes float32 and int8"],
    [["broadcast", "-n", "2", "-r", "2"], "-r 2: there are 2 ranks, 0 to 1"],
    [["allreduce", "--algo", "tree"], "--algo tree: allreduce has mesh, ring"],
    [["broadcast", "--algo", "ring"], "--algo ring: broadcast has no choice"],
    [["barrier", "-J", "no/such/folder/x.json"], "--json: cannot write into "],
    [["all_to_all", "-b", "1X"], "expected a size like 8, 4K or 1M"],
  ])("refuses %j", async (args, text) => {
    const run = await runCli(["bench", ...args]);
    expect(run.exitCode).toBe(2);
    expect(run.stderr).toContain(text);
  });
});

describe("rankwise doctor", () => {
  it("finds this machine fit, and measures its loopback", async () => {
    const run = await runCli(["doctor"]);
    expect(run.exitCode).toBe(0);
    for (const subject of [
      "node",
      "platform",
      "open files",
      "unix sockets",
      "shared memory",
      "arena",
      "docker engine",
    ]) {
      expect(run.stdout).toMatch(new RegExp(`^(ok|warn) +${subject} `, "mu"));
    }
    expect(run.stdout).toMatch(/^ok +tcp loopback +\d+ us a round trip, [\d.]+ GB\/s one way$/mu);
    expect(run.stdout).toContain("ok    arena          1024 MiB of shared WebAssembly memory");
    expect(run.stdout).toMatch(/^ok +unix loopback +\d+ us a round trip, [\d.]+ GB\/s one way$/mu);
  });
});
