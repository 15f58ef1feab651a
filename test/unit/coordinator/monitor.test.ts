import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Monitor, type MonitorOptions } from "../../../coordinator/monitor.ts";
import type { MonitorCommand, MonitorEvent } from "../../../coordinator/monitor-events.ts";
import {
  CAUSE_SETTLE_MS,
  CIRCLE_SETTLE_MS,
  CLEAR_MS,
  LAST_WORDS_MS,
  SIGTERM_SETTLE_MS,
} from "../../../shared/constants.ts";
import type { ErrorCode } from "../../../shared/errors.ts";
import { type RankState, zeroCounters } from "../../../shared/messages.ts";

const options: MonitorOptions = { nranks: 4, startedAtMs: 0, timeoutMs: 60_000, graceMs: 1000 };
const state: RankState = { counters: zeroCounters(), queues: [], calls: [], waits: [] };

/** Without its time. */
type Happening = MonitorEvent extends infer E ? (E extends MonitorEvent ? Omit<E, "atMs"> : never) : never;

/** Drives a monitor as the coordinator does: events at their time, ticks when they are due. */
class Drive {
  readonly monitor: Monitor;
  readonly commands: (MonitorCommand & { atMs: number })[] = [];
  nowMs = 0;

  constructor(overrides: Partial<MonitorOptions> = {}) {
    const settings = { ...options, ...overrides };
    this.monitor = new Monitor(settings);
    const ranks = Array.from({ length: settings.nranks }, (_, rank) => rank);
    const half = Math.ceil(settings.nranks / 2);
    this.at(0, { type: "supervisor_joined", supervisor: 10, host: "a", pid: 1, ranks: ranks.slice(0, half) });
    this.at(0, { type: "supervisor_joined", supervisor: 20, host: "b", pid: 2, ranks: ranks.slice(half) });
    for (const rank of ranks) this.at(0, { type: "spawned", rank, pid: 100 + rank });
    for (const rank of ranks) {
      this.at(0, { type: "rank_joined", rank, pid: 100 + rank, host: rank < half ? "a" : "b" });
    }
  }

  /** Lets time pass until then, with ticks, and hands over an event. */
  at(atMs: number, happening: Happening): this {
    this.until(atMs);
    this.#handle({ ...happening, atMs });
    return this;
  }

  until(atMs: number): this {
    for (let due = this.monitor.deadlineMs; due !== undefined && due <= atMs; due = this.monitor.deadlineMs) {
      this.nowMs = due;
      this.#handle({ type: "tick", atMs: due });
    }
    this.nowMs = atMs;
    return this;
  }

  /** Whatever is told to end does so, and the rest takes its time. */
  toTheEnd(): this {
    return this.at(this.nowMs, { type: "cleared", supervisor: 10 })
      .at(this.nowMs, { type: "cleared", supervisor: 20 })
      .until(this.nowMs + 120_000);
  }

  kinds(): string[] {
    return this.commands.map(({ type }) => type);
  }

  find<T extends MonitorCommand["type"]>(
    type: T,
  ): (Extract<MonitorCommand, { type: T }> & { atMs: number }) | undefined {
    return this.commands.find((command) => command.type === type) as never;
  }

  #handle(event: MonitorEvent): void {
    for (const command of this.monitor.handle(event)) this.commands.push({ ...command, atMs: event.atMs });
  }
}

function failed(rank: number, code: ErrorCode, suspect: number | null = null, call: string | null = null): Happening {
  return { type: "rank_failed", rank, error: { code, message: `${code} on ${rank}`, context: {} }, call, suspect };
}

function lost(rank: number, suspect: number): Happening {
  return failed(rank, "ERR_PEER_LOST", suspect);
}

function exited(rank: number, exitCode: number | null, signal: string | null = null): Happening {
  return { type: "rank_exited", rank, exitCode, signal };
}

function closed(rank: number): Happening {
  return { type: "rank_link_closed", rank };
}

function goodbye(rank: number): Happening {
  return { type: "goodbye", rank, state };
}

