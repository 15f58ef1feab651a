/** indexed_all_to_all_v, all_to_all_v and expert dispatch on real processes. */
import { describe, expect, test } from "vitest";
import { runCli, startCli } from "../helpers/cli.ts";
import type { Counters } from "../../shared/messages.ts";
import { codeSpans, readPage } from "../helpers/markdown.ts";
import { range } from "../helpers/ranks.ts";
import { fixtureProgram, rankLines, runReported } from "../helpers/run.ts";
import { costCard, symptomsOf, wrongPrograms } from "../helpers/tutorial.ts";

const program = fixtureProgram("indexed");
const patterns = ["uniform", "skewed", "single-hot", "one-expert", "zero-tokens", "random"];

describe.each(["indexed_all_to_all_v", "all_to_all_v"])("%s", (name) => {
  test.each([
    ["hand", 4, "tcp"],
    ["builtin", 1, "auto"],
    ["builtin", 4, "unix"],
    ["builtin", 7, "tcp"],
  ])("prints OK in mode %s on %i ranks over %s", async (mode, nranks, transport) => {
    const args = ["run", name, "-n", String(nranks), "--mode", mode, "--transport", transport];
    const run = await runCli(args);
    expect(run.stdout, run.text).toBe("OK\n");
    expect(run.stderr).toBe("");
  });

  test("says when a byte has changed", async () => {
    const env = { RANKWISE_TEST_FAULT: "flip_byte:rank=1" };
    const { report, ...run } = await runReported([name, "-n", "4", "--mode", "builtin"], { env });
    expect(run.exitCode, run.text).toBe(1);
    expect(run.stdout).toBe("");
    expect(report.failure).toMatchObject({ code: "ERR_WRONG_DATA", rank: 1 });
  });
});

describe("expert_dispatch_combine", () => {
  test.each([2, 4].flatMap((nranks) => patterns.map((pattern) => ({ nranks, pattern }))))(
    "prints OK on $nranks ranks: $pattern",
    async ({ nranks, pattern }) => {
      const args = ["--pattern", pattern, "--dim", "512", "--seed", String(nranks)];
      const { report, ...run } = await runReported([
        "expert_dispatch_combine",
        ...["-n", String(nranks), "--mode", "builtin", "--", ...args],
      ]);
      expect(run.stdout, run.text).toBe("OK\n");
      const [rows] = report.ranks.map(({ queues }) =>
        queues.reduce((sum, { submittedWqeCount }) => sum + submittedWqeCount, 0),
      );
      if (pattern === "uniform") expect(rows).toBe(3 * (nranks - 1)); // tokens, notes and the way home
    },
  );

  test.each([
    ["hand", 2],
    ["builtin", 4],
  ])("at its real size, in mode %s on %i ranks", async (mode, nranks) => {
    const { report, ...run } = await runReported(["expert_dispatch_combine", "-n", String(nranks), "--mode", mode]);
    expect(run.stdout, run.text).toBe("OK\n");
    // 128 tokens × 6 are exactly balanced: to each peer 768 / P tokens of 8 KiB and notes of 12 bytes, and as many back
    const rows = ((128 * 6) / nranks) * (nranks - 1);
    for (const { counters, queues } of report.ranks) {
      expect(counters?.payloadBytesSent).toBe(rows * (8192 + 12 + 8192));
      const sqes = Math.ceil((128 * 6) / nranks / 12);
      for (const queue of queues) {
        expect(queue).toMatchObject({ sqes: 3 * sqes, wqebbs: 12 * sqes, doorbells: 3, cqes: 3, submittedWqeCount: 3 });
      }
      expect(queues).toHaveLength(mode === "hand" ? 0 : nranks - 1);
    }
  });

  test.each(["hand", "builtin"])(
    "ends with the counts when a pattern overflows the capacity, in mode %s",
    async (mode) => {
      const args = ["expert_dispatch_combine", "-n", "4", "--mode", mode, "--", "--capacity", "191"];
      const { report, ...run } = await runReported(args);
      expect(run.exitCode, run.text).toBe(1);
      expect(run.stdout).toBe("");
      expect(report.failure?.code).toBe("ERR_OUT_OF_BOUNDS");
      expect(report.failure?.message).toMatch(/rank \d: .*192.*191.*(?:sendCounts|counts) are \[192, 192, 192, 192\]/u);
      for (const { counters } of report.ranks) expect(counters?.payloadBytesSent ?? 0).toBe(0);
    },
  );

  test("an unknown pattern is a usage error that lists the known ones", async () => {
    const run = await runCli(["run", "expert_dispatch_combine", "-n", "2", "--", "--pattern", "flat"]);
    expect(run.exitCode, run.text).toBe(2);
    expect(run.stderr).toContain(patterns.join("|"));
  });
});

