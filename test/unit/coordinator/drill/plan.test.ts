import { describe, expect, test } from "vitest";
import { type DrillRequest, parsePoint, planDrills } from "../../../../coordinator/drill/plan.ts";
import { scenarios } from "../../../../coordinator/drill/scenarios.ts";

const request: DrillRequest = { names: ["random"], nranks: [2, 3, 8], at: {}, seed: 100, runs: 200 };

describe("planDrills", () => {
  test("a seed repeats its drill, alone or among others", () => {
    const drills = planDrills(request);
    expect(planDrills(request)).toEqual(drills);
    expect(planDrills({ ...request, seed: 150, runs: 1 })).toEqual([drills[50]]);
  });

  test("random drills have every scenario, number of ranks and rank, and points that exist", () => {
    const drills = planDrills(request);
    expect(new Set(drills.map(({ scenario }) => scenario.name)).size).toBe(scenarios.length);
    expect(new Set(drills.map(({ nranks }) => nranks))).toEqual(new Set([2, 3, 8]));
    for (const { rank, nranks, round, nth, scenario, call } of drills) {
      expect(rank).toBeLessThan(nranks);
      expect(round).toBeLessThan(3);
      expect(nth).toBeGreaterThan(0);
      expect(scenario.calls ?? [call]).toContain(call);
    }
  });

  test("all is every scenario, as often as asked", () => {
    const drills = planDrills({ ...request, names: ["all"], runs: 2 });
    expect(drills.map(({ scenario }) => scenario)).toEqual(scenarios.flatMap((scenario) => [scenario, scenario]));
  });

  test("a point is kept", () => {
    const at = parsePoint("call=allreduce,round=1,rank=1,nth=3");
    expect(at).toEqual({ call: "allreduce", round: 1, rank: 1, nth: 3 });
    for (const drill of planDrills({ ...request, names: ["kill", "cut-link"], at, runs: 3 })) {
      expect(drill).toMatchObject(at);
    }
  });

  test.each([
    [() => planDrills({ ...request, names: ["explode"] }), "no scenario explode; known: all, random, kill, stop"],
    [() => planDrills({ ...request, names: ["kill"], at: { rank: 9 } }), "rank 9 is not in"],
    [() => planDrills({ ...request, names: ["bad-count"], at: { call: "all_to_all" } }), "bad-count needs call="],
    [() => parsePoint("call=walk"), "--at: expected call="],
    [() => parsePoint("round=-1"), "--at: expected call="],
    [() => parsePoint("when=now"), "--at: expected call="],
  ])("what cannot be is refused: %#", (ask, message) => {
    expect(ask).toThrow(message);
  });
});
