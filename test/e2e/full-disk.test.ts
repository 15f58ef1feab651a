import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { runCli } from "../helpers/cli.ts";
import { fixtureProgram } from "../helpers/run.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "full-"));
});
afterEach(() => rm(folder, { recursive: true }));

const shows = fixtureProgram("shows");
const misbehave = fixtureProgram("misbehave");

describe.runIf(process.platform === "linux")("a disk that is full changes no verdict", () => {
  test("a log is given up, and said once; the others are written", async () => {
    const logs = join(folder, "logs");
    await mkdir(logs);
    await symlink("/dev/full", join(logs, "rank-0.out"));
    const { exitCode, stdout, stderr, text } = await runCli(["run", shows, "-n", "2", "--log-dir", logs]);
    expect({ exitCode, stdout }, text).toEqual({ exitCode: 0, stdout: "OK\n" });
    const told = stderr.split("\n").filter((line) => line.startsWith("rankwise: "));
    expect(told).toEqual([
      expect.stringMatching(/^rankwise: ERR_FILE_WRITE: --log-dir: cannot write \S+rank-0\.out: ENOSPC/u),
    ]);
    expect(await readFile(join(logs, "rank-1.out"), "utf8")).not.toBe("");
  });

  test("the report of a good job is lost: OK, and 74", async () => {
    const job = ["run", "all_to_all", "-n", "1", "--json", "/dev/full"];
    const { exitCode, stdout, stderr, text } = await runCli(job);
    expect({ exitCode, stdout }, text).toEqual({ exitCode: 74, stdout: "OK\n" });
    expect(stderr).toMatch(/^rankwise: ERR_FILE_WRITE: --json: cannot write \/dev\/full: ENOSPC.*\n$/u);
  });

  test("the report of a failed job is lost: its own code, and its summary", async () => {
    const job = ["run", misbehave, "-n", "2", "--json", "/dev/full", "--", "exit7", "1"];
    const { exitCode, stdout, stderr, text } = await runCli(job);
    expect({ exitCode, stdout }, text).toEqual({ exitCode: 7, stdout: "" });
    expect(stderr).toMatch(/^rankwise: ERR_RANK_EXITED: rank 1 exited with 7/mu);
    expect(stderr).toMatch(/^rankwise: ERR_FILE_WRITE: --json: /mu);
  });

  test("a folder that has gone at the end of the run is no usage error either", async () => {
    const reports = join(folder, "reports");
    await mkdir(reports);
    const program = join(folder, "removes.mjs");
    await writeFile(
      program,
      `import { rmSync } from "node:fs"; export default () => rmSync(${JSON.stringify(reports)}, { recursive: true, force: true });`,
    );
    const { exitCode, stdout, stderr, text } = await runCli([
      ...["run", program, "-n", "1"],
      ...["--json", join(reports, "report.json"), "--log-dir", reports],
    ]);
    expect({ exitCode, stdout }, text).toEqual({ exitCode: 74, stdout: "OK\n" });
    expect(stderr).toMatch(/^rankwise: ERR_FILE_WRITE: --json: .*ENOENT/mu);
  });

  test("what measures and drills writes its file by the same rule", async () => {
    const sizes = ["-n", "1", "-b", "8", "-e", "8", "--iters", "1", "-w", "0"];
    const { exitCode, stdout, stderr, text } = await runCli(["bench", "put_lat", ...sizes, "-J", "/dev/full"]);
    expect(exitCode, text).toBe(74);
    expect(stdout).toContain("# put_lat");
    expect(stderr).toMatch(/^rankwise: ERR_FILE_WRITE: --json: cannot write \/dev\/full: ENOSPC/mu);
  });
});

test.runIf(process.platform === "linux")("stdout on a full disk is told in one line", async () => {
  const cli = fileURLToPath(new URL("../../dist/cli.js", import.meta.url));
  const child = spawn("/bin/sh", ["-c", `"${process.execPath}" "${cli}" run all_to_all -n 1 > /dev/full`]);
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const [exitCode] = (await once(child, "close")) as [number | null];
  expect({ exitCode, stderr }).toEqual({
    exitCode: 74,
    stderr: "rankwise: ERR_FILE_WRITE: cannot write to stdout: ENOSPC: no space left on device, write\n",
  });
});

test("a folder that is never made does not keep the command waiting", async () => {
  const { exitCode, stderr, text } = await runCli(["run", shows, "-n", "2", "--log-dir", "/proc/logs"]);
  expect(exitCode, text).toBe(2);
  expect(stderr).toMatch(/^rankwise: ERR_USAGE: --log-dir: cannot write into \/proc\/logs: .*\n$/u);
});

test("a log folder that cannot be made is known before the run: usage", async () => {
  const { exitCode, stderr, text } = await runCli(["run", shows, "-n", "2", "--log-dir", join(shows, "logs")]);
  expect(exitCode, text).toBe(2);
  expect(stderr).toMatch(/^rankwise: ERR_USAGE: --log-dir: cannot write into \S+: ENOTDIR.*\n$/u);
});
