import { describe, expect, test } from "vitest";
import { type Drill, planDrills } from "../../../../coordinator/drill/plan.ts";
import { judge, type Observation } from "../../../../coordinator/drill/verdict.ts";

const times = { livenessMs: 1000, waitTimeoutMs: 2000 };

function drill(name: string): Drill {
  const [planned] = planDrills({ names: [name], nranks: [4], at: { rank: 2 }, seed: 0, runs: 1 });
  if (planned === undefined) throw new Error("nothing was planned");
  return planned;
}

const killed: Observation = {
  struck: true,
  exitCode: 137,
  signal: null,
  ok: false,
  code: "ERR_RANK_KILLED",
  rank: 2,
  message: "rank 2 was killed by SIGKILL",
  settledMs: [10, 20, undefined, 30],
  goneMs: 500,
  leftovers: [],
  nextOk: true,
};

describe("a verdict", () => {
  test("passes what is as it must be", () => {
    expect(judge(drill("kill"), killed, times)).toEqual({ passed: true, faults: [], settledMs: 30 });
  });

  const wrong: [string, Partial<Observation>, string][] = [
    ["another rank named", { rank: 1 }, "named is rank 1"],
    ["nobody named", { rank: null }, "named is nobody"],
    ["another cause", { code: "ERR_PEER_LOST" }, "the cause is ERR_PEER_LOST"],
    ["success", { ok: true }, "as if it had worked"],
    ["a call that never settled", { settledMs: [10, undefined, undefined, 30] }, "the call of rank 1 never settled"],
    ["a call that settled late", { settledMs: [10, 20, undefined, 251] }, "rank 3 settled after 251 ms, at most 250"],
    ["processes that went late", { goneMs: 2001 }, "gone after 2001 ms, at most 2000"],
    ["processes that never went", { goneMs: undefined }, "never went"],
    ["a file left", { leftovers: ["file rw-1"] }, "left behind: file rw-1"],
    ["a next run that failed", { nextOk: false }, "the next run failed"],
    ["a fault that never struck", { struck: false }, "never struck"],
  ];
  test.each(wrong)("fails %s", (_what, change, fault) => {
    const verdict = judge(drill("kill"), { ...killed, ...change }, times);
    expect(verdict.passed).toBe(false);
    expect(verdict.faults.join("; ")).toContain(fault);
  });

  test("gives a stop its liveness, and a hang its deadline", () => {
    const stopped = { ...killed, code: "ERR_RANK_STOPPED", goneMs: 2900, settledMs: [1200, 1, undefined, 1] } as const;
    expect(judge(drill("stop"), stopped, times).faults).toEqual([]);
    expect(judge(drill("stop"), { ...stopped, settledMs: [1300, 1, undefined, 1] }, times).passed).toBe(false);
    const message = "all_to_all #2: waited 2000 ms for cell [2, 0] …, last changed by nobody, missing rank 2. Either";
    const hung = { ...stopped, code: "ERR_WAIT_TIMEOUT", rank: 0, message, goneMs: 3900 } as const;
    expect(judge(drill("hang"), hung, times).faults).toEqual([]);
    expect(judge(drill("hang"), { ...hung, message: message.replace("rank 2", "rank 3") }, times).passed).toBe(false);
  });

  test("takes either end of a link, and nobody else", () => {
    const cut = { ...killed, code: "ERR_PEER_LOST", settledMs: [1, 1, 1, 1] } as const;
    expect([0, 1, 2, 3].map((rank) => judge(drill("reset-link"), { ...cut, rank }, times).passed)).toEqual([
      false,
      false,
      true,
      true,
    ]);
  });

  test("wants success of a group that is only slow", () => {
    const good = { ...killed, ok: true, code: null, rank: null, exitCode: 0 };
    expect(judge(drill("slow"), good, times).passed).toBe(true);
    expect(judge(drill("slow"), killed, times).faults.join()).toContain("the job failed: ERR_RANK_KILLED");
  });
});
