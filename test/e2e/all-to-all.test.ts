import { describe, expect, test } from "vitest";
import { runCli } from "../helpers/cli.ts";
import { fixtureProgram, runReported } from "../helpers/run.ts";

const modes = ["hand", "builtin"] as const;
const transports = ["tcp", "unix"] as const;

describe("all_to_all", () => {
  const runs = modes.flatMap((mode) => transports.map((transport) => ({ mode, transport })));

  describe.each(runs)("$mode over $transport", ({ mode, transport }) => {
    test.each([1, 2, 3, 4, 7, 8])("is right on %i ranks", async (nranks) => {
      const devices = [...Array(nranks).keys()].join(",");
      const run = await runCli(["run", "all_to_all", "-d", devices, "--mode", mode, "--transport", transport]);
      expect(run.stdout, run.text).toBe("OK\n");
      expect(run.stderr).toBe("");
      expect(run.exitCode).toBe(0);
    });
  });

  test.each([
    ["hand", "tcp"],
    ["builtin", "unix"],
  ])("is right on 16 ranks, where its golden is another one (%s, %s)", async (mode, transport) => {
    const run = await runCli(["run", "all_to_all", "-n", "16", "--mode", mode, "--transport", transport]);
    expect(run.stdout, run.text).toBe("OK\n");
    expect(run.exitCode).toBe(0);
  });
});

describe.each(modes)("a sabotaged all_to_all, %s", (mode) => {
  test.each([2, 4])(
    "with one byte flipped names rank, row and element, what was got and expected (%i ranks)",
    async (nranks) => {
      const env = { RANKWISE_TEST_FAULT: `flip_byte:rank=1,nth=${nranks - 1}` };
      const { report, ...run } = await runReported(["all_to_all", "-n", String(nranks), "--mode", mode], { env });
      expect(run.stdout, run.text).toBe("");
      expect(run.exitCode).toBe(1);
      expect(report).toMatchObject({ ok: false, exitCode: 1, failure: { code: "ERR_WRONG_DATA", rank: 1 } });

      const said = /^rank 1 row (\d) holds wrong data; element \[(\d), 63\]: got (\S+), expected (\d+)$/u;
      const [, row, elementRow, got, expected] = said.exec(report.failure?.message ?? "") ?? [];
      expect(Number(row), report.failure?.message).not.toBe(1);
      expect(elementRow).toBe(row);
      expect(Number(expected)).toBe(1000 * Number(row) + 100 * 1 + 63);
      expect(Number(got)).toBe(withLastByteFlipped(Number(expected)));
      expect(run.stderr).toContain(`ERR_WRONG_DATA: ${report.failure?.message ?? ""}`);
    },
  );

  test.each([
    { nranks: 4, culprit: 3 },
    { nranks: 11, culprit: 10 },
  ])("with two chunks exchanged says whose they are ($nranks ranks)", async ({ nranks, culprit }) => {
    const env = { RANKWISE_TEST_FAULT: `misroute:rank=${culprit},a=0,b=1` };
    const { report, ...run } = await runReported(["all_to_all", "-n", String(nranks), "--mode", mode], { env });
    expect(run.stdout, run.text).toBe("");
    expect(run.exitCode).toBe(1);
    // ranks 0 and 1 have each other's chunk, and either may be the first to look
    const found = report.failure?.rank ?? Number.NaN;
    expect([0, 1]).toContain(found);
    expect(report.failure).toMatchObject({ code: "ERR_WRONG_DATA" });
    expect(report.failure?.message).toContain(
      `rank ${found} row ${culprit} holds rank ${culprit}'s chunk for rank ${1 - found}; element [${culprit}, 0]: `,
    );
  });
});

describe("builtin calls back to back on one window and one signal, with a slow rank", () => {
  const command = ["--mode", "builtin", "--", "200"];

  test.each([
    { nranks: 4, transport: "unix", size: 64, slow: 1 },
    { nranks: 3, transport: "tcp", size: 2048, slow: 0 }, // rows beyond what a put snapshots
    { nranks: 2, transport: "tcp", size: 1, slow: 1 },
  ])("are right in every one of 200 rounds: %j", async ({ nranks, transport, size, slow }) => {
    const args = [fixtureProgram("rounds"), "-n", String(nranks), "--transport", transport, ...command];
    const run = await runCli(["run", ...args, String(size), String(slow)]);
    expect(run.stdout, run.text).toBe("OK\n");
    expect(run.exitCode).toBe(0);
    expect(run.stderr.match(/200 rounds checked/gu)).toHaveLength(nranks);
  });

  // Without its ready round, a call writes at once into the windows of its peers. The slow rank sleeps between the end
  // of a call and its look at the result, in which time each peer enters the next call and overwrites its row: the slow
  // rank finds the next round's chunks. Only a peer that is stopped for all of the sleep, in each of 100 such rounds,
  // would hide it.
  test("are wrong without the ready round, so these rounds can tell", async () => {
    const env = { RANKWISE_TEST_FAULT: "skip_ready" };
    const { report, ...run } = await runReported([fixtureProgram("rounds"), "-n", "4", ...command, "64", "1"], { env });
    expect(run.stdout, run.text).toBe("");
    expect(run.exitCode).toBe(1);
    expect(report.failure?.code).toBe("ERR_WRONG_DATA");
    const said = /^rank (\d) row (\d) holds rank \2's chunk for rank \1 of round (\d+); .* expected (\d+)$/u;
    const [, , , round, expected] = said.exec(report.failure?.message ?? "") ?? [];
    const expectedRound = Math.floor(Number(expected) / (4 * 4 * 64));
    expect(Number(round), report.failure?.message).toBe(expectedRound + 1);
  });
});

/** A float32 whose most significant byte, the last one in memory, has its lowest bit changed. */
function withLastByteFlipped(value: number): number {
  const view = new DataView(new ArrayBuffer(4));
  view.setFloat32(0, value, true);
  view.setUint8(3, view.getUint8(3) ^ 1);
  return view.getFloat32(0, true);
}
