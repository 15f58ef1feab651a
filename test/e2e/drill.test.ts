import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { scenarios } from "../../coordinator/drill/scenarios.ts";
import { runCli } from "../helpers/cli.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "drill-"));
});
afterEach(() => rm(folder, { recursive: true }));

describe.runIf(process.platform === "linux")("rankwise drill", () => {
  test("one round of every scenario passes", { timeout: 180_000 }, async () => {
    const file = join(folder, "drills.json");
    const result = await runCli(["drill", "all", "--seed", "11", "--json", file], { timeoutMs: 170_000 });
    expect(result.exitCode, result.text).toBe(0);
    expect(result.stdout.trimEnd().split("\n").at(-1)).toBe(`${scenarios.length} passed, 0 failed`);
    const results = JSON.parse(await readFile(file, "utf8")) as { scenario: string; passed: boolean }[];
    expect(results.map(({ scenario }) => scenario)).toEqual(scenarios.map(({ name }) => name));
  });

  test("strikes where it is told", async () => {
    const at = "call=all_to_all,round=1,rank=2,nth=3";
    const { exitCode, stdout, text } = await runCli(["drill", "kill", "-n", "3", "--at", at]);
    expect(exitCode, text).toBe(0);
    expect(stdout).toMatch(/^kill +0 +3 +\w+ +all_to_all#3 round 1 rank 2 +ERR_RANK_KILLED +2 /mu);
  });

  test("a build whose SIGKILL is taken out fails", { timeout: 60_000 }, async () => {
    await cp(join(root, "dist"), join(folder, "dist"), { recursive: true });
    await cp(join(root, "package.json"), join(folder, "package.json"));
    await symlink(join(root, "node_modules"), join(folder, "node_modules"));
    const patched = await patchBuild('signalGroup(group, "SIGKILL")', "void group");
    expect(patched, "places where the build sends SIGKILL").toBe(1);
    const drill = async (scenario: string): Promise<{ stdout: string; exitCode: number | null }> => {
      const child = spawn(process.execPath, [join(folder, "dist/cli.js"), "drill", scenario]);
      let stdout = "";
      child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
      const [exitCode] = (await once(child, "close")) as [number | null];
      return { stdout, exitCode };
    };
    // each waits in vain for its processes to go
    for (const { stdout, exitCode } of await Promise.all(["ignore-sigterm", "fork-grandchild"].map(drill))) {
      expect(exitCode, stdout).toBe(1);
      expect(stdout).toMatch(/^# {3}processes (?:were gone after \d+ ms, at most 2000|never went)$/mu);
      expect(stdout).toContain("0 passed, 1 failed");
    }
  });

  test.each([
    [["drill"], /ERR_USAGE: .*scenario/u],
    [["drill", "explode"], /ERR_USAGE: no scenario explode; known: all, random, kill/u],
    [["drill", "kill", "--at", "rank=7"], /ERR_USAGE: --at: rank 7 is not in \[0, 4\)/u],
    [["drill", "kill", "-n", "1"], /ERR_USAGE: -n: expected an integer from 2/u],
  ])("%j is refused", async (args, message) => {
    const { exitCode, stderr, text } = await runCli(args);
    expect(exitCode, text).toBe(2);
    expect(stderr).toMatch(message);
  });
});

/** Replaces a text in every file of the copied build; returns how often it stood there. */
async function patchBuild(from: string, to: string): Promise<number> {
  let found = 0;
  for (const name of await readdir(join(folder, "dist"), { recursive: true })) {
    if (!name.endsWith(".js")) continue;
    const path = join(folder, "dist", name);
    const text = await readFile(path, "utf8");
    const parts = text.split(from);
    found += parts.length - 1;
    if (parts.length > 1) await writeFile(path, parts.join(to));
  }
  return found;
}