describe.each([
  ["indexed_all_to_all_v", "17-indexed-all-to-all-v"],
  ["expert_dispatch_combine", "18-expert-dispatch-combine"],
  ["all_to_all_v", "19-all-to-all-v"],
])("the page of %s", async (name, file) => {
  const page = await readPage(`docs/tutorial/${file}.md`);

  test("costs rank 0 what its card says", async () => {
    for (const mode of ["hand", "builtin"]) {
      const { report } = await runReported([name, "-n", "4", "--mode", mode]);
      const { counters, queues = [] } = report.ranks[0] ?? {};
      for (const row of costCard(page).rows) {
        const [counter = ""] = codeSpans(row["counter"] ?? "");
        const column = mode === "hand" ? "by hand, P = 4" : "builtin, P = 4";
        expect(counters?.[counter as keyof Counters], `${mode}: ${counter}`).toBe(Number(row[column]));
      }
      const table = page.tables.find(({ columns }) => columns.includes("lane"));
      for (const { peer, lane, rows: _, ...counts } of mode === "builtin" ? (table?.rows ?? []) : []) {
        const queue = queues.find((one) => one.peer === Number(peer) && one.lane === Number(lane));
        const written = Object.entries(counts).map(([column, value]) => [codeSpans(column)[0], Number(value)]);
        expect(queue).toMatchObject(Object.fromEntries(written) as Record<string, number>);
      }
    }
  });

  test("lists symptoms that wrong programs are told", async () => {
    const told = (await wrongPrograms()).map(({ symptom }) => symptom);
    expect(symptomsOf(page).length).toBeGreaterThan(3);
    expect(symptomsOf(page).filter((symptom) => !told.includes(symptom))).toEqual([]);
  });
});

describe("queues", () => {
  /** What a rank sends to each peer: other numbers for each, so that a queue cannot stand for another. */
  const counts = [0, 1, 11, 12, 13, 24, 25, 768, 769];

  test.each([64, 5000])("count what a recorder sees at the sockets (rows of %i bytes)", async (rowBytes) => {
    const nranks = 4;
    for (const window of rowBytes === 64
      ? [counts.slice(0, 4), counts.slice(4, 8), counts.slice(5)]
      : [[0, 13, 25, 768]]) {
      const args = ["recorded", "769", String(rowBytes), ...window.map(String)];
      const { report, ...run } = await runReported([program, "-n", String(nranks), "--sq-depth", "260", "--", ...args]);
      expect(run.stdout, run.text).toBe("OK\n");
      const recorded = rankLines(run.stderr).flatMap((line) =>
        line.startsWith("{") ? [JSON.parse(line) as Record<string, number>] : [],
      );
      expect(recorded).toHaveLength(nranks);
      for (const { rank, counters, queues } of report.ranks) {
        const total = (field: "sqes" | "doorbells" | "cqes"): number =>
          queues.reduce((sum, queue) => sum + queue[field], 0);
        expect(recorded.find((row) => row["rank"] === rank)).toEqual({
          rank,
          frames: total("doorbells"),
          entries: total("sqes"),
          completions: total("cqes"),
          bytes: counters?.payloadBytesSent,
        });
        for (const { peer, lane, ...queue } of queues) {
          const count = window[(rank + peer) % window.length] ?? 0;
          const sqes = Math.ceil(count / 12);
          expect(lane).toBe(peer % 2);
          expect(queue).toEqual({
            sqes,
            wqebbs: 4 * sqes,
            doorbells: Math.ceil(sqes / 64),
            cqes: 1,
            submittedWqeCount: 1,
          });
        }
        const remote = range(nranks).filter((peer) => peer !== rank);
        const sent = remote.map((peer) => window[(rank + peer) % window.length] ?? 0);
        expect(queues.map(({ peer }) => peer).sort()).toEqual(remote.filter((_, at) => sent[at] !== 0));
        expect(counters?.payloadBytesSent).toBe(sent.reduce((sum, count) => sum + count, 0) * rowBytes);
      }
    }
  });

  test("the report says which limits were in force", async () => {
    const args = ["indexed_all_to_all_v", "-n", "2", "--mode", "builtin"];
    expect((await runReported(args)).report).toMatchObject({ platform: "a5sim", sqDepth: 256, lanesMax: 36 });
    const { report, ...run } = await runReported([...args, "--sq-depth", "3", "--lanes-max", "2"]);
    expect(run.exitCode, run.text).toBe(1);
    expect(report).toMatchObject({ sqDepth: 3, lanesMax: 2, failure: { code: "ERR_QUEUE_DEPTH" } });
    expect(report.failure?.message).toContain("--sq-depth 4");
  });

  test("rows of 4 KiB and more need no memory beside their buffers: the peak is that of all_to_all", async () => {
    const peaks: Record<string, number> = {};
    const [rows, bytes] = [768, 65_536]; // 48 MiB to each rank
    for (const how of ["all_to_all", "indexed"]) {
      const { stderr, stdout, text } = await runCli([
        ...["run", fixtureProgram("peak-memory"), "-n", "2", "--", how, String(rows), String(bytes)],
      ]);
      expect(stdout, text).toBe("OK\n");
      peaks[how] = Math.max(...rankLines(stderr).map((line) => Number(/^peak (\d+) MiB$/u.exec(line)?.[1])));
    }
    const transferMib = (rows * bytes) / 2 ** 20;
    expect(peaks["all_to_all"]).toBeGreaterThan(4 * transferMib); // its buffers alone
    expect(peaks["indexed"], JSON.stringify(peaks)).toBeLessThan(peaks["all_to_all"]! + transferMib / 2);
  });
});

