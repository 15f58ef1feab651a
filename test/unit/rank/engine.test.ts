import { describe, expect, it } from "vitest";
import { Engine, type RankFailure } from "../../../rank/engine.ts";
import { RankwiseError } from "../../../shared/errors.ts";
import { frameHeader, FrameKind } from "../../../shared/frame.ts";
import { expectRefusal, Rig, turn } from "../../helpers/sim.ts";

describe("Engine", () => {
  it("reports its first failure and no other", () => {
    const rig = new Rig();
    const failure = (message: string): RankFailure => ({
      error: new RankwiseError("ERR_TIMEOUT", message),
      call: null,
      suspect: null,
    });
    rig.engine.fail(failure("first"));
    rig.engine.fail(failure("second"));
    expect(rig.failure.error.message).toBe("first");
  });

  it("reports none once the group has ended", () => {
    const rig = new Rig();
    rig.end();
    rig.engine.fail({ error: new RankwiseError("ERR_TIMEOUT", "late"), call: null, suspect: null });
    expect(rig.failures).toEqual([]);
  });

  it("ends once: the first cause stays the first", async () => {
    const rig = new Rig();
    rig.end("ERR_RANK_KILLED", 2);
    rig.end("ERR_TIMEOUT", 1);
    const error = await expectRefusal(() => rig.engine.throwIfEnded(), "ERR_GROUP_ENDED");
    expect(error.message).toBe("the group has ended; first cause: rank 2: ERR_RANK_KILLED gone");
    expect(error.cause).toBeInstanceOf(RankwiseError);
    expect(error.cause).toMatchObject({ code: "ERR_RANK_KILLED", message: "gone", context: { rank: 2 } });
    expect(rig.engine.ended).toBe(true);
  });

  it("numbers its frames for each peer, and acknowledges what it has applied", async () => {
    const rig = new Rig();
    const signal = await rig.signal("signal", [3]);
    rig.feed(1, { kind: FrameKind.Ack });
    for (const peer of [1, 2, 1]) await signal.notify(peer, [0], 1, "set");
    expect(rig.sent.map(({ peer, header }) => [peer, header.serial, header.ack])).toEqual([
      [1, 2, 2],
      [2, 2, 1],
      [1, 3, 2],
    ]);
  });

  it("sends nothing before it has a transport, and nothing after its end", async () => {
    const engine = new Engine({ rank: 0, nranks: 2 });
    const send = (on: Engine) => () => on.send(on.peer(1), frameHeader({ kind: FrameKind.Ack }), undefined);
    await expectRefusal(send(engine), "ERR_INTERNAL");
    const rig = new Rig();
    rig.end();
    await expectRefusal(send(rig.engine), "ERR_GROUP_ENDED");
    await expectRefusal(() => engine.peer(2), "ERR_INTERNAL");
  });

  it("names the call it is in: the latest builtin, else the latest primitive that waits", async () => {
    const rig = new Rig();
    const [signal, credits] = [await rig.signal("signal", [3]), await rig.signal("credits", [3, 1])];
    expect(rig.engine.currentCall()).toBeNull();
    void signal.wait([0], 1, "ge").catch(() => {});
    expect(rig.engine.currentCall()).toBe("signal.wait");
    void rig.comm.barrier(credits).catch(() => {});
    await turn();
    expect(rig.engine.currentCall()).toBe("barrier #1");
    rig.end();
  });

  it("hands out copies of its counters", () => {
    const rig = new Rig();
    const { counters } = rig.engine.state();
    rig.engine.counters.puts += 1;
    expect(counters.puts).toBe(0);
  });
});

describe("groups", () => {
  it("have ids of their own: by members, order and how many there were before", () => {
    const rig = new Rig({ nranks: 4 });
    const { engine } = rig;
    const ids = [engine.world, engine.makeGroup([0, 1]), engine.makeGroup([1, 0]), engine.makeGroup([0, 1])].map(
      ({ id }) => id,
    );
    expect(new Set(ids).size).toBe(4);
    expect(ids[0]).toBe(0);
    const elsewhere = new Rig({ rank: 1, nranks: 4 }).engine;
    expect([elsewhere.makeGroup([0, 1]), elsewhere.makeGroup([1, 0])].map(({ id }) => id)).toEqual(ids.slice(1, 3));
  });

  it("number their members in list order", () => {
    const group = new Rig({ rank: 2, nranks: 4 }).engine.makeGroup([3, 2, 0]);
    expect([group.rank, group.peers(), group.world(0), group.world(2)]).toEqual([1, [0, 2], 3, 0]);
  });

  it("refuse lists that are none", async () => {
    const { comm } = new Rig({ rank: 1, nranks: 3 });
    await expectRefusal(() => comm.group([0, 2]), "ERR_NOT_MEMBER");
    const outside = await expectRefusal(() => comm.group([1, 3]), "ERR_PEER_RANGE");
    expect(outside.message).toBe("group: member ranks[1] must be an integer in [0, 3), got 3");
    await expectRefusal(() => comm.group([1, 1]), "ERR_INVALID_ARGUMENT");
    await expectRefusal(() => comm.group(1 as never), "ERR_INVALID_ARGUMENT");
  });
});