describe("a good run", () => {
  test("end follows the last goodbye, terminate the last exit, finished the last clearance", () => {
    const drive = new Drive();
    for (const rank of [0, 1, 2]) drive.at(10, goodbye(rank));
    expect(drive.kinds()).toEqual([]);
    drive.at(20, goodbye(3));
    expect(drive.kinds()).toEqual(["end"]);
    for (const rank of [0, 1, 2, 3]) drive.at(30, closed(rank)).at(30, exited(rank, 0));
    expect(drive.kinds()).toEqual(["end", "terminate"]);
    drive.at(31, { type: "cleared", supervisor: 10 });
    expect(drive.kinds()).toHaveLength(2);
    drive.at(32, { type: "cleared", supervisor: 20 });
    expect(drive.find("finished")).toMatchObject({ exitCode: 0, atMs: 32 });
    expect(drive.monitor.failure).toBeNull();
  });

  test("a rank that does not leave after the end is ended, and nothing has failed", () => {
    const drive = new Drive();
    for (const rank of [0, 1, 2, 3]) drive.at(10, goodbye(rank));
    for (const rank of [0, 1, 2]) drive.at(20, exited(rank, 0));
    drive.until(1009);
    expect(drive.kinds()).toEqual(["end"]);
    drive.until(1010);
    expect(drive.kinds()).toEqual(["end", "terminate"]);
    drive.at(2020, exited(3, null, "SIGKILL")).toTheEnd();
    expect(drive.find("finished")).toMatchObject({ exitCode: 0 });
  });

  test("a rank that exits with 0 after its goodbye, before the end, has not failed", () => {
    const drive = new Drive().at(5, goodbye(1)).at(6, closed(1)).at(6, exited(1, 0)).until(1000);
    expect(drive.kinds()).toEqual([]);
    for (const rank of [0, 2, 3]) drive.at(1001, goodbye(rank)).at(1002, exited(rank, 0));
    expect(drive.toTheEnd().find("finished")).toMatchObject({ exitCode: 0 });
  });

  test("links that close after the end are no failure", () => {
    const drive = new Drive();
    for (const rank of [0, 1, 2, 3]) drive.at(10, goodbye(rank));
    drive.at(11, closed(0)).at(12, lost(1, 0)).until(200);
    for (const rank of [0, 1, 2, 3]) drive.at(210, exited(rank, 0));
    expect(drive.toTheEnd().find("finished")).toMatchObject({ exitCode: 0 });
  });

  test("a host that is lost before it has said that nothing is left is a failure", () => {
    const drive = new Drive();
    for (const rank of [0, 1, 2, 3]) drive.at(10, goodbye(rank)).at(10, exited(rank, 0));
    drive.at(20, { type: "supervisor_lost", supervisor: 20, reason: "gone" }).toTheEnd();
    expect(drive.monitor.failure?.cause.code).toBe("ERR_HOST_LOST");
    expect(drive.find("finished")).toMatchObject({ exitCode: 1 });
  });

  test("a supervisor that never says that nothing is left is a failure, in bounded time", () => {
    const drive = new Drive();
    for (const rank of [0, 1, 2, 3]) drive.at(10, goodbye(rank)).at(10, exited(rank, 0));
    drive.at(20, { type: "cleared", supervisor: 10 }).until(10_000);
    expect(drive.monitor.failure?.cause).toMatchObject({ code: "ERR_HOST_LOST", host: "b" });
    expect(drive.find("finished")?.atMs).toBeLessThanOrEqual(10 + options.graceMs + CLEAR_MS);
  });
});

