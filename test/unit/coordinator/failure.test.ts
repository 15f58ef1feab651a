import { expect, test } from "vitest";
import {
  type FailureFacts,
  failureSummary,
  reportedConsequences,
  reportedFailure,
} from "../../../coordinator/failure.ts";
import type { Incident } from "../../../coordinator/incidents.ts";
import { type RankEntry, Roster } from "../../../coordinator/roster.ts";
import { type RankState, zeroCounters } from "../../../shared/messages.ts";

const state: RankState = { counters: zeroCounters(), queues: [], calls: [], waits: [] };

function facts(overrides: Partial<FailureFacts> = {}, entries: readonly Partial<RankEntry>[] = []): FailureFacts {
  const roster = new Roster(4);
  for (const entry of roster.ranks) {
    Object.assign(entry, { pid: 100 + entry.rank, host: "box", ...entries[entry.rank] });
  }
  const cause = {
    rank: 2,
    pid: 102,
    host: "box",
    code: "ERR_PROGRAM_THREW",
    message: "Error: mine\n    at main (program.ts:3:9)",
    call: "all_to_all #3",
  } as const;
  const failure = { cause, exitCode: 1, atMs: 1500 };
  return { failure, incidents: [], roster, startedAtMs: 1000, logDir: undefined, ...overrides };
}

function incident(overrides: Partial<Incident>): Incident {
  return {
    atMs: 1250,
    rank: 0,
    pid: 100,
    host: "box",
    code: "ERR_PEER_LOST",
    message: "the link closed",
    call: null,
    ...overrides,
  };
}

const exited = { exitCode: 1, signal: null, atMs: 0, ordered: true, hurried: false };

test("first cause, stack, consequences, endings, output and exit code, each in its row", () => {
  const incidents = [
    incident({ atMs: 1234, rank: 2, code: "ERR_PROGRAM_THREW" }),
    incident({ call: "all_to_all #3" }),
    incident({ atMs: 1300, rank: null, code: "ERR_HOST_LOST", message: "gone" }),
  ];
  const killed = { exitCode: null, signal: "SIGKILL", atMs: 0, ordered: true, hurried: false };
  const text = failureSummary(
    facts({ incidents, logDir: "logs" }, [{ exit: exited }, { exit: killed }, { exit: exited }, { pid: null }]),
  );
  expect(text.split("\n")).toEqual([
    "rankwise: ERR_PROGRAM_THREW: Error: mine",
    "  first cause  +0.234 s  rank 2, pid 102, on box in all_to_all #3",
    "          at main (program.ts:3:9)",
    "  consequence  +0.250 s  rank 0: ERR_PEER_LOST in all_to_all #3: the link closed",
    "  consequence  +0.300 s  host box: ERR_HOST_LOST: gone",
    "  ended        ranks 0, 2: exited with 1",
    "  ended        rank 1: was killed by SIGKILL after the grace",
    "  ended        rank 3: never started",
    "  output       logs/rank-2.out logs/rank-2.err",
    "  exit code    1",
  ]);
});

test("who was killed by a second signal had no grace", () => {
  const exit = { exitCode: null, signal: "SIGKILL", atMs: 0, ordered: true, hurried: true };
  expect(failureSummary(facts({}, [{ exit }]))).toContain(
    "  ended        rank 0: was killed by SIGKILL at the second signal",
  );
});

test("a wait says what is awaited, what is there, and who is missing", () => {
  const wait = {
    call: "all_to_all #3",
    group: [0, 1],
    seq: 3,
    lane: 0,
    signal: "credits",
    cell: [1, 0],
    compare: "ge",
    expected: 1,
    current: 0,
    lastWriter: null,
    missing: [1],
    ageMs: 5000,
  };
  const text = failureSummary(facts({}, [{ state: { ...state, waits: [wait] } }]));
  expect(text).toContain(
    `  waiting      rank 0: all_to_all #3 for 5.0 s on "credits" [1, 0]: ge 1, now 0, missing ranks 1\n`,
  );
});

