import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { type JobRank, startCluster } from "../helpers/cluster.ts";

const misbehave = fileURLToPath(new URL("../fixtures/programs/misbehave.ts", import.meta.url));

describe("a coordinator and two supervisors", () => {
  test.each([[[2, 2]], [[2, 3]], [[1, 1, 1, 1]]])("run four ranks over TCP: slots %j", async (supervisors) => {
    await using cluster = await startCluster({ program: "all_to_all", nranks: 4, supervisors });
    const left = cluster.supervisors.map(async (supervisor) => {
      await supervisor.ended;
      return { coordinatorIsThere: cluster.coordinator.isAlive };
    });
    const [coordinator, ...others] = await cluster.ended();
    expect(coordinator?.stdout, coordinator?.text).toBe("OK\n");
    expect(coordinator?.exitCode).toBe(0);
    for (const supervisor of others) {
      expect(supervisor.stdout).toBe("");
      expect(supervisor.exitCode, supervisor.text).toBe(0);
    }
    // they leave after it
    expect(await Promise.all(left)).toEqual(supervisors.map(() => ({ coordinatorIsThere: false })));
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

  test.each(["rank", "supervisor"])(
    "a %s that is killed during the start leaves no socket in that folder",
    async (who) => {
      await using cluster = await startCluster({ program: misbehave, nranks: 2, supervisors: [] });
      const supervisor = cluster.addSupervisor(1, { RANKWISE_SOCKET_DIR: cluster.folder });
      // with one rank of two the start does not end, and sockets lie there until it does
      let rank: JobRank | undefined;
      while (rank?.address === undefined || rank.address === null) [rank] = (await cluster.job()).ranks;
      expect(existsSync(rank.address.replace("unix:", ""))).toBe(true);
      process.kill((who === "rank" ? rank.pid : supervisor.pid) ?? Number.NaN, "SIGKILL");
      const [coordinator] = await cluster.ended();
      expect(coordinator?.stderr).toMatch(who === "rank" ? /ERR_RANK_KILLED/u : /ERR_HOST_LOST/u);
    },
  );

  test("a folder for sockets that is not there is told with its variable", async () => {
    await using cluster = await startCluster({ program: misbehave, nranks: 1, supervisors: [] });
    cluster.addSupervisor(1, { RANKWISE_SOCKET_DIR: join(cluster.folder, "nowhere") });
    const [coordinator] = await cluster.ended();
    expect(coordinator?.exitCode, coordinator?.text).toBe(3);
    expect(coordinator?.stderr).toMatch(
      /^rankwise: ERR_TEMP_DIR: the folder \S+nowhere cannot be used \(ENOENT.*\); .* name another one by RANKWISE_SOCKET_DIR$/mu,
    );
  });
});
