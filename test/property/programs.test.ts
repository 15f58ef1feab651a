/** Random primitive programs agree with the memory model, and the model knows a wrong execution when it sees one. */
import { describe, expect, test } from "vitest";
import { mutants } from "../compliance/mutants.ts";
import { checkAgreement, runProgram, samplePrograms } from "./agreement.ts";

describe("random programs agree with the memory model", () => {
  test("300 on the in-process transport", async () => {
    await checkAgreement({ runs: 300, seed: 20_240_607 });
  });

  test.each(["unix", "tcp direct"] as const)("40 over %s", async (transport) => {
    await checkAgreement({ runs: 40, seed: 11, run: { transport } });
  });

  test("40 with the smallest frames and gets in flight", async () => {
    const limits = { framePayloadBytes: 4096, getInFlightBytes: 1 };
    await checkAgreement({ runs: 40, seed: 12, run: { limits } });
  });

  test("they do a good deal: kinds of steps, waits that had to wait, large puts", () => {
    const steps = samplePrograms(200, 1).flatMap((program) => program.steps);
    const count = (wanted: (step: (typeof steps)[number]) => boolean): number => steps.filter(wanted).length;
    for (const kind of ["put", "get", "notify", "wait", "fence", "read", "pause"]) {
      expect(count((step) => step.kind === kind), kind).toBeGreaterThan(100); // prettier-ignore
    }
    expect(count((step) => step.kind === "put" && step.block.rows * step.block.columns > 1024)).toBeGreaterThan(50);
    expect(count((step) => step.kind === "put" && step.bit !== null)).toBeGreaterThan(50);
    expect(count((step) => step.kind === "put" && step.signal !== null)).toBeGreaterThan(50);
    expect(count((step) => step.kind === "put" && step.chunks !== null)).toBeGreaterThan(50);
  });
});

describe("the model notices", () => {
  test.each([
    "small payloads are read later than at the call",
    "local completion is told before the payload has been read",
    "a notify overtakes the put before it",
    "two puts of a pair change places",
    "frames are acknowledged before they are applied",
    "an AtomicAdd reads the cell at once and writes it a turn later",
    "a notify also writes the cell behind its own",
    "a get is served before the put in front of it",
    "memory is zeroed some turns after its publication",
  ])("%s", async (name) => {
    const mutant = mutants.find((candidate) => candidate.name === name);
    if (mutant === undefined) throw new Error(`no mutant "${name}"`);
    const restore = mutant.patch?.();
    try {
      let caught: unknown;
      for (const [seed, program] of samplePrograms(400, 7).entries()) {
        const run = { interposed: mutant.interpose?.() ?? {}, waitTimeoutMs: 100 };
        caught = await runProgram(program, seed, run).catch((error: unknown) => error);
        if (caught !== undefined) break;
      }
      expect(caught).toBeInstanceOf(Error);
    } finally {
      restore?.();
    }
  });
});

test("a seed repeats its programs", () => {
  expect(samplePrograms(5, 3)).toEqual(samplePrograms(5, 3));
  expect(samplePrograms(5, 3)).not.toEqual(samplePrograms(5, 4));
});
