import { describe, expect, test } from "vitest";
import { LinkJudge } from "../../../coordinator/link-judge.ts";

// liveness 1000 ms: one look each 100 ms

describe("a silent link", () => {
  test("is cut when the peer has answered within the silence and two looks ago", () => {
    const judge = new LinkJudge(1000);
    expect(judge.isCut(1, 300, 300)).toBe(false);
    judge.answered(1, 310);
    expect(judge.isCut(1, 600, 600), "a link may stand still for a while").toBe(false);
    expect(judge.isCut(1, 800, 800)).toBe(true);
    const late = new LinkJudge(1000);
    late.answered(1, 810);
    expect(late.isCut(1, 900, 900), "not yet two looks").toBe(false);
    expect(late.isCut(1, 1100, 1100)).toBe(true);
  });

  test("is none as long as the peer computes and answers nobody", () => {
    const judge = new LinkJudge(1000);
    for (let atMs = 300; atMs < 60_000; atMs += 100) expect(judge.isCut(1, atMs, atMs)).toBe(false);
  });

  test("is none when the peer answered before it fell silent", () => {
    const judge = new LinkJudge(1000);
    judge.answered(1, 1000);
    for (let silentMs = 100; silentMs < 5000; silentMs += 100) {
      expect(judge.isCut(1, silentMs, 1000 + silentMs), `${silentMs} ms`).toBe(false);
    }
  });

  test("counts the first answer of several, until it is old", () => {
    const judge = new LinkJudge(1000);
    judge.answered(1, 1000);
    judge.answered(1, 1100);
    expect(judge.isCut(1, 800, 1200)).toBe(true);
    judge.answered(1, 2000);
    expect(judge.isCut(1, 800, 2100)).toBe(false);
    judge.clear();
    expect(judge.isCut(1, 9000, 2300)).toBe(false);
  });
});
