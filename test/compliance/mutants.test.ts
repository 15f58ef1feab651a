/** Whether the compliance suite can tell right from wrong: every mutant turns the guarantee that it breaks red. */
import { describe, expect, test } from "vitest";
import { type Interposed, range } from "../helpers/ranks.ts";
import { directions, prove } from "./guarantee.ts";
import { mutants } from "./mutants.ts";
import { guarantees } from "./suite.ts";

/** Seeds of the in-process transport within which a mutant must show. */
const SEEDS_MAX = 20;

test("every guarantee has a mutant", () => {
  const broken = new Set(mutants.map(({ breaks }) => breaks));
  expect(guarantees.map(({ name }) => name).filter((name) => !broken.has(name))).toEqual([]);
});

describe.each(directions)("is caught (%s)", (direction) => {
  test.each(mutants)("$name", async (mutant) => {
    const guarantee = guarantees.find(({ name }) => name === mutant.breaks);
    if (guarantee === undefined) throw new Error(`no guarantee "${mutant.breaks}"`);
    const failure = (seed: number, interposed: Interposed, waitTimeoutMs: number): Promise<unknown> =>
      prove(guarantee, direction, { nranks: 2, seed, interposed, waitTimeoutMs }).then(
        () => undefined,
        (error: unknown) => error,
      );
    // most mutants show by a wait that is never satisfied; what moves much has more time for it
    const timeoutMs = guarantee.job?.limits === undefined ? 100 : 1000;
    let shown: number | undefined;
    const restore = mutant.patch?.();
    try {
      for (const seed of range(SEEDS_MAX)) {
        if ((await failure(seed, mutant.interpose?.() ?? {}, timeoutMs)) === undefined) continue;
        shown = seed;
        break;
      }
    } finally {
      restore?.();
    }
    expect(shown, `${SEEDS_MAX} seeds did not show it`).toBeDefined();
    expect(await failure(shown ?? 0, {}, 5000), "the same without the mutant").toBeUndefined();
  });
});