describe("exit codes of the first cause", () => {
  const endings: [string, Happening[], number][] = [
    ["a thrown error", [failed(1, "ERR_PROGRAM_THREW")], 1],
    ["wrong data", [failed(1, "ERR_WRONG_DATA")], 1],
    ["an invalid program", [failed(1, "ERR_PROGRAM_INVALID")], 2],
    ["exit 7", [closed(1), exited(1, 7)], 7],
    ["exit 0 before the goodbye", [closed(1), exited(1, 0)], 1],
    ["SIGKILL", [closed(1), exited(1, null, "SIGKILL")], 137],
    ["SIGSEGV", [closed(1), exited(1, null, "SIGSEGV")], 139],
    ["a crash after the goodbye", [goodbye(1), closed(1), exited(1, null, "SIGABRT")], 134],
    ["a bad message", [failed(1, "ERR_BAD_MESSAGE"), closed(1)], 1],
    ["a lost host", [{ type: "supervisor_lost", supervisor: 10, reason: "its connection closed" }], 1],
    ["SIGINT", [{ type: "interrupted", signal: "SIGINT" }], 130],
    ["SIGTERM", [{ type: "interrupted", signal: "SIGTERM" }], 143],
    ["SIGHUP", [{ type: "interrupted", signal: "SIGHUP" }], 129],
  ];
  test.each(endings)("%s", (_name, happenings, exitCode) => {
    const drive = new Drive();
    for (const happening of happenings) drive.at(50, happening);
    drive.until(1000).toTheEnd();
    expect(drive.kinds()).toEqual(["abort", "terminate", "finished"]);
    expect(drive.find("finished")?.exitCode).toBe(exitCode);
  });

  test("the run's timeout is 124", () => {
    const drive = new Drive({ timeoutMs: 500 }).until(499);
    expect(drive.kinds()).toEqual([]);
    drive.until(500).toTheEnd();
    expect(drive.monitor.failure?.cause.code).toBe("ERR_TIMEOUT");
    expect(drive.find("finished")?.exitCode).toBe(124);
  });

  test("a failed rendezvous is 3", () => {
    const error = { code: "ERR_JOIN_TIMEOUT", message: "missing: 1", context: { missing: [1] } } as const;
    const drive = new Drive().at(7, { type: "rendezvous_failed", error }).toTheEnd();
    expect(drive.find("finished")?.exitCode).toBe(3);
  });
});

