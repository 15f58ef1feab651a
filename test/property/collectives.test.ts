import fc from "fast-check";
import { describe, it } from "vitest";
import { programPlans, runProgram } from "../helpers/collective-programs.ts";

describe("random programs of collectives", () => {
  // 2000 of them: npm run campaign -- collectives
  it("leave what the sequential oracle says, on every rank and in every order of deliveries", async () => {
    await fc.assert(
      fc.asyncProperty(programPlans, (plan) => runProgram(plan)),
      { numRuns: 150, seed: 4 },
    );
  });
});
