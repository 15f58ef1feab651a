import { createServer } from "node:net";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { RunReport } from "../../shared/report.ts";
import { type CliProcess, runCli, startCli } from "../helpers/cli.ts";
import { startCluster } from "../helpers/cluster.ts";

const misbehave = fileURLToPath(new URL("../fixtures/programs/misbehave.ts", import.meta.url));

let folder: string;
let reportFile: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "failure-"));
  reportFile = join(folder, "report.json");
});
afterEach(() => rm(folder, { recursive: true }));

async function report(): Promise<RunReport> {
  return JSON.parse(await readFile(reportFile, "utf8")) as RunReport;
}

function start(action: string, rank: string, ...options: string[]): Promise<CliProcess> {
  return startCli(["run", misbehave, "-n", "4", "--json", reportFile, ...options, "--", action, rank]);
}

/** Resolves once a process heeds signals; it listens to SIGHUP last, of which Node itself takes no notice. */
async function heeds(pid: number): Promise<void> {
  for (;;) {
    const status = await readFile(`/proc/${pid}/status`, "utf8");
    const caught = BigInt(`0x${/^SigCgt:\s*(\w+)$/mu.exec(status)?.[1] ?? "0"}`);
    if ((caught & 1n) !== 0n) return; // SIGHUP is the first bit
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** Pids of the ranks that wait, once all of these do. */
async function waiting(command: CliProcess, ...ranks: number[]): Promise<number[]> {
  const pids: number[] = [];
  for (const rank of ranks) pids.push(Number((await command.says(new RegExp(`rank ${rank} waits as (\\d+)`, "u")))[1]));
  return pids;
}

describe("a rank that fails in mid-run ends the group, and its end is the first cause", () => {
  test.each([
    ["throw", 1, "ERR_PROGRAM_THREW", "the program's own mistake"],
    ["reject", 1, "ERR_PROGRAM_THREW", "the program's own mistake"],
    ["throw-undefined", 1, "ERR_PROGRAM_THREW", "thrown was undefined, which is no Error"],
    ["throw-text", 1, "ERR_PROGRAM_THREW", "thrown was 'a mere text', which is no Error"],
    ["late", 1, "ERR_PROGRAM_THREW", "uncaught exception: Error: thrown where nobody catches"],
    ["reject-late", 1, "ERR_PROGRAM_THREW", "unhandled rejection: Error: rejected where nobody catches"],
    ["reject-nothing", 1, "ERR_PROGRAM_THREW", 'unhandled rejection: .*with the reason "undefined"'],
    ["put-late", 1, "ERR_PEER_RANGE", "put: peer must be an integer in \\[0, 1\\), got 7"],
    ["exit7", 7, "ERR_RANK_EXITED", "rank 2 exited with 7 before its goodbye"],
    ["exit0", 1, "ERR_RANK_EXITED", "rank 2 exited with 0 before its goodbye"],
    ["kill", 137, "ERR_RANK_KILLED", "rank 2 was killed by SIGKILL before its goodbye"],
    ["terminate", 143, "ERR_RANK_KILLED", "rank 2 was killed by SIGTERM before its goodbye"],
  ])("%s: exit code %d, %s", async (action, exitCode, code, message) => {
    await using command = await start(action, "2");
    const { exitCode: got, stdout, stderr, text } = await command.ended;
    expect(got, text).toBe(exitCode);
    expect(stdout).toBe("");
    expect(stderr).toMatch(new RegExp(`^rankwise: ${code}: .*${message}`, "mu"));
    expect(stderr).toMatch(/first cause +\+\d+\.\d{3} s +rank 2, pid \d+, on /u);
    const { ok, failure, ranks, exitCode: reported } = await report();
    expect({ ok, reported }).toEqual({ ok: false, reported: exitCode });
    expect(failure).toMatchObject({ rank: 2, pid: ranks[2]?.pid, code });
    expect(failure?.message).toMatch(new RegExp(message, "u"));
    const mute = code === "ERR_RANK_EXITED" || code === "ERR_RANK_KILLED";
    expect(ranks.map(({ counters }) => counters === null)).toEqual([false, false, mute, false]);
    const waits = ranks.map((rank) => rank.waits.map(({ signal }) => signal));
    expect(waits[0], "a survivor's wait is in the report").toEqual(["never"]);
  });
});

test("what nobody catches in a process of all ranks is that of the rank whose program threw it", async () => {
  await using command = await start("reject-late", "3", "--transport", "inproc");
  const { exitCode, text } = await command.ended;
  expect(exitCode, text).toBe(1);
  expect((await report()).failure).toMatchObject({ rank: 3, code: "ERR_PROGRAM_THREW" });
});

test("kill -9 from outside: exit 137, the others gone within 2 s", async () => {
  await using command = await start("wait", "0");
  const [victim = 0] = await waiting(command, 2, 0, 1, 3);
  const killedMs = performance.now();
  process.kill(victim, "SIGKILL");
  const { exitCode, stderr, text } = await command.ended;
  expect(performance.now() - killedMs, text).toBeLessThan(2000);
  expect(exitCode).toBe(137);
  expect(stderr).toContain("rankwise: ERR_RANK_KILLED: rank 2 was killed by SIGKILL");
  expect(stderr).toMatch(/consequence +\S+ s +rank [013]: ERR_PEER_LOST/u);
  const { failure, ranks } = await report();
  expect(failure).toMatchObject({ rank: 2, pid: victim, code: "ERR_RANK_KILLED", exitCode: null, signal: "SIGKILL" });
  expect(ranks.filter(({ signal }) => signal === "SIGKILL").map(({ rank }) => rank)).toEqual([2]);
});

describe("ranks that do not want to end", () => {
  test.each(["ignore-sigterm", "loop", "grandchild"])("%s", async (action) => {
    await using command = await start(action, "1", "--grace", "300ms");
    const [victim = 0] = await waiting(command, 0, 2, 3);
    process.kill(victim, "SIGKILL");
    const killedMs = performance.now();
    const { exitCode, text } = await command.ended;
    expect(exitCode, text).toBe(137);
    expect(performance.now() - killedMs).toBeLessThan(1300);
    expect((await report()).failure?.rank).toBe(0);
  });

  test("a longer grace is a longer life", async () => {
    await using command = await start("ignore-sigterm", "1", "--grace", "1500ms");
    const [victim = 0] = await waiting(command, 0, 2, 3);
    process.kill(victim, "SIGKILL");
    const killedMs = performance.now();
    const { text, stderr } = await command.ended;
    expect(performance.now() - killedMs, text).toBeGreaterThanOrEqual(1500);
    expect(stderr).toMatch(/ended +rank 1: was killed by SIGKILL after the grace/u);
  });
});

describe("the coordinator is told to end", () => {
  test("by its time limit: 124", async () => {
    await using command = await start("wait", "0", "--timeout", "1500ms");
    const { exitCode, stderr, text, wallMs } = await command.ended;
    expect(exitCode, text).toBe(124);
    expect(wallMs).toBeLessThan(3500);
    expect(stderr).toContain("rankwise: ERR_TIMEOUT: the run took longer than 1.5 s (--timeout)");
    expect(stderr).toMatch(/waiting +rank 3: signal\.wait for .* on "never" \[0, 0\]: ge 1, now 0/u);
    expect((await report()).failure).toMatchObject({ code: "ERR_TIMEOUT", rank: null });
  });

  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const)("by %s: %d", async (signal, code) => {
    await using command = await start("wait", "0");
    await waiting(command, 0, 1, 2, 3);
    command.kill(signal);
    const { exitCode, stderr, text } = await command.ended;
    expect(exitCode, text).toBe(code);
    expect(stderr).toMatch(new RegExp(`^rankwise: ERR_INTERRUPTED: the coordinator got ${signal}$`, "mu"));
    expect((await report()).failure?.code).toBe("ERR_INTERRUPTED");
  });

  test("by a second signal: at once", async () => {
    await using command = await start("ignore-sigterm", "all", "--grace", "10s");
    await command.says(/(?:ignores SIGTERM[^]*){4}/u);
    command.kill("SIGINT");
    await new Promise((resolve) => setTimeout(resolve, 100));
    const signalledMs = performance.now();
    command.kill("SIGINT");
    const { exitCode, stderr, text } = await command.ended;
    expect(exitCode, text).toBe(130);
    expect(performance.now() - signalledMs).toBeLessThan(1000);
    expect(stderr).toMatch(/ended +ranks 0, 1, 2, 3: was killed by SIGKILL at the second signal$/mu);
  });

  test.runIf(process.platform === "linux")(
    "by a signal that comes before anything has begun: it says why",
    async () => {
      for (const ms of [0, 20, 80]) {
        await using command = await startCli(["run", misbehave, "-n", "2", "--", "wait"]);
        await heeds(command.pid);
        await new Promise((resolve) => setTimeout(resolve, ms));
        command.kill("SIGINT");
        const { exitCode, stdout, stderr, text } = await command.ended;
        expect({ exitCode, stdout }, text).toEqual({ exitCode: 130, stdout: "" });
        expect(stderr, text).toMatch(/^rankwise: ERR_INTERRUPTED: (?:the coordinator )?got SIGINT$/mu);
      }
    },
  );

  test("by SIGKILL: it can do nothing, and still nothing of it is left, loops and children included", async () => {
    for (const action of ["loop", "grandchild"]) {
      await using command = await start(action, "1");
      await waiting(command, 0, 2, 3);
      command.kill("SIGKILL");
      await command.ended;
    }
  });
});

describe("what is wrong before a rank starts", () => {
  test.each([
    ["an unknown program", ["run", "no_such_program", "-n", "2"], 2, /ERR_PROGRAM_NOT_FOUND: .*all_to_all/u],
    ["a missing file", ["run", "./missing.ts", "-n", "2"], 2, /ERR_PROGRAM_NOT_FOUND: .*missing\.ts/u],
    ["no rank count", ["run", "all_to_all"], 2, /ERR_USAGE: .*-n 4/u],
    ["no ranks", ["run", "all_to_all", "-n", "0"], 2, /ERR_USAGE: -n: expected an integer from 1 to/u],
    ["labels that are there twice", ["run", "all_to_all", "-d", "0,1,1"], 2, /ERR_USAGE: -d: label 1/u],
    ["two counts that differ", ["run", "all_to_all", "-n", "3", "-d", "0,1"], 2, /ERR_USAGE: -n 3 contradicts/u],
    ["an unknown mode", ["run", "all_to_all", "-n", "2", "--mode", "foot"], 2, /ERR_USAGE: .*hand, builtin/u],
    ["an undeclared mode", ["run", "all_to_all", "-n", "2", "--mode", "host"], 2, /ERR_PROGRAM_INVALID: .*host/u],
    ["no duration", ["run", "all_to_all", "-n", "2", "--timeout", "soon"], 2, /ERR_USAGE: .*soon/u],
    [
      "no time to run",
      ["run", "all_to_all", "-n", "2", "--timeout", "0"],
      2,
      /ERR_USAGE: --timeout: "0" is too short/u,
    ],
    ["no time to check", ["check", "--timeout", "0"], 2, /ERR_USAGE: --timeout: "0" is too short; at least 1ms/u],
    ["an unknown option", ["run", "all_to_all", "-n", "2", "--fast"], 2, /ERR_USAGE: .*--fast/u],
    ["an unknown command", ["walk"], 2, /ERR_USAGE: .*walk/u],
    ["no command", [], 2, /ERR_USAGE: .*rankwise --help/u],
    ["a report into nowhere", ["run", "all_to_all", "-n", "2", "--json", "no/such/folder"], 2, /ERR_USAGE: --json/u],
    [
      "a coordinator without a token",
      ["coordinator", "all_to_all", "-n", "2"],
      2,
      /ERR_USAGE: no token; .*RANKWISE_TOKEN/u,
    ],
    ["a rank without a coordinator", ["rank"], 2, /ERR_USAGE: .*--coordinator/u],
  ])("%s", async (_name, args, exitCode, message) => {
    const result = await runCli(args, { cwd: folder });
    expect(result.exitCode, result.text).toBe(exitCode);
    expect(result.stdout).toBe("");
    expect(result.stderr).toMatch(message);
    expect(result.stderr.trimEnd().split("\n"), "one line, no stack").toHaveLength(
      result.stderr.includes("first cause") ? result.stderr.trimEnd().split("\n").length : 1,
    );
  });

  test("a syntax error, with its place", async () => {
    await writeFile(join(folder, "broken.ts"), "const fine = 1;\nexport default async function main( {\n");
    const { exitCode, stderr, text } = await runCli(["run", "./broken.ts", "-n", "2"], { cwd: folder });
    expect(exitCode, text).toBe(2);
    expect(stderr).toMatch(/^rankwise: ERR_PROGRAM_SYNTAX: .*broken\.ts:3:1: /u);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  });

  test("a taken port", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const args = ["coordinator", "all_to_all", "-n", "2", "--port", String(port)];
    const { exitCode, stderr, text } = await runCli(args, { env: { RANKWISE_TOKEN: "t" } });
    server.close();
    expect(exitCode, text).toBe(3);
    expect(stderr).toMatch(new RegExp(`^rankwise: ERR_PORT_IN_USE: port ${port} .*--port`, "u"));
  });

  test("a coordinator that is not there", async () => {
    const args = ["rank", "--coordinator", "ws://127.0.0.1:9", "--join-timeout", "300ms"];
    const { exitCode, stderr, text } = await runCli(args, { env: { RANKWISE_TOKEN: "t" } });
    expect(exitCode, text).toBe(3);
    expect(stderr).toContain("rankwise: ERR_COORDINATOR_UNREACHABLE: no coordinator answered at ws://127.0.0.1:9");
  });
});

