import { expect, test } from "vitest";
import { fixtureProgram, rankLines, runReported } from "../helpers/run.ts";

test("a program cleans up within the grace, and every call of it carries the first cause", async () => {
  const { exitCode, stderr, report, text } = await runReported([fixtureProgram("cleans-up"), "-n", "3"]);
  expect(exitCode, text).toBe(137);
  expect(rankLines(stderr)).toEqual([
    "ERR_GROUP_ENDED because of ERR_RANK_KILLED on rank 1",
    "ERR_GROUP_ENDED because of ERR_RANK_KILLED on rank 1",
    "a later call: ERR_GROUP_ENDED",
    "a later call: ERR_GROUP_ENDED",
    "cleaned up",
    "cleaned up",
  ]);
  expect(report.ranks.map(({ signal }) => signal)).toEqual([null, "SIGKILL", null]);
});

test("beyond the grace it is killed in the middle of it", async () => {
  const { stderr, report, text } = await runReported([fixtureProgram("cleans-up"), "-n", "3", "--grace", "100ms"]);
  expect(stderr, text).not.toContain("cleaned up");
  expect(report.ranks.map(({ signal }) => signal)).toEqual(["SIGKILL", "SIGKILL", "SIGKILL"]);
});