describe("cause and consequence", () => {
  test("what a rank says of itself is believed at once", () => {
    const drive = new Drive().at(50, failed(2, "ERR_PROGRAM_THREW", null, "all_to_all #3"));
    expect(drive.find("abort")).toMatchObject({
      atMs: 50,
      cause: { rank: 2, pid: 102, host: "b", code: "ERR_PROGRAM_THREW", call: "all_to_all #3" },
    });
  });

  test("an accusation waits for the exit of the accused", () => {
    const drive = new Drive().at(50, lost(0, 3)).at(51, lost(1, 3)).at(60, closed(3));
    expect(drive.kinds()).toEqual([]);
    drive.at(70, exited(3, null, "SIGKILL"));
    expect(drive.find("abort")).toMatchObject({ atMs: 70, cause: { rank: 3, code: "ERR_RANK_KILLED" } });
  });

  test("an accusation waits for the accused's own word", () => {
    const drive = new Drive().at(50, lost(0, 3)).at(70, failed(3, "ERR_WRONG_DATA"));
    expect(drive.find("abort")).toMatchObject({ atMs: 70, cause: { rank: 3, code: "ERR_WRONG_DATA" } });
  });

  test("an accusation that nothing confirms is believed in the end", () => {
    const drive = new Drive().at(50, lost(0, 3)).until(49 + CAUSE_SETTLE_MS);
    expect(drive.kinds()).toEqual([]);
    drive.until(1000);
    expect(drive.find("abort")).toMatchObject({
      atMs: 50 + CAUSE_SETTLE_MS,
      cause: { rank: 3, code: "ERR_PEER_LOST" },
    });
  });

  test("an accusation is followed to the end of its chain", () => {
    const drive = new Drive().at(50, lost(0, 1)).at(51, lost(1, 2)).at(52, closed(1)).at(53, exited(1, 1));
    expect(drive.kinds()).toEqual([]);
    drive.at(60, exited(2, 7)).at(61, closed(2));
    expect(drive.find("abort")).toMatchObject({ atMs: 61, cause: { rank: 2, code: "ERR_RANK_EXITED" } });
  });

  test("two ranks that accuse each other settle it by who ended", () => {
    const drive = new Drive()
      .at(50, lost(0, 1))
      .at(51, lost(1, 0))
      .at(60, closed(1))
      .at(60, exited(1, null, "SIGKILL"));
    expect(drive.find("abort")).toMatchObject({ atMs: 60, cause: { rank: 1, code: "ERR_RANK_KILLED" } });
  });

  test("living ranks that accuse one another in a circle are believed soon", () => {
    const drive = new Drive()
      .at(50, lost(0, 1))
      .at(55, lost(1, 0))
      .until(54 + CIRCLE_SETTLE_MS);
    expect(drive.kinds()).toEqual([]);
    drive.until(1000);
    const cause = { rank: 1, code: "ERR_PEER_LOST" };
    expect(drive.find("abort")).toMatchObject({ atMs: 55 + CIRCLE_SETTLE_MS, cause });
    const three = new Drive().at(50, lost(0, 1)).at(51, lost(1, 2)).at(52, lost(2, 0)).until(1000);
    expect(three.find("abort")).toMatchObject({ atMs: 52 + CIRCLE_SETTLE_MS, cause });
  });

  test("a circle with a rank whose link has closed waits for its exit", () => {
    const drive = new Drive().at(50, lost(0, 1)).at(51, lost(1, 0)).at(52, closed(1)).until(120);
    expect(drive.kinds()).toEqual([]);
    drive.at(130, exited(1, null, "SIGKILL"));
    expect(drive.find("abort")).toMatchObject({ atMs: 130, cause: { rank: 1, code: "ERR_RANK_KILLED" } });
  });

  test("an error that a program makes of a lost peer is its consequence", () => {
    const drive = new Drive()
      .at(50, lost(0, 3))
      .at(51, failed(0, "ERR_PROGRAM_THREW"))
      .at(52, failed(1, "ERR_PROGRAM_THREW"))
      .at(60, exited(3, null, "SIGKILL"))
      .at(60, closed(3));
    expect(drive.find("abort")?.cause).toMatchObject({ rank: 3, code: "ERR_RANK_KILLED" });
  });

  test("an exit waits for the word that may still be under way on the rank's own link", () => {
    const drive = new Drive().at(50, exited(3, 1));
    expect(drive.kinds()).toEqual([]);
    drive.at(52, failed(3, "ERR_WRONG_DATA")).at(53, closed(3));
    expect(drive.find("abort")).toMatchObject({ atMs: 52, cause: { rank: 3, code: "ERR_WRONG_DATA" } });
  });

  test("a closed control link waits for the exit", () => {
    const drive = new Drive().at(50, closed(3)).at(90, exited(3, 0));
    expect(drive.find("abort")).toMatchObject({ atMs: 90, cause: { rank: 3, code: "ERR_RANK_EXITED" } });
    const silent = new Drive().at(50, closed(3)).until(1000);
    expect(silent.find("abort")).toMatchObject({
      atMs: 50 + CAUSE_SETTLE_MS,
      cause: { rank: 3, code: "ERR_PEER_LOST" },
    });
  });

  test("a bad frame is first-hand and names its sender", () => {
    const drive = new Drive().at(50, failed(0, "ERR_FRAME_BOUNDS", 2));
    expect(drive.find("abort")).toMatchObject({ atMs: 50, cause: { rank: 2, pid: 102, code: "ERR_FRAME_BOUNDS" } });
    expect(drive.find("abort")?.cause.message).toContain("reported by rank 0");
  });

  test("the end of a group is never a cause", () => {
    const drive = new Drive().at(50, failed(0, "ERR_GROUP_ENDED")).until(10_000);
    expect(drive.kinds()).toEqual([]);
  });

  test("a lost host takes the blame for its ranks, and its ranks are named", () => {
    const drive = new Drive()
      .at(50, lost(0, 3))
      .at(50, closed(2))
      .at(55, { type: "supervisor_lost", supervisor: 20, reason: "its connection closed" });
    expect(drive.find("abort")?.cause).toMatchObject({ code: "ERR_HOST_LOST", host: "b" });
    expect(drive.find("abort")?.cause.message).toContain("ranks 2, 3");
  });
});

