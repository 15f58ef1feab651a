import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { processState } from "../../coordinator/process-state.ts";
import type { RunReport } from "../../shared/report.ts";
import { type CliProcess, startCli } from "../helpers/cli.ts";
import { startCluster } from "../helpers/cluster.ts";
import { fixtureProgram, runReported } from "../helpers/run.ts";

const misbehave = fixtureProgram("misbehave");

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "liveness-"));
});
afterEach(() => rm(folder, { recursive: true }));

function start(action: string, ...options: string[]): Promise<CliProcess> {
  return startCli(["run", misbehave, "-n", "4", ...options, "--", action, "1"]);
}

async function pidOf(command: CliProcess, rank: number): Promise<number> {
  return Number((await command.says(new RegExp(`rank ${rank} waits as (\\d+)`, "u")))[1]);
}

describe("a rank that is stopped", () => {
  test("is named within --liveness and half a second, and all are gone 2 s later", async () => {
    const file = join(folder, "report.json");
    await using command = await start("wait", "--liveness", "1s", "--json", file);
    for (const rank of [0, 1, 3]) await pidOf(command, rank);
    const victim = await pidOf(command, 2);
    const stoppedMs = performance.now();
    process.kill(victim, "SIGSTOP");
    const { exitCode, stderr, text } = await command.ended;
    const tookMs = performance.now() - stoppedMs;
    expect(exitCode, text).toBe(1);
    expect(stderr).toMatch(new RegExp(`^rankwise: ERR_RANK_STOPPED: rank 2 \\(pid ${victim}\\) is stopped`, "mu"));
    const { failure, ranks, wallMs } = JSON.parse(await readFile(file, "utf8")) as RunReport;
    expect(failure).toMatchObject({ rank: 2, pid: victim, code: "ERR_RANK_STOPPED" });
    // both ends of the run are seen from here, so what the report calls "noticed" can be placed on this clock
    const noticedMs = tookMs - (wallMs - (failure?.atMs ?? 0));
    expect(noticedMs, text).toBeLessThan(1500);
    expect(tookMs - noticedMs, text).toBeLessThan(2000);
    expect(ranks.map(({ process: state }) => state)).toEqual(["sleeping", "sleeping", "stopped", "sleeping"]);
  });

  test("and goes on in time is no failure", async () => {
    await using command = await start("wait", "--liveness", "1500ms");
    const victim = await pidOf(command, 2);
    for (let round = 0; round < 3; round++) {
      process.kill(victim, "SIGSTOP");
      await new Promise((resolve) => setTimeout(resolve, 700));
      process.kill(victim, "SIGCONT");
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    command.kill("SIGINT"); // it still runs, and has nothing else to tell
    expect((await command.ended).exitCode).toBe(130);
  });
});

test("a rank that computes is busy, not dead; peers say so; once stopped it is named", async () => {
  await using command = await start("loop", "--liveness", "1s");
  for (const rank of [0, 2, 3]) await pidOf(command, rank);
  await new Promise((resolve) => setTimeout(resolve, 2000)); // twice the liveness
  command.kill("SIGUSR2");
  const [, pid] = await command.says(/rank 1, pid (\d+), on \S+, busy: did not answer/u);
  await command.says(/waiting +rank 3: signal\.wait for \S+ s on "never" \[0, 0\]: ge 1, now 0/u);
  process.kill(Number(pid), "SIGSTOP");
  const { exitCode, stderr, text } = await command.ended;
  expect(exitCode, text).toBe(1);
  expect(stderr).toContain(`rankwise: ERR_RANK_STOPPED: rank 1 (pid ${pid})`);
});

test("at a time limit the table says that the missing rank is busy", async () => {
  await using command = await startCli(["run", fixtureProgram("busy"), "-n", "3", "--timeout", "4s"]);
  const { exitCode, stderr, text } = await command.ended;
  expect(exitCode, text).toBe(124);
  expect(stderr).toMatch(/waiting +rank 0: barrier #2 for .*, missing ranks 1 \(busy\)$/mu);
  expect(stderr).toMatch(/process +rank 1: busy/u);
});

describe("a coordinator that is stopped", () => {
  test("is lost to its ranks: those of a launcher end, even one in a loop, and it names itself", async () => {
    await using command = await start("loop", "--liveness", "1s");
    const pids = await Promise.all([0, 2, 3].map((rank) => pidOf(command, rank)));
    command.kill("SIGUSR2");
    pids.push(Number((await command.says(/rank 1, pid (\d+)/u))[1]));
    command.kill("SIGSTOP");
    const stoppedMs = performance.now();
    const runs = (pid: number): boolean => processState(pid) !== "unknown";
    const waitFor = async (condition: () => boolean, boundMs: number): Promise<void> => {
      while (!condition()) {
        await new Promise((resolve) => setTimeout(resolve, 10));
        expect(performance.now() - stoppedMs).toBeLessThan(boundMs);
      }
    };
    await waitFor(() => !pids.slice(0, 3).some(runs), 1000 + 500);
    await waitFor(() => !pids.some(runs), 1000 + 2000);
    command.kill("SIGCONT");
    const { exitCode, stderr, text } = await command.ended;
    expect(exitCode, text).toBe(1);
    // it heard of all their ends at once, and none of them is to blame
    expect(stderr).toMatch(/^rankwise: ERR_COORDINATOR_LOST: the coordinator was stopped for \d\.\d s/mu);
    expect(stderr).toMatch(/first cause +\S+ s +the coordinator$/mu);
  });

  test("and to its supervisors, which end even a rank in a loop", async () => {
    await using cluster = await startCluster({
      program: misbehave,
      nranks: 3,
      supervisors: [2, 1],
      coordinatorArgs: ["--liveness", "1s"],
      args: ["loop", "1"],
    });
    await Promise.all(cluster.supervisors.map((supervisor) => supervisor.says(/waits as/u)));
    cluster.coordinator.kill("SIGSTOP");
    const stoppedMs = performance.now();
    const supervisors = await Promise.all(cluster.supervisors.map(({ ended }) => ended));
    expect(performance.now() - stoppedMs).toBeLessThan(3500);
    for (const { exitCode, stderr, text } of supervisors) {
      expect(exitCode, text).toBe(1);
      expect(stderr).toContain("rankwise: ERR_COORDINATOR_LOST");
    }
    cluster.coordinator.kill("SIGKILL");
  });
});

test("a supervisor that is stopped is a lost host within --liveness", async () => {
  await using cluster = await startCluster({
    program: misbehave,
    nranks: 2,
    supervisors: [1, 1],
    coordinatorArgs: ["--liveness", "1s"],
    args: ["wait"],
  });
  await Promise.all(cluster.supervisors.map((supervisor) => supervisor.says(/waits as/u)));
  const [first] = cluster.supervisors;
  first?.kill("SIGSTOP");
  const stoppedMs = performance.now();
  const { exitCode, stderr, text } = await cluster.coordinator.ended;
  expect(performance.now() - stoppedMs, text).toBeLessThan(1000 + 500 + 2000);
  expect(exitCode, text).toBe(1);
  expect(stderr).toContain("rankwise: ERR_HOST_LOST");
  first?.kill("SIGCONT");
  expect((await first?.ended)?.stderr).toMatch(/ERR_COORDINATOR_LOST: .* this supervisor was stopped for \d\.\d s/u);
});

test("SIGUSR2 prints where every rank is, as often as it is asked", async () => {
  await using command = await start("wait");
  for (const rank of [0, 1, 2, 3]) await pidOf(command, rank);
  command.kill("SIGUSR2");
  await command.says(
    /after \d+\.\d s\n(?: +rank +rank \d, pid \d+, on \S+, \w+: in no builtin call\n +waiting .*\n){4}/u,
  );
  command.kill("SIGUSR2");
  await command.says(/after \d+\.\d s\n[^]*after \d+\.\d s\n/u);
});

describe("--max-restarts", () => {
  const program = fixtureProgram("restarts");

  test("the group starts again with new processes and zeroed memory, and the report keeps each cause", async () => {
    const { exitCode, stdout, stderr, report, text } = await runReported([
      program,
      "-n",
      "3",
      "--max-restarts",
      "2",
      "--",
      "2",
    ]);
    expect(exitCode, text).toBe(0);
    expect(stdout).toBe("OK\n");
    expect(report).toMatchObject({ ok: true, epoch: 2, failure: null });
    expect(report.epochs.map(({ epoch, failure }) => [epoch, failure.rank, failure.code])).toEqual([
      [0, 1, "ERR_PROGRAM_THREW"],
      [1, 1, "ERR_PROGRAM_THREW"],
    ]);
    const starts = [...stderr.matchAll(/epoch (\d) rank \d pid (\d+) finds (\S+)/gu)];
    expect(starts).toHaveLength(9);
    expect(new Set(starts.map(([, , pid]) => pid)).size).toBe(9);
    expect(new Set(starts.map(([, , , cells]) => cells))).toEqual(new Set(["0,0,0"]));
  });

  test("once too often: the last cause is the failure", async () => {
    const { exitCode, report, text } = await runReported([program, "-n", "2", "--max-restarts", "1", "--", "9"]);
    expect(exitCode, text).toBe(1);
    expect(report).toMatchObject({ ok: false, epoch: 1, failure: { rank: 1, code: "ERR_PROGRAM_THREW" } });
    expect(report.epochs).toHaveLength(1);
  });

  test("several hosts start again, too", async () => {
    await using cluster = await startCluster({
      program,
      nranks: 3,
      supervisors: [2, 1],
      coordinatorArgs: ["--max-restarts", "1"],
      args: ["1"],
    });
    const [coordinator, ...supervisors] = await cluster.ended();
    expect(coordinator?.stdout, coordinator?.text).toBe("OK\n");
    for (const { exitCode, text } of supervisors) expect(exitCode, text).toBe(0);
  });

  test("a time limit ends it for good", async () => {
    const late = await runReported([misbehave, "-n", "2", "--timeout", "1500ms", "--max-restarts", "3", "--", "wait"]);
    expect(late.exitCode, late.text).toBe(124);
    expect(late.report.epochs).toEqual([]);
  });
});