describe("several hosts", () => {
  test("missing ranks at the deadline are all listed: exit 3", async () => {
    await using cluster = await startCluster({
      program: "all_to_all",
      nranks: 4,
      supervisors: [2],
      coordinatorArgs: ["--join-timeout", "5s", "--json", reportFile],
    });
    const [coordinator, supervisor] = await cluster.ended();
    expect(coordinator?.exitCode, coordinator?.text).toBe(3);
    expect(coordinator?.stderr).toMatch(/ERR_JOIN_TIMEOUT: 2 of 4 ranks missing after 5 s .*ranks 2, 3/u);
    expect(supervisor?.exitCode).toBe(3);
    expect((await report()).failure?.code).toBe("ERR_JOIN_TIMEOUT");
  });

  test("a wrong token is refused at once, and the job does not mind", async () => {
    await using cluster = await startCluster({ program: "all_to_all", nranks: 2, supervisors: [] });
    const { exitCode, stderr, text } = await cluster.addSupervisor(2, { RANKWISE_TOKEN: "another" }).ended;
    expect(exitCode, text).toBe(3);
    expect(stderr).toMatch(/ERR_UNAUTHORIZED: .*401/u);
    const supervisor = cluster.addSupervisor(2);
    expect((await cluster.coordinator.ended).stdout).toBe("OK\n");
    expect((await supervisor.ended).exitCode).toBe(0);
  });

  test("a supervisor that is killed is a lost host: its ranks are named, the others end", async () => {
    await using cluster = await startCluster({
      program: misbehave,
      nranks: 4,
      supervisors: [2, 2],
      coordinatorArgs: ["--json", reportFile],
      args: ["wait"],
    });
    const [first, second] = cluster.supervisors;
    await Promise.all([first?.says(/waits as[^]*waits as/u), second?.says(/waits as[^]*waits as/u)]);
    first?.kill("SIGKILL");
    const { exitCode, stderr, text } = await cluster.coordinator.ended;
    expect(exitCode, text).toBe(1);
    expect(stderr).toMatch(/rankwise: ERR_HOST_LOST: the supervisor of host \S+ \(ranks (?:0, 1|2, 3)\) is lost/u);
    expect((await second?.ended)?.exitCode).toBe(1);
  });

  test("a coordinator that is killed takes everything with it", async () => {
    await using cluster = await startCluster({
      program: misbehave,
      nranks: 3,
      supervisors: [2, 1],
      args: ["loop", "1"],
    });
    await Promise.all(cluster.supervisors.map((supervisor) => supervisor.says(/waits as/u)));
    cluster.coordinator.kill("SIGKILL");
    const killedMs = performance.now();
    const [, ...supervisors] = await cluster.ended();
    expect(performance.now() - killedMs).toBeLessThan(2000);
    for (const { exitCode, stderr, text } of supervisors) {
      expect(exitCode, text).toBe(1);
      expect(stderr).toContain("rankwise: ERR_COORDINATOR_LOST");
    }
  });

  test.each(["SIGINT", "SIGTERM"] as const)("a supervisor that gets %s ends the job", async (signal) => {
    await using cluster = await startCluster({ program: misbehave, nranks: 2, supervisors: [1, 1], args: ["wait"] });
    const [first, second] = cluster.supervisors;
    await Promise.all([first?.says(/waits as/u), second?.says(/waits as/u)]);
    first?.kill(signal);
    const results = await cluster.ended();
    for (const { exitCode, text } of results) expect(exitCode, text).toBe(143); // nobody interrupted the coordinator
    expect(results[0]?.stderr).toContain(`got ${signal}`);
  });
});
