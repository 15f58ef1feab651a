/** Examples 17, 18 and 19: right on any number of ranks in both modes, and wrong where anything at all is changed. */
import { describe, expect, it } from "vitest";
import indexed from "../../../examples/17-indexed-all-to-all-v.ts";
import experts from "../../../examples/18-expert-dispatch-combine.ts";
import variable from "../../../examples/19-all-to-all-v.ts";
import { simulate } from "../../../rank/simulate.ts";
import { range } from "../../helpers/ranks.ts";

const small = ["--tokens", "12", "--topk", "4", "--dim", "8", "--experts", "4"];
const patterns = ["uniform", "skewed", "single-hot", "one-expert", "zero-tokens", "random"];
const modes = ["hand", "builtin"] as const;

const programs = [
  { name: "indexed_all_to_all_v", main: indexed, args: [] },
  { name: "all_to_all_v", main: variable, args: [] },
  ...patterns.map((pattern) => ({
    name: `expert_dispatch_combine ${pattern}`,
    main: experts,
    args: [...small, "--pattern", pattern],
  })),
];

describe.each(programs)("$name", ({ main, args }) => {
  it.each(modes)("is right on 1, 2, 3, 4, 7 and 8 ranks, in mode %s", async (mode) => {
    for (const nranks of [1, 2, 3, 4, 7, 8]) {
      const { failure } = await simulate({ nranks, seed: nranks, main, settings: { mode, args } });
      expect(failure?.error.message, `${nranks} ranks`).toBeUndefined();
    }
  });

  it.each(modes)("both modes move the same rows: what is sent by mode %s", async (mode) => {
    const other = mode === "hand" ? "builtin" : "hand";
    const [a, b] = await Promise.all(
      [mode, other].map((one) => simulate({ nranks: 3, seed: 1, main, settings: { mode: one as typeof mode, args } })),
    );
    const sent = (result: typeof a): number[] | undefined =>
      result?.states.map(({ counters }) => counters.payloadBytesSent);
    expect(sent(a)).toEqual(sent(b));
  });

  it.each(modes)("one byte of any payload changed is wrong data, in mode %s", async (mode) => {
    const run = async (nth: number) =>
      await simulate({
        nranks: 3,
        seed: 2,
        main,
        settings: { mode, args },
        testFault: `flip_byte:rank=1,nth=${nth}`,
      });
    let nth = 1;
    for (; nth <= 300; nth += mode === "hand" ? 7 : 1) {
      const { failure } = await run(nth);
      if (failure === undefined) break; // the rank has received no such payload: there are no more
      expect(failure.error.code, `payload ${nth}: ${failure.error.message}`).toBe("ERR_WRONG_DATA");
    }
    const { states } = await run(nth);
    if (states[1]!.counters.payloadBytesReceived > 0) expect(nth).toBeGreaterThan(1);
  });
});

describe.each([
  ["indexed_all_to_all_v", indexed, "row \\d+ of rank \\d"],
  ["all_to_all_v", variable, "rank \\d's row \\d for rank \\d"],
] as const)("%s", (_name, main, decoded) => {
  it.each(modes)("two destinations confused are named, in mode %s", async (mode) => {
    const { failure } = await simulate({
      nranks: 4,
      seed: 1,
      main,
      settings: { mode, args: [] },
      testFault: "misroute:rank=3,a=0,b=1",
    });
    expect(failure?.error.code).toBe("ERR_WRONG_DATA");
    expect(failure?.error.message).toMatch(new RegExp(`rank [01] row \\d+ holds (?:${decoded}|wrong data)`, "u"));
  });
});

describe("expert_dispatch_combine", () => {
  it("takes its capacity from the pattern", async () => {
    const entries = async (pattern: string, nranks: number): Promise<number> => {
      const { states } = await simulate({
        nranks,
        seed: 1,
        main: experts,
        settings: { mode: "builtin", args: [...small, "--pattern", pattern] },
      });
      return Math.max(...states.flatMap(({ queues }) => queues.map(({ sqes }) => sqes)));
    };
    expect(await entries("uniform", 2)).toBe(3 * 2); // 12 · 4 / 2 = 24 rows, three times
    expect(await entries("one-expert", 2)).toBe(2 * 4); // all 48, and one way only
  });

  it.each(modes)("a capacity that is too small ends the group with the counts, in mode %s", async (mode) => {
    const { failure, states } = await simulate({
      nranks: 2,
      seed: 1,
      main: experts,
      settings: { mode, args: [...small, "--capacity", "23"] },
    });
    expect(failure?.error.code).toBe("ERR_OUT_OF_BOUNDS");
    expect(failure?.error.message).toMatch(/24.*23.*ounts are \[24, 24\]/u);
    for (const { counters } of states) expect(counters.payloadBytesSent).toBe(0);
  });

  it("more room than needed is fine, and so are seeds", async () => {
    for (const seed of range(5)) {
      const args = [...small, "--pattern", "random", "--seed", String(seed), "--capacity", "48"];
      const { failure } = await simulate({ nranks: 3, seed, main: experts, settings: { mode: "builtin", args } });
      expect(failure?.error.message).toBeUndefined();
    }
  });

  it.each([["--pattern", "flat"], ["--tokens", "-1"], ["--width", "4"], ["--tokens"], ["uniform"]])(
    "arguments %j %j are refused with what is known",
    async (...args) => {
      const given = args.filter((arg) => typeof arg === "string");
      const { failure } = await simulate({ nranks: 1, seed: 1, main: experts, settings: { args: given } });
      expect(failure?.error.code).toBe("ERR_USAGE");
      expect(failure?.error.message).toContain("--pattern uniform|skewed|single-hot|one-expert|zero-tokens|random");
    },
  );
});