describe("a wrong value of one rank ends all ranks", () => {
  test.each([
    ["count", "-1", "count -1 for destination 2 (sendCounts slot 2) is outside [0, 10]"],
    ["count", "11", "count 11 for destination 2 (sendCounts slot 2) is outside [0, 10]"],
    ["index", "-1", "index -1 in slot 3 for destination 2 is outside [0, 20)"],
    ["index", "20", "index 20 in slot 3 for destination 2 is outside [0, 20)"],
  ])("%s %s, within 2 s", async (what, value, message) => {
    await using command = await startCli(["run", program, "-n", "3", "--", what, value]);
    await command.says(/(?:calls[^]*){3}/u);
    const calledMs = performance.now();
    const { exitCode, stderr, stdout, text } = await command.ended;
    expect(performance.now() - calledMs, text).toBeLessThan(2000);
    expect(exitCode, text).toBe(1);
    expect(stdout).toBe("");
    expect(stderr).toContain(`rankwise: ERR_OUT_OF_BOUNDS: indexed_all_to_all_v #2: rank 1: ${message}`);
    expect(stderr).toMatch(/first cause .* rank 1, pid \d+, .* in indexed_all_to_all_v #2/u);
    expect(stderr).toContain("ended        ranks 0, 1, 2: exited with 1");
  });
});

describe("a rank that is killed is named, and the others end", () => {
  test.each(["before", "between", "amid", "after"])("%s the rounds", async (when) => {
    const { report, ...run } = await runReported([program, "-n", "3", "--", "killed", when]);
    expect(run.exitCode, run.text).toBe(137);
    expect(run.stdout).toBe("");
    expect(report.failure).toMatchObject({ code: "ERR_RANK_KILLED", rank: 1, signal: "SIGKILL" });
    for (const rank of [0, 2]) expect(report.ranks[rank]).toMatchObject({ exitCode: 1 });
    const received = report.ranks[0]?.counters?.payloadBytesReceived ?? Number.NaN;
    if (when === "before") expect(received).toBe(0);
    if (when === "after") expect(received).toBe(2 * 10 * 4096); // the first call's, which completed
  });
});

describe("what the platform does not have", () => {
  test("-p a2a3sim is refused, saying what is supported", async () => {
    const { report, ...run } = await runReported([
      "indexed_all_to_all_v",
      "-n",
      "2",
      "--mode",
      "builtin",
      "-p",
      "a2a3sim",
    ]);
    expect(run.exitCode, run.text).toBe(1);
    expect(report.failure).toMatchObject({
      code: "ERR_UNSUPPORTED",
      message: "indexed_all_to_all_v: platform a2a3sim does not have it; -p a5sim does",
    });
    expect((await runCli(["run", "indexed_all_to_all_v", "-n", "2", "-p", "a2a3sim"])).stdout).toBe("OK\n"); // by hand
  });

  test("the host level is refused", async () => {
    const run = await runCli(["run", "indexed_all_to_all_v", "-n", "2", "--mode", "host"]);
    expect(run.exitCode, run.text).toBe(2);
    expect(run.stderr).toMatch(/hand or builtin.*host/u);
  });
});
