import { fileURLToPath } from "node:url";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { type LaunchPlan, launchRank, rankEnvironment } from "../../../coordinator/launcher.ts";

const plan: LaunchPlan = {
  assign: {
    type: "assign",
    job: "j",
    epoch: 0,
    ranks: [2, 3],
    program: { kind: "builtin", name: "all_to_all" },
    env: { COLOUR: "red", RANK: "never" },
    settings: {
      nranks: 4,
      mode: "hand",
      platform: "a5sim",
      transport: "auto",
      args: ["--secret"],
      seed: 0,
      waitTimeoutMs: 1,
      joinTimeoutMs: 1000,
      graceMs: 1,
      livenessMs: 1,
      lanesMax: null,
      sqDepth: null,
    },
  },
  programPath: "program.mjs",
  url: "ws://[::1]:7000",
  token: "the token",
  bind: "0.0.0.0",
  advertise: "box",
  socketDir: "sockets",
  transport: "tcp",
  cwd: import.meta.dirname,
  rankEntry: fileURLToPath(new URL("../../fixtures/processes/shows-environment.mjs", import.meta.url)),
};

describe("launchRank", () => {
  test("tells a rank by its environment who it is, and nothing on its command line", async () => {
    const { pid, streams, ended } = await launchRank(3, plan);
    const shown = JSON.parse(await text(streams.stdout));
    expect(await ended).toEqual({ exitCode: 0, signal: null });
    expect(shown).toMatchObject({ pid, argv: [], cwd: plan.cwd });
    expect(shown.env).toMatchObject({
      RANKWISE_COORDINATOR: "ws://[::1]:7000",
      RANKWISE_TOKEN: "the token",
      RANKWISE_JOB: "j",
      RANKWISE_EPOCH: "0",
      RANKWISE_RANK: "3",
      RANKWISE_NRANKS: "4",
      RANKWISE_PROGRAM: "program.mjs",
      RANKWISE_BIND: "0.0.0.0",
      RANKWISE_ADVERTISE: "box",
      RANKWISE_SOCKET_DIR: "sockets",
      RANKWISE_TRANSPORT: "tcp",
      RANK: "3",
      WORLD_SIZE: "4",
      LOCAL_RANK: "1",
      LOCAL_WORLD_SIZE: "2",
      MASTER_ADDR: "::1",
      MASTER_PORT: "7000",
      COLOUR: "red",
    });
  });

  test("each rank leads a process group of its own", async () => {
    const rankEntry = fileURLToPath(new URL("../../fixtures/processes/ignores-sigterm.mjs", import.meta.url));
    const { pid, ended } = await launchRank(2, { ...plan, rankEntry });
    process.kill(-pid, "SIGKILL");
    expect(await ended).toEqual({ exitCode: null, signal: "SIGKILL" });
  });

  test("a folder that is not there is an error that names the rank", async () => {
    await expect(launchRank(2, { ...plan, cwd: "/does/not/exist" })).rejects.toMatchObject({
      code: "ERR_INTERNAL",
      context: { rank: 2 },
    });
  });
});

test("the environment gives the default port of a URL without one", () => {
  expect(rankEnvironment(2, { ...plan, url: "ws://box/" })).toMatchObject({ MASTER_ADDR: "box", MASTER_PORT: "80" });
});
