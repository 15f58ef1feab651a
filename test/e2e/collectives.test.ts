import { describe, expect, test } from "vitest";
import { collectives } from "../../rank/collectives/table.ts";
import { rowOf } from "../helpers/collective-stress.ts";
import { runCli } from "../helpers/cli.ts";
import { fixtureProgram, runReported } from "../helpers/run.ts";

const LENGTH = 1021;

/** `builtin-once` with some builtins, and for every rank what was measured and what the table says of their sum. */
async function measure(nranks: number, names: readonly string[]): Promise<{ measured: unknown; formula: unknown }> {
  const args = [fixtureProgram("builtin-once"), "-n", `${nranks}`, "--mode", "builtin", "--", `${LENGTH}`, "1"];
  const { report, ...run } = await runReported([...args, ...names]);
  expect(run.stdout, run.text).toBe("OK\n");
  const measured = report.ranks.map(({ counters }) => [counters?.payloadBytesReceived, counters?.barriers]);
  const formula = report.ranks.map(({ rank }) => {
    const costs = names.map((name, index) =>
      rowOf(name).cost({ dtype: "float32", op: "sum", nranks, length: LENGTH + index }, rank),
    );
    return [
      costs.reduce((sum, { receivedBytes }) => sum + receivedBytes, 0),
      costs.reduce((sum, { rounds }) => sum + rounds, 0),
    ];
  });
  return { measured, formula };
}

describe("the run report shows the payload and the rounds of the table", () => {
  const names = collectives.map(({ name }) => name);

  test.each(names)("for %s on 3 ranks", async (name) => {
    const { measured, formula } = await measure(3, [name]);
    expect(measured).toEqual(formula);
  });

  // each has a length of its own, so that what one has too much is not what another has too little
  test.each([2, 4])("for all builtins together on %i ranks", async (nranks) => {
    const { measured, formula } = await measure(nranks, names);
    expect(measured).toEqual(formula);
  });
});

describe("ranks that do not agree on a call", () => {
  // all the ways there are: test/unit/rank/collectives/agreement.test.ts
  test.each([
    ["another collective", /(broadcast|all_to_all) #1: rank \d is in a different call/u],
    ["skips the call at the end", /barrier #2: rank 1 has come to the end of its program without this call/u],
    ["another root", /broadcast #1: rank \d is in a different call, .*root [01]/u],
    ["other expected counts", /all_to_all_v #1: rank 0 sends 1 rows to rank 1, which expects 2/u],
  ])("because one %s end with ERR_MISMATCH, long before any deadline", async (name, message) => {
    const { report, ...run } = await runReported([fixtureProgram("disagree"), "-n", "3", "--", name, "1"]);
    expect(run.stdout, run.text).toBe("");
    expect(run.exitCode, run.text).toBe(1);
    expect(report.failure).toMatchObject({ code: "ERR_MISMATCH", message: expect.stringMatching(message) as string });
  });
});

describe("rankwise check", () => {
  test("--quick passes for every collective, and says what it left out", async () => {
    const run = await runCli(["check", "--quick", "-n", "2,3"], { timeoutMs: 60_000 });
    expect(run.exitCode, run.text).toBe(0);
    expect(run.stdout, run.text).toMatch(/^\d+ passed, 0 failed\n$/mu);
    expect(run.stdout).toMatch(/^# 3 ranks: \d+ cells, 0 failed$/mu);
    expect(run.stdout).toMatch(/^# {3}\d+ skipped: a quick run takes one dtype of each kind$/mu);
  }, 60_000);

  test("fails when a collective is wrong, and names the cells", async () => {
    const env = { RANKWISE_TEST_FAULT: "flip_byte:rank=1,nth=3" };
    const run = await runCli(["check", "--quick", "-n", "2", "all_to_all"], { env });
    expect(run.exitCode, run.text).toBe(1);
    expect(run.stdout, run.text).toMatch(/FAILED all_to_all .* on 2 ranks: round \d, rank 1, element \d+: got/u);
    expect(run.stdout).toMatch(/^\d+ passed, 1 failed\n$/mu);
  });

  test("refuses a collective that does not exist, with those that do", async () => {
    const run = await runCli(["check", "all_to_none"]);
    expect(run.exitCode, run.text).toBe(2);
    expect(run.stderr).toContain("no collective all_to_none; known: barrier, barrier:hub, broadcast, allgather");
  });
});