describe("signals", () => {
  test("SIGTERM waits for an earlier cause: then that one counts", () => {
    const drive = new Drive().at(50, { type: "interrupted", signal: "SIGTERM" }).until(49 + SIGTERM_SETTLE_MS);
    expect(drive.kinds()).toEqual([]);
    drive.at(49 + SIGTERM_SETTLE_MS, closed(3)).at(49 + SIGTERM_SETTLE_MS, exited(3, 7));
    expect(drive.toTheEnd().find("finished")?.exitCode).toBe(7);
  });

  test("SIGINT does not wait", () => {
    const drive = new Drive().at(50, { type: "interrupted", signal: "SIGINT" });
    expect(drive.find("abort")).toMatchObject({ atMs: 50, cause: { code: "ERR_INTERRUPTED" } });
  });

  test("a second signal kills at once", () => {
    const drive = new Drive().at(50, { type: "interrupted", signal: "SIGINT" });
    drive.at(60, { type: "interrupted", signal: "SIGINT" }).until(10_000);
    expect(drive.commands).toMatchObject([
      { type: "abort" },
      { type: "terminate", graceMs: 1000 },
      { type: "terminate", graceMs: 0, atMs: 60 },
      { type: "finished", exitCode: 130 },
    ]);
    expect(drive.find("finished")?.atMs).toBeLessThanOrEqual(60 + CLEAR_MS);
  });
});

describe("after a failure", () => {
  test("last words are waited for, though not for long", () => {
    const drive = new Drive().at(50, failed(0, "ERR_WRONG_DATA"));
    drive.at(51, { type: "cleared", supervisor: 10 }).at(51, { type: "cleared", supervisor: 20 });
    expect(drive.find("finished")).toBeUndefined();
    drive.until(50 + LAST_WORDS_MS);
    expect(drive.find("finished")).toMatchObject({ atMs: 50 + LAST_WORDS_MS });
  });

  test("they are not waited for from ranks that have hung up or spoken", () => {
    const drive = new Drive().at(50, failed(0, "ERR_WRONG_DATA"));
    for (const rank of [0, 1]) drive.at(52, closed(rank));
    for (const rank of [2, 3]) drive.at(52, { type: "last_words", rank, state });
    drive.at(60, { type: "cleared", supervisor: 10 }).at(61, { type: "cleared", supervisor: 20 });
    expect(drive.find("finished")).toMatchObject({ atMs: 61 });
    expect(drive.monitor.roster.rank(2).state).toEqual(state);
  });

  test("a supervisor that does not answer delays the end by no more than grace and a second", () => {
    const drive = new Drive().at(50, failed(0, "ERR_WRONG_DATA")).until(60_000);
    expect(drive.find("finished")).toMatchObject({ atMs: 50 + options.graceMs + CLEAR_MS, exitCode: 1 });
  });

  test("exits that were ordered are no incidents", () => {
    const drive = new Drive()
      .at(50, failed(0, "ERR_WRONG_DATA"))
      .at(60, exited(1, null, "SIGTERM"))
      .toTheEnd();
    expect(drive.monitor.incidents.map(({ rank, code }) => ({ rank, code }))).toEqual([
      { rank: 0, code: "ERR_WRONG_DATA" },
    ]);
  });
});

/** A rank fails for one reason; the news of it and of everything that follows arrives in any order. */
const story = fc.record({
  root: fc.nat(3),
  kind: fc.constantFrom("throws" as const, "exits" as const, "killed" as const),
  /** Delay of each rank's own connection, and of each supervisor's. */
  rankDelays: fc.array(fc.nat(CAUSE_SETTLE_MS - 20), { minLength: 4, maxLength: 4 }),
  exitDelays: fc.array(fc.nat(CAUSE_SETTLE_MS - 20), { minLength: 4, maxLength: 4 }),
  /** What each other rank makes of it. */
  reactions: fc.array(fc.constantFrom("accuse" as const, "wrap" as const, "exit" as const, "silence" as const), {
    minLength: 4,
    maxLength: 4,
  }),
  /** Who accuses the rank before it in the chain instead of the root. */
  indirect: fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }),
});

