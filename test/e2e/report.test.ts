import { describe, expect, test } from "vitest";
import type { Counters } from "../../shared/messages.ts";
import type { RunReport } from "../../shared/report.ts";
import { fixtureProgram, runReported } from "../helpers/run.ts";

const P = 4;

const counterNames = [
  "puts",
  "gets",
  "notifies",
  "waits",
  "barriers",
  "payloadBytesSent",
  "payloadBytesReceived",
  "framesSent",
  "wireBytesSent",
] as const satisfies (keyof Counters)[];

/** What one call of all_to_all costs a rank, by the table of the collectives. */
function allToAllCost(nranks: number, rowBytes: number, call: number): { received: number; rounds: number } {
  return { received: (nranks - 1) * rowBytes, rounds: call === 1 ? 1 : 2 }; // a window in use needs the ready round
}

describe("the report of a good run", () => {
  test("has all its fields", async () => {
    const args = ["all_to_all", "-n", String(P), "-p", "a2a3sim", "--mode", "builtin", "--transport", "tcp"];
    const { report, ...run } = await runReported(args);
    expect(report, run.text).toMatchObject({
      ok: true,
      program: "all_to_all",
      mode: "builtin",
      platform: "a2a3sim",
      nranks: P,
      epoch: 0,
      transport: "tcp",
      exitCode: 0,
      failure: null,
    });
    expect(report.wallMs).toBeGreaterThan(0);
    expect(report.wallMs).toBeLessThanOrEqual(run.wallMs);
    expect(report.ranks).toHaveLength(P);
    for (const [rank, row] of report.ranks.entries()) {
      expect(row).toMatchObject({ rank, exitCode: 0, signal: null, host: expect.any(String) as string });
      for (const name of counterNames) expect(row.counters?.[name], name).toSatisfy(Number.isSafeInteger);
    }
    const pids = new Set(report.ranks.map(({ pid }) => pid));
    expect(pids.size, "each rank is a process of its own").toBe(P);
    expect(pids).not.toContain(null);
  });

  test.each([
    ["tcp", "tcp"],
    ["unix", "unix"],
    ["auto", "unix"],
  ])("says for --transport %s that the links were %s", async (asked, used) => {
    const { report, ...run } = await runReported(["all_to_all", "-n", "2", "--transport", asked]);
    expect(report.transport, run.text).toBe(used);
  });
});

describe("counters", () => {
  test("of all_to_all by hand are what the program wrote", async () => {
    const { report } = await runReported(["all_to_all", "-n", String(P), "--mode", "hand"]);
    for (const counters of countersOf(report)) {
      expect(counters).toMatchObject({ puts: P, gets: 0, notifies: P - 1, waits: P - 1, barriers: 0 });
      expect(counters).toMatchObject(payload((P - 1) * 64 * 4));
      // counted where they are written: at least the program's own, each with its header, and all payload
      expect(counters.framesSent).toBeGreaterThanOrEqual(2 * (P - 1));
      expect(counters.wireBytesSent).toBeGreaterThanOrEqual(counters.payloadBytesSent + 64 * counters.framesSent);
    }
  });

  test("of the builtin all_to_all are those of the table", async () => {
    const { report } = await runReported(["all_to_all", "-n", String(P), "--mode", "builtin"]);
    const { received, rounds } = allToAllCost(P, 64 * 4, 1);
    for (const counters of countersOf(report)) {
      expect(counters).toMatchObject({ puts: P, gets: 0, barriers: rounds, ...payload(received) });
      // a credit to each peer in the one round, and each taken back at the end
      expect(counters).toMatchObject({ notifies: 2 * (P - 1), waits: P - 1 });
    }
  });

  test.each([1, 2, P])(
    "of many builtin calls are the table's, summed, ready rounds included (%i ranks)",
    async (nranks) => {
      const { report } = await runReported([fixtureProgram("count-calls"), "-n", String(nranks), "--mode", "builtin"]);
      const calls = [
        ...[1, 2, 3].map((call) => allToAllCost(nranks, 8 * 4, call)),
        allToAllCost(nranks, 20, 1),
        ...Array.from({ length: 2 }, () => ({ received: 0, rounds: 1 })), // the barriers
      ];
      const total = (value: (call: (typeof calls)[number]) => number): number =>
        calls.reduce((sum, call) => sum + value(call), 0);
      const rounds = total((call) => call.rounds);
      expect(rounds).toBe(8);
      for (const counters of countersOf(report)) {
        expect(counters).toMatchObject({ barriers: rounds, puts: 4 * nranks, gets: 0 });
        expect(counters).toMatchObject(payload(total((call) => call.received)));
        // one credit a round and peer, and one notify a call and peer that takes them back
        expect(counters.notifies).toBe((rounds + calls.length) * (nranks - 1));
        expect(counters.waits).toBe(rounds * (nranks - 1));
      }
    },
  );

  test("go on counting for peers that put and get after a rank's own end", async () => {
    const { report } = await runReported([fixtureProgram("leaves-early"), "-n", "2"]);
    expect(countersOf(report)).toMatchObject([
      { puts: 0, gets: 0, payloadBytesReceived: 8, payloadBytesSent: 8 },
      { puts: 1, gets: 1, payloadBytesReceived: 8, payloadBytesSent: 8 },
    ]);
  });

  test.each([1, 2, P])("of primitives are one for each call, and no payload to oneself (%i ranks)", async (nranks) => {
    const { report } = await runReported([fixtureProgram("count-calls"), "-n", String(nranks), "--mode", "hand"]);
    for (const counters of countersOf(report)) {
      expect(counters).toMatchObject({
        puts: nranks + (nranks - 1), // put, and putSignal, which is a put and a notify in one frame
        gets: nranks,
        notifies: nranks + (nranks - 1),
        waits: nranks + (nranks - 1),
        barriers: 0,
        ...payload((nranks - 1) * (32 + 8 + 32)),
      });
      if (nranks === 1) expect(counters).toMatchObject({ framesSent: 0, wireBytesSent: 0 });
    }
  });
});

describe("the report of a failed run", () => {
  test("names the first cause, and has every rank's counters", async () => {
    const env = { RANKWISE_TEST_FAULT: "flip_byte:rank=2" };
    const { report, ...run } = await runReported(["all_to_all", "-n", String(P), "--mode", "builtin"], { env });
    expect(run.exitCode, run.text).toBe(1);
    expect(report).toMatchObject({ ok: false, exitCode: 1, nranks: P, epoch: 0 });
    expect(report.failure).toEqual({
      rank: 2,
      pid: report.ranks[2]?.pid,
      host: report.ranks[2]?.host,
      code: "ERR_WRONG_DATA",
      message: expect.stringContaining("rank 2 row ") as string,
      call: null, // the call itself had completed
      atMs: expect.any(Number) as number,
      exitCode: 1,
      signal: null,
      logs: [],
    });
    for (const counters of countersOf(report)) expect(counters.puts).toBe(P);
  });
});

/** Counters of every rank; a rank without them fails the test. */
function countersOf(report: RunReport): Counters[] {
  return report.ranks.map(({ rank, counters }) => {
    if (counters === null) throw new Error(`rank ${rank} has no counters`);
    return counters;
  });
}

/** In these programs, every rank sends as much as it receives. */
function payload(bytes: number): Pick<Counters, "payloadBytesReceived" | "payloadBytesSent"> {
  return { payloadBytesReceived: bytes, payloadBytesSent: bytes };
}
