/** What the memory model leaves to the caller is exposed when it is neglected, within a stated number of seeds. */
import { expect, test } from "vitest";
import { range } from "../helpers/ranks.ts";
import { duties, goesWell } from "./duties.ts";

test.each(duties)("line $line: $name", async (duty) => {
  let exposed: number | undefined;
  for (let seed = 0; seed < duty.seedsMax && exposed === undefined; seed++) {
    if (!(await goesWell(duty, false, seed))) exposed = seed;
  }
  expect(exposed, `${duty.seedsMax} seeds did not expose the neglect`).toBeDefined();
  for (const seed of range(duty.seedsMax)) {
    expect(await goesWell(duty, true, seed), `heeded, seed ${seed}`).toBe(true);
  }
});