test("whatever order the news come in, no consequence is named as the cause", () => {
  const run = ({
    root,
    kind,
    rankDelays,
    exitDelays,
    reactions,
    indirect,
  }: typeof story extends fc.Arbitrary<infer S> ? S : never): void => {
    const timeline: { atMs: number; happening: Happening }[] = [];
    const onRankLink = (rank: number, step: number, happening: Happening): void => {
      timeline.push({ atMs: 100 + (rankDelays[rank] ?? 0) + step, happening });
    };
    const bySupervisor = (rank: number, happening: Happening): void => {
      timeline.push({ atMs: 100 + (exitDelays[rank] ?? 0), happening });
    };
    if (kind === "throws") onRankLink(root, 0, failed(root, "ERR_PROGRAM_THREW"));
    else {
      onRankLink(root, 0, closed(root));
      bySupervisor(root, kind === "exits" ? exited(root, 7) : exited(root, null, "SIGKILL"));
    }
    let accused = root; // a rank that accused, and by that ended, may be accused in turn
    for (const rank of [0, 1, 2, 3].filter((other) => other !== root)) {
      const reaction = reactions[rank];
      if (reaction === "silence") continue;
      onRankLink(rank, 0, lost(rank, indirect[rank] === true ? accused : root));
      if (reaction === "wrap") onRankLink(rank, 1, failed(rank, "ERR_PROGRAM_THREW"));
      if (reaction === "exit") {
        onRankLink(rank, 2, closed(rank));
        bySupervisor(rank, exited(rank, 1));
        accused = rank;
      }
    }
    const drive = new Drive();
    for (const { atMs, happening } of timeline.sort((a, b) => a.atMs - b.atMs)) drive.at(atMs, happening);
    drive.until(1000).toTheEnd();
    expect(drive.monitor.failure?.cause.rank).toBe(root);
    expect(drive.find("finished")?.exitCode).toBe({ throws: 1, exits: 7, killed: 137 }[kind]);
    const first = Math.min(...timeline.map(({ atMs }) => atMs));
    expect(drive.find("abort")?.atMs, "within 250 ms of the first news").toBeLessThanOrEqual(first + 250);
  };
  fc.assert(fc.property(story, run), { seed: 1, numRuns: 2000 });
});

test("any events in any order lead to one end, in bounded time, with commands in their order", () => {
  const rank = fc.nat(3);
  const happening: fc.Arbitrary<Happening> = fc.oneof(
    fc.tuple(rank, rank).map(([from, suspect]) => lost(from, suspect)),
    fc
      .tuple(rank, fc.constantFrom("ERR_PROGRAM_THREW", "ERR_GROUP_ENDED", "ERR_FRAME_BOUNDS"))
      .map(([from, code]) => failed(from, code as ErrorCode)),
    fc.tuple(rank, fc.constantFrom(0, 1, 7)).map(([which, code]) => exited(which, code)),
    rank.map((which) => exited(which, null, "SIGKILL")),
    rank.map(closed),
    rank.map(goodbye),
    rank.map((which): Happening => ({ type: "last_words", rank: which, state })),
    fc.constantFrom(10, 20).map((supervisor): Happening => ({ type: "cleared", supervisor })),
    fc.constantFrom(10, 20).map((supervisor): Happening => ({ type: "supervisor_lost", supervisor, reason: "gone" })),
    fc
      .constantFrom("SIGINT" as const, "SIGTERM" as const)
      .map((signal): Happening => ({ type: "interrupted", signal })),
  );
  const events = fc.array(fc.tuple(fc.nat(300), happening), { maxLength: 40 });
  const run = (steps: readonly (readonly [number, Happening])[]): void => {
    const drive = new Drive({ timeoutMs: 5000 });
    let atMs = 0;
    for (const [passed, what] of steps) drive.at((atMs += passed), what);
    drive.until(atMs + 120_000);
    const kinds = drive.kinds();
    expect(kinds.filter((kind) => kind === "finished")).toHaveLength(1);
    expect(kinds.at(-1)).toBe("finished");
    expect(kinds.filter((kind) => kind === "abort").length).toBeLessThanOrEqual(1);
    expect(kinds.filter((kind) => kind === "end").length).toBeLessThanOrEqual(1);
    expect(kinds).toContain("terminate");
    if (kinds.includes("end") && kinds.includes("abort"))
      expect(kinds.indexOf("end")).toBeLessThan(kinds.indexOf("abort"));
    expect(drive.find("finished")?.exitCode === 0).toBe(drive.monitor.failure === null);
    if (drive.monitor.failure === null) expect(kinds).toContain("end");
    const latest = Math.max(...drive.commands.map((command) => command.atMs));
    expect(latest).toBeLessThanOrEqual(5000 + 2 * options.graceMs + CLEAR_MS);
  };
  fc.assert(fc.property(events, run), { seed: 1, numRuns: 2000 });
});

