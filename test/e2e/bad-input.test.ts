import { describe, expect, test } from "vitest";
import { fixtureProgram, runReported } from "../helpers/run.ts";

// `runReported` fails when a process, socket or file is left.

describe("a call that would be wrong is refused before anything moves, and the group ends", () => {
  test.each([
    [
      "the window itself as source",
      "ERR_ALIASED_BUFFERS",
      /x and data share memory \(window "data"\).*use two buffers/u,
    ],
    ["its local part as source", "ERR_ALIASED_BUFFERS", /x and data share memory/u],
    ["a view of it as source", "ERR_ALIASED_BUFFERS", /x and data share memory/u],
    ["a put to itself that overlaps", "ERR_ALIASED_BUFFERS", /source and destination overlap in window "data"/u],
    ["a tensor as target", "ERR_NOT_A_WINDOW", /data must be a window made by comm\.window/u],
    [
      "put to rank - 1",
      "ERR_PEER_RANGE",
      /^put: peer must be an integer in \[0, 3\), got -1; .*\(rank - 1 \+ nranks\)/u,
    ],
    ["get from rank - 1", "ERR_PEER_RANGE", /^get: .* got -1; .*\(rank - 1 \+ nranks\) % nranks/u],
    ["notify of rank - 1", "ERR_PEER_RANGE", /^notify: .* got -1; .*\(rank - 1 \+ nranks\) % nranks/u],
    ["fence of rank - 1", "ERR_PEER_RANGE", /^fence: .* got -1; .*\(rank - 1 \+ nranks\) % nranks/u],
    ["put to nranks", "ERR_PEER_RANGE", /got 3$/u],
    ["put to half a rank", "ERR_PEER_RANGE", /got 0\.5$/u],
  ])("%s: %s", async (mistake, code, message) => {
    const { report, ...run } = await runReported([fixtureProgram("bad-input"), "-n", "3", "--", mistake]);
    expect(run.stdout, run.text).toBe("");
    expect(run.exitCode, run.text).toBe(1);
    expect(report.failure).toMatchObject({ rank: 0, code, message: expect.stringMatching(message) as string });
    expect(run.stderr).toContain(`rankwise: ${code}: `);
    expect(report.ranks.map(({ counters }) => counters?.payloadBytesSent)).toEqual([0, 0, 0]);
    expect(report.ranks.map(({ counters }) => counters?.payloadBytesReceived)).toEqual([0, 0, 0]);
    for (const { pid } of report.ranks) expect(isAlive(pid)).toBe(false);
  });
});

describe("a frame that no correct rank sends ends the group and names its sender", () => {
  test.each([
    ["hand", "tcp"],
    ["builtin", "unix"],
  ])("one that lands outside its window (%s, %s)", async (mode, transport) => {
    const env = { RANKWISE_TEST_FAULT: "bad_frame:rank=1,nth=2" };
    const args = ["all_to_all", "-n", "4", "--mode", mode, "--transport", transport];
    const { report, ...run } = await runReported(args, { env });
    expect(run.stdout, run.text).toBe("");
    expect(run.exitCode, run.text).toBe(1);
    expect(report.failure).toMatchObject({ rank: 1, pid: report.ranks[1]?.pid, code: "ERR_FRAME_BOUNDS" });
    expect(report.failure?.message).toMatch(
      /^rank (\d), frame from rank 1: put: 1 × 256 bytes at byte \d+ .*exceed window "data" of 1024 bytes on rank \1 \(reported by rank \1\)/u,
    );
    for (const { pid } of report.ranks) expect(isAlive(pid)).toBe(false);
  });

  test.each(["tcp", "unix"])("one above the frame limit (%s)", async (transport) => {
    const args = [fixtureProgram("bad-input"), "-n", "3", "--transport", transport, "--", "an oversized frame"];
    const { report, ...run } = await runReported(args);
    expect(run.stdout, run.text).toBe("");
    expect(run.exitCode, run.text).toBe(1);
    expect(report.failure).toMatchObject({ rank: 0, pid: report.ranks[0]?.pid, code: "ERR_FRAME_TOO_LARGE" });
    expect(report.failure?.message).toContain("FRAME_PAYLOAD_BYTES_MAX");
    for (const { pid } of report.ranks) expect(isAlive(pid)).toBe(false);
  });
});

function isAlive(pid: number | null): boolean {
  try {
    return pid !== null && process.kill(pid, 0);
  } catch {
    return false;
  }
}
