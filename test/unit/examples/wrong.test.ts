import { expect, test } from "vitest";
import { simulate } from "../../../rank/simulate.ts";
import { symptomPattern, wrongPrograms } from "../../helpers/tutorial.ts";

/** Long enough for what comes in time to come, on a busy machine; only those that shall time out are kept short. */
const [LONG_MS, SHORT_MS] = [10_000, 500];

test.each(await wrongPrograms())("$name is told: $symptom", async ({ main, symptom }) => {
  const waitTimeoutMs = symptom.startsWith("ERR_WAIT_TIMEOUT") ? SHORT_MS : LONG_MS;
  for (const seed of [1, 2]) {
    const { failure } = await simulate({ nranks: 4, seed, main, waitTimeoutMs });
    expect(failure?.error, `seed ${seed}`).toBeDefined();
    expect(`${failure?.error.code ?? ""}: ${failure?.error.message ?? ""}`).toMatch(symptomPattern(symptom));
  }
});