describe("a stopped rank", () => {
  const stopped: Happening = { type: "rank_stopped", rank: 2, pid: 102, stoppedMs: 2250 };

  test("is the cause at once, and its exit is ordered", () => {
    const drive = new Drive().at(3000, stopped);
    expect(drive.find("abort")).toMatchObject({ atMs: 3000, cause: { rank: 2, pid: 102, code: "ERR_RANK_STOPPED" } });
    drive.at(4000, exited(2, null, "SIGKILL")).toTheEnd();
    expect(drive.monitor.failure).toMatchObject({ exitCode: 1, cause: { code: "ERR_RANK_STOPPED" } });
  });

  test("is the cause behind a peer that has lost it", () => {
    const drive = new Drive().at(10, lost(0, 2)).at(20, stopped);
    expect(drive.find("abort")?.cause).toMatchObject({ rank: 2, code: "ERR_RANK_STOPPED" });
  });

  test("is no cause when the group has failed before", () => {
    const drive = new Drive().at(10, exited(1, 7)).at(10, closed(1)).until(200).at(210, stopped).toTheEnd();
    expect(drive.monitor.failure?.cause).toMatchObject({ rank: 1, code: "ERR_RANK_EXITED" });
    expect(drive.monitor.roster.rank(2).process).toBe("stopped");
  });
});

describe("a coordinator that was stopped itself", () => {
  const stalled: Happening = { type: "stalled", stallMs: 7000 };

  test.each<[string, Happening[]]>([
    ["ranks that have ended themselves", [closed(2), exited(2, 1), closed(0), exited(0, 1)]],
    ["a rank in a loop that was killed", [closed(1), exited(1, null, "SIGKILL")]],
    ["a rank that has lost another one", [lost(3, 2), closed(2), exited(2, 1)]],
    ["a supervisor that has left", [{ type: "supervisor_lost", supervisor: 20, reason: "closed" }]],
  ])("names nobody but itself: %s", (_name, happenings) => {
    const drive = new Drive().at(9000, stalled);
    for (const happening of happenings) drive.at(9001, happening);
    drive.until(9500);
    expect(drive.find("abort")?.cause).toMatchObject({ code: "ERR_COORDINATOR_LOST", rank: null });
    expect(drive.find("abort")?.cause.message).toContain("the coordinator was stopped for 7.0 s");
    expect(drive.toTheEnd().find("finished")).toMatchObject({ exitCode: 1 });
  });

  test.each<[string, Happening[], ErrorCode]>([
    ["its own mistake", [failed(1, "ERR_PROGRAM_THREW")], "ERR_PROGRAM_THREW"],
    ["an exit with a code of its own", [closed(1), exited(1, 7)], "ERR_RANK_EXITED"],
    ["a crash", [closed(1), exited(1, null, "SIGSEGV")], "ERR_RANK_KILLED"],
  ])("still names the rank for %s", (_name, happenings, code) => {
    const drive = new Drive().at(9000, stalled);
    for (const happening of happenings) drive.at(9001, happening);
    expect(drive.until(9500).find("abort")?.cause).toMatchObject({ code, rank: 1 });
  });

  test("and nothing has failed when nobody has given it up", () => {
    const drive = new Drive().at(9000, stalled).until(12_000);
    expect(drive.kinds()).toEqual([]);
    drive.at(12_001, closed(1)).at(12_001, exited(1, null, "SIGKILL"));
    expect(drive.find("abort")?.cause, "long after the stall").toMatchObject({ code: "ERR_RANK_KILLED", rank: 1 });
  });
});

test("what processes do, and what ranks answer, changes nothing but the roster", () => {
  const drive = new Drive().at(10, { type: "rank_states", states: [{ rank: 1, state: "busy" }] });
  drive.at(20, { type: "state", rank: 0, state });
  expect(drive.commands).toEqual([]);
  expect(drive.monitor.roster.rank(1).process).toBe("busy");
  expect(drive.monitor.roster.rank(0)).toMatchObject({ asked: state, state: null });
});
