import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Monitor } from "../../../coordinator/monitor.ts";
import { type RunFacts, runReport, writeAtomically } from "../../../coordinator/run-report.ts";

const facts: RunFacts = {
  program: "./program.ts",
  settings: {
    nranks: 2,
    mode: "builtin",
    platform: "a2a3sim",
    transport: "auto",
    args: [],
    seed: 0,
    waitTimeoutMs: 1,
    joinTimeoutMs: 1,
    graceMs: 1,
    livenessMs: 1,
    lanesMax: null,
    sqDepth: null,
  },
  epoch: 0,
  startedAtMs: 100,
  finishedAtMs: 350,
  addresses: [],
  epochs: [],
};
const monitor = new Monitor({ nranks: 2, startedAtMs: 100, timeoutMs: 1, graceMs: 1 });

describe("runReport", () => {
  test("has a row for each rank, with null for what is unknown", () => {
    const unknown = {
      pid: null,
      host: null,
      exitCode: null,
      signal: null,
      counters: null,
      queues: [],
      process: null,
      waits: [],
    };
    expect(runReport(facts, monitor, undefined)).toEqual({
      ok: true,
      program: "./program.ts",
      mode: "builtin",
      platform: "a2a3sim",
      lanesMax: 48,
      sqDepth: 0,
      nranks: 2,
      epoch: 0,
      transport: "auto",
      wallMs: 250,
      exitCode: 0,
      failure: null,
      consequences: [],
      epochs: [],
      ranks: [
        { rank: 0, ...unknown },
        { rank: 1, ...unknown },
      ],
    });
  });

  test.each([
    ["auto", ["unix:a", "unix:b"], "unix"],
    ["auto", ["unix:a", "ws://b:1"], "tcp"],
    ["auto", [], "auto"],
    ["tcp", ["ws://b:1"], "tcp"],
  ] as const)("transport %s with addresses %j has become %s", (asked, addresses, transport) => {
    const settings = { ...facts.settings, transport: asked };
    expect(runReport({ ...facts, settings, addresses }, monitor, undefined).transport).toBe(transport);
  });
});

describe("writeAtomically", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "report-"));
  });
  afterEach(() => rm(folder, { recursive: true }));

  test("replaces a file whole and leaves no part behind", async () => {
    const path = join(folder, "report.json");
    await writeAtomically(path, "old");
    await writeAtomically(path, "new");
    expect(await readFile(path, "utf8")).toBe("new");
    expect(await readdir(folder)).toEqual(["report.json"]);
  });

  test("leaves no part behind when it fails either", async () => {
    await expect(writeAtomically(folder, "a folder cannot be replaced")).rejects.toThrow();
    expect(await readdir(folder)).toEqual([]);
  });
});
