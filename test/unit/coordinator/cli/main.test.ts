import { cp, mkdtemp, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { RunReport } from "../../../../shared/report.ts";
import { runCli } from "../../../helpers/cli.ts";

const shows = fileURLToPath(new URL("../../../fixtures/programs/shows.ts", import.meta.url));

let folder: string;

beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "main-")));
  await cp(shows, join(folder, "shows.ts"));
});
afterEach(() => rm(folder, { recursive: true }));

/** What rank r's program printed of itself. */
function shown(stderr: string, rank: number): unknown {
  const line = stderr.split("\n").find((each) => each.startsWith(`[${rank}] {`));
  return JSON.parse(line?.slice(line.indexOf("{")) ?? "null");
}

describe("run", () => {
  test("a program of another folder sees its settings, arguments and environment", async () => {
    const args = ["run", "./shows.ts", "-d", "4,7", "--mode", "builtin", "-p", "a2a3sim", "--env", "COLOUR=a b"];
    const { stdout, stderr, exitCode, text } = await runCli([...args, "--", "--size", "64"], { cwd: folder });
    expect(stdout, text).toBe("OK\n");
    expect(exitCode).toBe(0);
    const env = { RANK: "1", WORLD_SIZE: "2", LOCAL_RANK: "1", LOCAL_WORLD_SIZE: "2", COLOUR: "a b" };
    const settings = { rank: 1, nranks: 2, mode: "builtin", platform: "a2a3sim", args: ["--size", "64"] };
    const source = pathToFileURL(join(folder, "shows.ts")).href;
    expect(shown(stderr, 1)).toEqual({ ...settings, env, cwd: folder, source });
    expect(stderr).toContain("[0] trouble on ");
    expect(stderr).toContain("[1] the end\n");
  });

  test("tags lines, writes logs and the report, in either spelling of the options", async () => {
    const args = [
      "run",
      "./shows.ts",
      "-n",
      "2",
      "--tag_output",
      "--log_dir",
      "logs_of_ranks",
      "--json",
      "report.json",
    ];
    const { stderr, text } = await runCli(args, { cwd: folder });
    expect(stderr, text).toMatch(/^\[[\da-f]+,1\]<stderr> trouble on /mu);
    expect(stderr).toMatch(/^\[[\da-f]+,0\]<stdout> the end$/mu);
    const logs = join(folder, "logs_of_ranks");
    expect((await readdir(logs)).sort()).toEqual(["rank-0.err", "rank-0.out", "rank-1.err", "rank-1.out"]);
    expect(await readFile(join(logs, "rank-1.out"), "utf8")).toMatch(/the end$/u);
    const report = JSON.parse(await readFile(join(folder, "report.json"), "utf8")) as RunReport;
    expect(report).toMatchObject({ ok: true, program: "./shows.ts", transport: "unix", exitCode: 0, failure: null });
    expect(report.ranks.map(({ exitCode, signal }) => ({ exitCode, signal }))).toEqual([
      { exitCode: 0, signal: null },
      { exitCode: 0, signal: null },
    ]);
  });

  test("npm runs our own script in our folder: paths still start where it was called", async () => {
    const env = { npm_lifecycle_event: "rankwise", npm_package_name: "rankwise", INIT_CWD: folder };
    const { stdout, text } = await runCli(["run", "shows.ts", "-n", "1"], { env });
    expect(stdout, text).toBe("OK\n");
  });

  test("a rank's error is told where its source is", async () => {
    await writeFile(
      join(folder, "thrower.ts"),
      "interface A { a: 1 }\n\nexport default () => {\n  throw new Error('x');\n};\n",
    );
    const { stderr, exitCode } = await runCli(["run", "thrower.ts", "-n", "1"], { cwd: folder });
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/thrower\.ts:4:9/u);
  });
});

test("--version and --help go to stdout and are no errors", async () => {
  const version = await runCli(["--version"]);
  expect(version.stdout).toMatch(/^\d+\.\d+\.\d+\n$/u);
  expect(version.exitCode).toBe(0);
  const help = await runCli(["run", "--help"]);
  expect(help.stdout).toContain("-n, --nranks <count>");
  expect(help.stdout).toMatch(/--timeout <time> .*\(default: 600s\)/u);
  expect(help.exitCode).toBe(0);
});

test("arguments that belong to nobody are refused", async () => {
  const { exitCode, stderr } = await runCli(["run", "shows.ts", "-n", "1", "stray"], { cwd: folder });
  expect(exitCode).toBe(2);
  expect(stderr).toMatch(/^rankwise: ERR_USAGE: .*arguments/u);
});
