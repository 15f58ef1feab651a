import { beforeEach, describe, expect, it } from "vitest";
import { type Announced, CallLedger } from "../../../../rank/collectives/ledger.ts";

/** Calls that a ledger remembers, and calls that a peer may be ahead. */
const KEPT = 64;
const EARLY = 64;

let ledger: CallLedger;
beforeEach(() => {
  ledger = new CallLedger();
});

const mismatch = (text: string): unknown =>
  expect.objectContaining({ code: "ERR_MISMATCH", message: expect.stringContaining(text) });

describe("enter", () => {
  it("numbers calls from 1, and shows those that are not left, oldest first", () => {
    const first = ledger.enter("barrier", "barrier(a)", 11);
    const second = ledger.enter("all_to_all", "all_to_all(b)", 22);
    expect([first.seq, second.seq]).toEqual([1, 2]);
    expect(ledger.current()).toEqual([
      { op: "barrier", seq: 1, arguments: "barrier(a)" },
      { op: "all_to_all", seq: 2, arguments: "all_to_all(b)" },
    ]);
    ledger.leave(first);
    expect(ledger.current().map(({ seq }) => seq)).toEqual([2]);
  });
});

describe("observe", () => {
  it("takes the same call of a peer, before, during and after it", () => {
    ledger.observe(1, 1, 11);
    const call = ledger.enter("barrier", "barrier(a)", 11);
    ledger.observe(2, 1, 11);
    ledger.leave(call);
    ledger.observe(3, 1, 11);
  });

  it("refuses another call while this one runs, naming peer, call and arguments", () => {
    ledger.enter("barrier", "barrier(a)", 11);
    expect(() => ledger.observe(2, 1, 12)).toThrow(mismatch("barrier #1: rank 2 is in a different call"));
    expect(() => ledger.observe(2, 1, 12)).toThrow(mismatch("here: barrier(a)"));
    expect(() => ledger.observe(2, 1, 12)).toThrow(
      expect.objectContaining({ context: { peer: 2, collective: "barrier", seq: 1 } }),
    );
  });

  it("refuses it after this one is left too: it must not return as if it had worked", () => {
    ledger.leave(ledger.enter("barrier", "barrier(a)", 11));
    expect(() => ledger.observe(2, 1, 12)).toThrow(mismatch("rank 2"));
  });

  it("refuses, when it is entered, a call that a peer has announced otherwise", () => {
    ledger.observe(1, 2, 22);
    ledger.observe(3, 2, 33);
    ledger.enter("barrier", "barrier(a)", 11);
    expect(() => ledger.enter("barrier", "barrier(b)", 22)).toThrow(mismatch("barrier #2: rank 3"));
  });

  it("forgets calls that are long finished, and only those", () => {
    for (let seq = 1; seq <= KEPT + 1; seq++) ledger.leave(ledger.enter("barrier", "barrier(a)", seq));
    expect(() => ledger.observe(1, 2, 99)).toThrow(mismatch("barrier #2"));
    ledger.observe(1, 1, 99);
  });

  it("never forgets a call that is still open, however far others have gone on", () => {
    const open = ledger.enter("barrier", "barrier(a)", 1);
    for (let seq = 2; seq <= KEPT + 9; seq++) ledger.leave(ledger.enter("barrier", "barrier(a)", seq));
    expect(() => ledger.observe(1, 1, 99)).toThrow(mismatch("barrier #1"));
    ledger.leave(open);
    ledger.observe(1, 1, 99);
  });

  it("remembers which peers have been heard in a call, before and while it is open", () => {
    ledger.observe(2, 1, 11);
    const call = ledger.enter("barrier", "barrier(a)", 11);
    ledger.observe(1, 1, 11);
    expect([0, 1, 2].map((peer) => ledger.heard(peer, call))).toEqual([false, true, true]);
  });

  it("takes peers that are EARLY_CALLS_MAX ahead and no more", () => {
    ledger.enter("barrier", "barrier(a)", 11);
    ledger.observe(1, 1 + EARLY, 5);
    expect(() => ledger.observe(1, 2 + EARLY, 5)).toThrow(
      expect.objectContaining({
        code: "ERR_LIMIT",
        message: `rank 1 is in call ${2 + EARLY}, more than EARLY_CALLS_MAX ${EARLY} ahead of call 1 here`,
      }),
    );
  });
});

describe("where a staged block lands", () => {
  const row = new Uint8Array(8);
  const frame = (fields: Partial<Announced> = {}): Announced => ({ seq: 1, round: 1, fingerprint: 11, ...fields });

  it("is where a running call says, for a block of that call, round and size", () => {
    const call = ledger.enter("all_to_all", "all_to_all(a)", 11);
    expect(ledger.landingOf(1, frame(), 8)).toBeUndefined();
    call.landing = (peer, round) => (peer === 1 && round === 1 ? row : undefined);
    expect(ledger.landingOf(1, frame(), 8)).toBe(row);
    expect([
      ledger.landingOf(1, frame(), 7),
      ledger.landingOf(1, frame({ round: 2 }), 8),
      ledger.landingOf(1, frame({ seq: 2 }), 8),
      ledger.landingOf(1, frame({ fingerprint: 12 }), 8),
      ledger.landingOf(2, frame(), 8),
    ]).toEqual(new Array(5).fill(undefined));
  });

  it("is nowhere for a second block, which the call does not await", () => {
    ledger.enter("all_to_all", "all_to_all(a)", 11).landing = () => row;
    ledger.stage(1, frame(), row, true);
    expect(ledger.landingOf(1, frame(), 8)).toBeUndefined();
    expect(() => ledger.stage(1, frame(), row, false)).toThrow(expect.objectContaining({ code: "ERR_BAD_FRAME" }));
  });

  it("takes no room: only blocks that wait count against STAGED_BYTES_MAX", () => {
    const large = { byteLength: 200 * 1024 * 1024 } as Uint8Array;
    for (let seq = 1; seq <= 2; seq++) ledger.enter("all_to_all", "all_to_all(a)", 11);
    ledger.stage(1, frame(), large, true);
    ledger.stage(1, frame({ seq: 2 }), large, true);
    expect([ledger.takeStaged(1, 1, 1), ledger.takeStaged(1, 2, 1)]).toEqual([large, large]);
    ledger.stage(1, frame(), large, false);
    expect(() => ledger.stage(1, frame({ seq: 2 }), large, false)).toThrow(
      expect.objectContaining({ code: "ERR_LIMIT" }),
    );
  });
});
