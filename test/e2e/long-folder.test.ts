import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SOCKET_PATH_BYTES_MAX } from "../../shared/constants.ts";
import { runCli } from "../helpers/cli.ts";

describe("a folder whose path is too long for sockets", () => {
  let parent: string;
  let folder: string;
  beforeAll(async () => {
    parent = await mkdtemp(join(tmpdir(), "long-"));
    folder = join(parent, "a".repeat(SOCKET_PATH_BYTES_MAX));
    await mkdir(folder);
  });
  afterAll(() => rm(parent, { recursive: true }));

  const run = (...options: string[]): ReturnType<typeof runCli> =>
    runCli(["run", "all_to_all", "-n", "2", ...options], { env: { RANKWISE_SOCKET_DIR: folder } });

  test("is one beside which ranks meet by TCP", async () => {
    const { exitCode, stdout, text } = await run();
    expect(exitCode, text).toBe(0);
    expect(stdout).toBe("OK\n");
    expect(await readdir(folder)).toEqual([]);
  });

  test("is refused where Unix sockets were asked for", async () => {
    const { exitCode, stderr, text } = await run("--transport", "unix");
    expect(exitCode, text).toBe(3);
    expect(stderr).toMatch(
      /^rankwise: ERR_TEMP_DIR: .* name a shorter one by RANKWISE_SOCKET_DIR, or use --transport tcp$/mu,
    );
    expect(await readdir(folder)).toEqual([]);
  });
});
