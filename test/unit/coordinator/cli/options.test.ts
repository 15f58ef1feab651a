import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  addJobOptions,
  type JobOptions,
  needToken,
  parseCount,
  readToken,
  settingsOf,
  withHyphens,
} from "../../../../coordinator/cli/options.ts";

function parse(...args: string[]): JobOptions {
  const command = addJobOptions(new Command().exitOverride().configureOutput({ writeErr: () => {} }));
  return command.parse(withHyphens(args), { from: "user" }).opts<JobOptions>();
}

describe("options of a job", () => {
  test("have the documented defaults", () => {
    expect(settingsOf(parse("-n", "4"), ["a"])).toEqual({
      nranks: 4,
      mode: "hand",
      platform: "a5sim",
      transport: "auto",
      args: ["a"],
      seed: 0,
      lanesMax: null,
      sqDepth: null,
      waitTimeoutMs: 300_000,
      joinTimeoutMs: 60_000,
      graceMs: 1000,
      livenessMs: 3000,
    });
    expect(parse("-n", "4")).toMatchObject({ timeout: 600_000, env: {} });
  });

  test("take their values", () => {
    const args = "-n 2 -p a2a3sim --mode builtin --transport tcp --grace 2s --seed 7 --env A=1 --env B=x=y --env C=";
    const options = parse(...args.split(" "));
    expect(options.env).toEqual({ A: "1", B: "x=y", C: "" });
    expect(settingsOf(options, [])).toMatchObject({ platform: "a2a3sim", mode: "builtin", graceMs: 2000, seed: 7 });
  });

  test.each([
    ["--timeout", "1ms"],
    ["--join-timeout", "1ms"],
    ["--wait-timeout", "1ms"],
    ["--liveness", "100ms"],
  ])("%s: no time at all is refused, saying that %s is the least", (option, least) => {
    const message = `${option}: "0" is too short; at least ${least}`;
    expect(() => parse("-n", "2", option, "0")).toThrow(expect.objectContaining({ code: "ERR_USAGE", message }));
    expect(() => parse("-n", "2", option, least)).not.toThrow();
  });

  test("no grace at all is one", () => {
    expect(parse("-n", "2", "--grace", "0").grace).toBe(0);
  });

  test("count the labels of -d", () => {
    expect(settingsOf(parse("-d", "0,1,2,3"), []).nranks).toBe(4);
    expect(settingsOf(parse("-d", "npu:4, npu:7"), []).nranks).toBe(2);
    expect(settingsOf(parse("-d", "5,6", "-n", "2"), []).nranks).toBe(2);
  });

  test.each([
    [[], "-n 4"],
    [["-n", "0"], "from 1 to 1024"],
    [["-n", "1025"], "from 1 to 1024"],
    [["-n", "two"], 'got "two"'],
    [["-n", "2.5"], 'got "2.5"'],
    [["-d", "0,1,0"], "label 0 is there twice"],
    [["-d", "0,,1"], "empty label"],
    [["-d", ""], "empty label"],
    [["-d", "0,1", "-n", "3"], "contradicts"],
    [["-n", "2", "--env", "novalue"], "NAME=VALUE"],
    [["-n", "2", "--env", "2x=1"], "NAME=VALUE"],
    [["-n", "2", "--timeout", "soon"], "10m"],
    [["-n", "2", "--seed", "-1"], "--seed"],
  ])("%j is refused with advice", (args, advice) => {
    expect(() => settingsOf(parse(...args), [])).toThrow(expect.objectContaining({ code: "ERR_USAGE" }));
    expect(() => settingsOf(parse(...args), [])).toThrow(advice);
  });

  test.each([
    ["--mode", "foot"],
    ["--transport", "rdma"],
    ["-p", "a7sim"],
  ])("%s %s is no choice", (...args) => {
    expect(() => parse("-n", "2", ...args)).toThrow("Allowed choices are");
  });
});

test("long options may be spelled with underscores, values and others stay as they are", () => {
  expect(withHyphens(["--log_dir", "a_b", "--wait_timeout=1_s", "-n", "x_y", "--json=a_b"])).toEqual([
    "--log-dir",
    "a_b",
    "--wait-timeout=1_s",
    "-n",
    "x_y",
    "--json=a_b",
  ]);
});

test.each(["", " 1", "1e3", "0x10", "-1", "99999999999999999999"])("%j is no count", (text) => {
  expect(() => parseCount("-x", text, 0, 100_000)).toThrow("-x: expected an integer");
});

describe("the token", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "token-"));
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    await rm(folder, { recursive: true });
  });

  test("comes from the file, without its newline, before the environment", async () => {
    vi.stubEnv("RANKWISE_TOKEN", "of the environment");
    await writeFile(join(folder, "token"), "of the file\n");
    expect(await readToken(join(folder, "token"))).toBe("of the file");
    expect(await readToken(undefined)).toBe("of the environment");
  });

  test("is missed with advice", async () => {
    vi.stubEnv("RANKWISE_TOKEN", "");
    expect(await readToken(undefined)).toBeUndefined();
    await expect(needToken(undefined)).rejects.toThrow("set RANKWISE_TOKEN, or --token-file");
    await expect(readToken(join(folder, "missing"))).rejects.toMatchObject({ code: "ERR_USAGE" });
    await writeFile(join(folder, "empty"), "\n");
    await expect(readToken(join(folder, "empty"))).rejects.toThrow("is empty");
  });
});
