import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { startCluster } from "../helpers/cluster.ts";

const misbehave = fileURLToPath(new URL("../fixtures/programs/misbehave.ts", import.meta.url));

describe("a coordinator and two supervisors", () => {
  test.each([[[2, 2]], [[2, 3]], [[1, 1, 1, 1]]])("run four ranks over TCP: slots %j", async (supervisors) => {
    await using cluster = await startCluster({ program: "all_to_all", nranks: 4, supervisors });
    const [coordinator, ...others] = await cluster.ended();
    expect(coordinator?.stdout, coordinator?.text).toBe("OK\n");
    expect(coordinator?.exitCode).toBe(0);
    for (const supervisor of others) {
      expect(supervisor.stdout).toBe("");
      expect(supervisor.exitCode, supervisor.text).toBe(0);
      expect(supervisor.wallMs, "leaves after the coordinator").toBeGreaterThan(coordinator?.wallMs ?? Infinity);
    }
  });

  test("use Unix sockets where they share a folder for them", async () => {
    await using cluster = await startCluster({
      program: misbehave,
      nranks: 2,
      supervisors: [],
      coordinatorArgs: ["--timeout", "10s"],
    });
    const env = { RANKWISE_SOCKET_DIR: cluster.folder };
    cluster.addSupervisor(1, env);
    cluster.addSupervisor(1, env);
    const { ranks } = await cluster.joined();
    expect(ranks.map(({ address }) => address)).toEqual([
      expect.stringMatching(/^unix:/u),
      expect.stringMatching(/^unix:/u),
    ]);
  });
});
