import { describe, expect, test } from "vitest";
import { describeExit, exitCause, exitCodeOf, hostLostCause } from "../../../coordinator/causes.ts";
import type { RankEntry } from "../../../coordinator/roster.ts";
import { type ErrorCode, errorTable } from "../../../shared/errors.ts";

const entry: RankEntry = {
  rank: 2,
  supervisor: 1,
  host: "box",
  pid: 7,
  link: "closed",
  goodbye: false,
  state: null,
  asked: null,
  process: null,
  exit: { exitCode: null, signal: "SIGKILL", atMs: 0, ordered: false, hurried: false },
};

describe("exitCodeOf", () => {
  test("is documented for every code: 2 usage, 3 rendezvous, 124 timeout, 143 interrupted, else 1", () => {
    const byExitCode: Partial<Record<string, ErrorCode[]>> = {};
    for (const code of Object.keys(errorTable) as ErrorCode[]) {
      const exitCode = exitCodeOf({ code }, null);
      if (exitCode !== 1) (byExitCode[exitCode] ??= []).push(code);
    }
    expect(byExitCode).toEqual({
      "2": ["ERR_USAGE", "ERR_PROGRAM_NOT_FOUND", "ERR_PROGRAM_SYNTAX", "ERR_PROGRAM_INVALID"],
      "3": [
        "ERR_PORT_IN_USE",
        "ERR_COORDINATOR_UNREACHABLE",
        "ERR_UNAUTHORIZED",
        "ERR_TLS",
        "ERR_PROTOCOL_VERSION",
        "ERR_FOREIGN_JOB",
        "ERR_STALE_EPOCH",
        "ERR_DUPLICATE_RANK",
        "ERR_BAD_HELLO",
        "ERR_HELLO_TIMEOUT",
        "ERR_LIMIT",
        "ERR_JOIN_TIMEOUT",
        "ERR_TEMP_DIR",
      ],
      "74": ["ERR_FILE_WRITE"],
      "124": ["ERR_TIMEOUT"],
      "143": ["ERR_INTERRUPTED"],
      "128": ["ERR_RANK_KILLED"],
    });
  });

  test.each([
    ["ERR_RANK_EXITED", { exitCode: 7, signal: null }, 7],
    ["ERR_RANK_EXITED", { exitCode: 0, signal: null }, 1],
    ["ERR_RANK_KILLED", { exitCode: null, signal: "SIGKILL" }, 137],
    ["ERR_RANK_KILLED", { exitCode: null, signal: "SIGSEGV" }, 139],
    ["ERR_WRONG_DATA", { exitCode: 9, signal: null }, 1],
  ] as const)("%s of a rank that ended with %j is %d", (code, exit, exitCode) => {
    expect(exitCodeOf({ code }, exit)).toBe(exitCode);
  });

  test("SIGINT to the coordinator is 130", () => {
    expect(exitCodeOf({ code: "ERR_INTERRUPTED" }, null, "SIGINT")).toBe(130);
  });
});

test("an exit says how and when", () => {
  expect(describeExit({ exitCode: 7, signal: null })).toBe("exited with 7");
  expect(exitCause(entry)).toEqual({
    rank: 2,
    pid: 7,
    host: "box",
    code: "ERR_RANK_KILLED",
    message: "rank 2 was killed by SIGKILL before its goodbye",
    call: null,
  });
  expect(exitCause({ ...entry, goodbye: true }).message).toContain("after its goodbye");
});

test("a lost host names itself and its ranks", () => {
  const cause = hostLostCause({ id: 1, host: "box", pid: 7, ranks: [3], status: "lost" }, "it did not answer");
  expect(cause.message).toBe("the supervisor of host box (rank 3) is lost: it did not answer");
});
