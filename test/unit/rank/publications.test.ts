import { describe, expect, it, vi } from "vitest";
import { Publications } from "../../../rank/publications.ts";
import type { Publication } from "../../../shared/messages.ts";
import { fails, Rig, run, settled, turn } from "../../helpers/sim.ts";

const own: Publication = {
  members: [0, 2, 1],
  groupOrdinal: 0,
  kind: "window",
  name: "data",
  ordinal: 3,
  dtype: "float32",
  shape: [4, 64],
};

describe("Publications", () => {
  it("name the members that are missing, in the group's order", () => {
    const publications = new Publications();
    expect(publications.missing(9, own)).toEqual([0, 2, 1]);
    publications.publish(2, 9, own);
    expect(publications.missing(9, own)).toEqual([0, 1]);
    for (const rank of [0, 1]) publications.publish(rank, 9, own);
    expect(publications.missing(9, own)).toEqual([]);
  });

  it("keep groups and ordinals apart", () => {
    const publications = new Publications();
    publications.publish(0, 9, own);
    expect(publications.missing(8, own)).toEqual([0, 2, 1]);
    expect(publications.missing(9, { ...own, ordinal: 4 })).toEqual([0, 2, 1]);
  });

  it.each([
    [{ kind: "signal" as const }, 'signal "data" float32 [4, 64]'],
    [{ name: "date" }, 'window "date" float32 [4, 64]'],
    [{ dtype: "int8" as const }, 'window "data" int8 [4, 64]'],
    [{ shape: [64, 4] }, 'window "data" float32 [64, 4]'],
    [{ members: [0, 1, 2] }, "in group [0, 1, 2]"],
  ])("refuse a peer's %o, showing both", (other, shown) => {
    const publications = new Publications();
    publications.publish(1, 9, { ...own, ...other });
    const mismatch = (): unknown => publications.missing(9, own);
    expect(mismatch).toThrow(expect.objectContaining({ code: "ERR_MISMATCH", context: { peer: 1, window: "data" } }));
    expect(mismatch).toThrow(shown);
    expect(mismatch).toThrow('where this rank published window "data" float32 [4, 64] in group [0, 2, 1]');
  });

  it("tell a listener of every change until it is taken away", () => {
    const publications = new Publications();
    const changed = vi.fn();
    publications.onChange(9, 3, changed);
    publications.publish(0, 9, own);
    publications.publish(1, 8, own);
    publications.free(2, 9, 3);
    expect(changed).toHaveBeenCalledTimes(2);
    publications.onChange(9, 3, undefined);
    publications.publish(1, 9, own);
    expect(changed).toHaveBeenCalledTimes(2);
  });

  it("name the members that have not freed, and forget when asked", () => {
    const publications = new Publications();
    publications.publish(0, 9, own);
    publications.free(0, 9, 3);
    expect(publications.notFreed(9, 3, own.members)).toEqual([2, 1]);
    publications.forget(9, 3);
    expect(publications.notFreed(9, 3, own.members)).toEqual([0, 2, 1]);
    expect(publications.missing(9, own)).toEqual([0, 2, 1]);
  });
});

describe("a window", () => {
  it("exists when every member has published it, and not before", async () => {
    const rig = new Rig({ nranks: 2 });
    const made = rig.comm.window("data", "int8", [4]);
    expect(await settled(made)).toBe(false);
    expect(rig.engine.pending.rows()).toMatchObject([
      { call: 'window "data"', compare: "publication by", missing: [1] },
    ]);
    rig.end();
    await expect(made).rejects.toMatchObject({ code: "ERR_GROUP_ENDED" });
  });

  it("that the ranks make differently ends the group with both forms", async () => {
    const { error, suspect } = await fails(3, (comm) =>
      comm.window("data", "float32", comm.rank === 2 ? [3, 65] : [3, 64]),
    );
    expect(error.code).toBe("ERR_MISMATCH");
    expect(error.message).toContain("[3, 65]");
    expect(error.message).toContain("[3, 64]");
    expect(suspect).toBeNull();
  });

  it("that one rank never makes is named at the deadline, with the rank", async () => {
    const { error } = await fails(
      3,
      async (comm) => {
        if (comm.rank !== 1) await comm.window("data", "int8", [1]);
        // the forgetful rank is busy with something else until the group ends
        else for (;;) await turn().then(() => comm.fence(0));
      },
      { waitTimeoutMs: 30 },
    );
    expect(error.code).toBe("ERR_WAIT_TIMEOUT");
    expect(error.message).toContain('window "data": waited 30 ms for the publication by rank 1');
  });

  // memory model, line 8
  it("takes what a rank that runs ahead has sent before this rank asked for it", async () => {
    for (let seed = 0; seed < 20; seed++) {
      await run(
        3,
        async (comm) => {
          const signal = await comm.signal("signal", [3, 1]);
          for (const peer of comm.peers) await signal.notify(peer, [comm.rank, 0], 7, "set");
          for (const peer of comm.peers) expect(await signal.wait([peer, 0], 1, "ge")).toBe(7);
        },
        { seed },
      );
    }
  });
});