test("a mismatch has a row for each rank", () => {
  const call = { op: "all_to_all", group: [0, 1, 2, 3], groupOrdinal: 0, seq: 2, arguments: "float32 [4, 8]" };
  const mismatch = facts({}, [{ state: { ...state, calls: [call] } }, { state }]);
  const { failure } = mismatch;
  const cause = { ...failure.cause, code: "ERR_MISMATCH", message: "ranks disagree" } as const;
  const text = failureSummary({ ...mismatch, failure: { ...failure, cause } });
  expect(text).toContain("  calls        rank 0: all_to_all #2 of group [0, 1, 2, 3]: float32 [4, 8]\n");
  expect(text).toContain("  calls        rank 1: in no call\n");
  expect(text).toContain("  calls        rank 2: did not report\n");
});

test("many rows of one kind are told in part", () => {
  const incidents = Array.from({ length: 33 }, (_, atMs) => incident({ atMs }));
  expect(failureSummary(facts({ incidents }))).toContain("  consequence  … and 13 more consequences\n");
});

test("a job of which nothing was started needs one line", () => {
  const nobody = facts({}, [{ pid: null }, { pid: null }, { pid: null }, { pid: null }]);
  const cause = { ...nobody.failure.cause, code: "ERR_PROGRAM_SYNTAX", message: "program.ts:1:1: no" } as const;
  expect(failureSummary({ ...nobody, failure: { ...nobody.failure, cause } })).toBe(
    "rankwise: ERR_PROGRAM_SYNTAX: program.ts:1:1: no",
  );
});

test("the report has the cause, when it was noticed, how its rank ended and where it logged", () => {
  const given = facts({ logDir: "logs" }, [{}, {}, { exit: exited }]);
  const { cause } = given.failure;
  expect(reportedFailure(given)).toEqual({
    ...cause,
    atMs: 500,
    exitCode: 1,
    signal: null,
    logs: ["logs/rank-2.out", "logs/rank-2.err"],
  });
  const certain = { ...given.failure, cause: { ...cause, rank: null } };
  expect(reportedFailure({ ...given, failure: certain })).toMatchObject({ rank: null, exitCode: null, logs: [] });
});

test("and the consequences, without the cause", () => {
  const incidents = [incident({ rank: 2, code: "ERR_PROGRAM_THREW", atMs: 1200 }), incident({})];
  const given = facts({ incidents });
  expect(reportedConsequences(given)).toEqual([
    { atMs: 250, rank: 0, pid: 100, host: "box", code: "ERR_PEER_LOST", message: "the link closed", call: null },
  ]);
  expect(reportedFailure(given).atMs, "of the incident, not of the moment when it was believed").toBe(200);
});

test("a wait without a cell is a sentence, and a missing rank says why", () => {
  const wait = {
    call: "goodbye",
    group: [0, 1],
    seq: 0,
    lane: 0,
    signal: "",
    cell: [],
    compare: "acknowledgement from",
    expected: 0,
    current: 0,
    lastWriter: null,
    missing: [3],
    ageMs: 2000,
  };
  const publication = { ...wait, call: 'window "data"', signal: "data", compare: "publication by", missing: [1, 3] };
  const reply = { ...wait, call: "get", signal: "data", compare: "reply from", missing: [1] };
  const text = failureSummary(
    facts({}, [
      { state: { ...state, waits: [wait, publication, reply] } },
      { process: "busy" },
      {},
      { process: "stopped" },
    ]),
  );
  expect(text).toContain("rank 0: goodbye for 2.0 s: waits for an acknowledgement from rank 3 (stopped)\n");
  expect(text).toContain('rank 0: window "data" for 2.0 s: waits for a publication by ranks 1 (busy), 3 (stopped)\n');
  expect(text).toContain('rank 0: get for 2.0 s about "data": waits for a reply from rank 1 (busy)\n');
  expect(text).toContain("  process      rank 1: busy: it computes without yielding\n");
  expect(text).toContain("  process      rank 3: stopped\n");
});
