import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  Rendezvous,
  type RendezvousCommand,
  type RendezvousEvent,
  type RendezvousOptions,
} from "../../../coordinator/rendezvous.ts";
import { PROTOCOL_VERSION } from "../../../shared/constants.ts";

const options: RendezvousOptions = { job: "j", epoch: 0, nranks: 3, joinTimeoutMs: 1000, startedAtMs: 100 };

function supervisor(connection: number, slots: number): RendezvousEvent {
  return { type: "supervisor_joins", connection, version: PROTOCOL_VERSION, slots };
}

function rank(rank: number, overrides: object = {}): RendezvousEvent {
  const address = `ws://host:${rank}`;
  const identity = { version: PROTOCOL_VERSION, job: "j", epoch: 0 };
  return { type: "rank_joins", connection: 100 + rank, ...identity, rank, address, ...overrides };
}

function codeOf(commands: readonly RendezvousCommand[]): string | undefined {
  const [command] = commands;
  return command?.type === "refuse" || command?.type === "fail" ? command.error.code : undefined;
}

describe("placing ranks", () => {
  test("supervisors get ranks in the order in which they join, each its share once", () => {
    const rendezvous = new Rendezvous(options);
    expect(rendezvous.handle(supervisor(1, 2))).toEqual([{ type: "assign", connection: 1, ranks: [0, 1] }]);
    expect(rendezvous.handle(supervisor(2, 4))).toEqual([{ type: "assign", connection: 2, ranks: [2] }]);
  });

  test("a supervisor more than needed is told so", () => {
    const rendezvous = new Rendezvous(options);
    rendezvous.handle(supervisor(1, 3));
    const commands = rendezvous.handle(supervisor(2, 1));
    expect(commands).toMatchObject([{ type: "refuse", connection: 2 }]);
    expect(codeOf(commands)).toBe("ERR_LIMIT");
  });
});

describe("admitting ranks", () => {
  test("start comes with the last join, go with the last ready", () => {
    const rendezvous = new Rendezvous(options);
    rendezvous.handle(supervisor(1, 3));
    expect(rendezvous.handle(rank(2))).toEqual([{ type: "admit", connection: 102, rank: 2 }]);
    rendezvous.handle(rank(0));
    expect(rendezvous.handle({ type: "rank_ready", rank: 0 })).toEqual([]);
    expect(rendezvous.handle(rank(1))).toEqual([
      { type: "admit", connection: 101, rank: 1 },
      { type: "start", addresses: ["ws://host:0", "ws://host:1", "ws://host:2"] },
    ]);
    expect(rendezvous.handle({ type: "rank_ready", rank: 2 })).toEqual([]);
    expect(rendezvous.handle({ type: "rank_ready", rank: 0 })).toEqual([]);
    expect(rendezvous.handle({ type: "rank_ready", rank: 1 })).toEqual([{ type: "go" }]);
    expect(rendezvous.deadlineMs).toBeUndefined();
  });

  test.each([
    ["ERR_PROTOCOL_VERSION", { version: PROTOCOL_VERSION + 1 }],
    ["ERR_FOREIGN_JOB", { job: "another" }],
    ["ERR_STALE_EPOCH", { epoch: 1 }],
    ["ERR_BAD_HELLO", { rank: 3 }],
    ["ERR_DUPLICATE_RANK", { connection: 7 }],
  ])("%s refuses and changes nothing", (code, overrides) => {
    const rendezvous = new Rendezvous(options);
    rendezvous.handle(rank(0));
    expect(codeOf(rendezvous.handle(rank(0, overrides)))).toBe(code);
    rendezvous.handle(rank(1));
    expect(rendezvous.handle(rank(2))).toHaveLength(2);
  });

  test("whoever comes after the end is refused", () => {
    const rendezvous = new Rendezvous(options);
    rendezvous.handle({ type: "closed" });
    expect(codeOf(rendezvous.handle(rank(0)))).toBe("ERR_GROUP_ENDED");
    expect(codeOf(rendezvous.handle(supervisor(1, 1)))).toBe("ERR_GROUP_ENDED");
  });
});

describe("the join deadline", () => {
  function late(...events: RendezvousEvent[]) {
    const rendezvous = new Rendezvous(options);
    for (const event of events) rendezvous.handle(event);
    expect(rendezvous.handle({ type: "tick", atMs: 1099 })).toEqual([]);
    const [command] = rendezvous.handle({ type: "tick", atMs: 1100 });
    expect(rendezvous.handle({ type: "tick", atMs: 1200 })).toEqual([]);
    return command?.type === "fail" ? command.error : undefined;
  }

  test("lists every missing rank and what it lacks", () => {
    const error = late(supervisor(1, 2), rank(1));
    expect(error?.code).toBe("ERR_JOIN_TIMEOUT");
    expect(error?.context.missing).toEqual([0, 2]);
    expect(error?.message).toBe(
      "2 of 3 ranks missing after 1 s (--join-timeout): no supervisor offered to start rank 2; started but did not join: rank 0",
    );
  });

  test("a rank that joined but could not reach its peers is missing too", () => {
    const error = late(rank(0), rank(1), rank(2), { type: "rank_ready", rank: 1 });
    expect(error?.context.missing).toEqual([0, 2]);
    expect(error?.message).toContain("joined but could not reach all peers: ranks 0, 2");
  });
});

test("any order of any events: each rank is placed and admitted once, start and go come once and complete", () => {
  const nranks = 4;
  const event: fc.Arbitrary<RendezvousEvent> = fc.oneof(
    fc
      .record({ connection: fc.nat(9), slots: fc.integer({ min: 1, max: 5 }) })
      .map((s) => supervisor(s.connection, s.slots)),
    fc
      .record({ rank: fc.nat(nranks), job: fc.constantFrom("j", "j", "j", "k") })
      .map((r) => rank(r.rank, { job: r.job })),
    fc.nat(nranks - 1).map((ready): RendezvousEvent => ({ type: "rank_ready", rank: ready })),
  );
  const run = (events: readonly RendezvousEvent[]): void => {
    const rendezvous = new Rendezvous({ ...options, nranks });
    const commands = events.flatMap((each) => rendezvous.handle(each));
    const placed = commands.flatMap((command) => (command.type === "assign" ? command.ranks : []));
    const admitted = commands.flatMap((command) => (command.type === "admit" ? [command.rank] : []));
    expect(new Set(placed).size).toBe(placed.length);
    expect(new Set(admitted).size).toBe(admitted.length);
    const starts = commands.filter((command) => command.type === "start");
    expect(starts).toHaveLength(admitted.length === nranks ? 1 : 0);
    const kinds = commands.map((command) => command.type);
    if (kinds.includes("go")) {
      expect(kinds.filter((kind) => kind === "go")).toHaveLength(1);
      expect(kinds.indexOf("go")).toBeGreaterThan(kinds.indexOf("start"));
      expect(rendezvous.handle({ type: "tick", atMs: 9999 })).toEqual([]);
    } else {
      const [failed] = rendezvous.handle({ type: "tick", atMs: 9999 });
      expect(failed?.type === "fail" && failed.error.context.missing?.length).toBeGreaterThan(0);
    }
  };
  fc.assert(fc.property(fc.array(event, { maxLength: 60 }), run), { seed: 1, numRuns: 500 });
});
