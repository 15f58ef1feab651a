import { describe, expect, it } from "vitest";
import { postTransfer, queueSlots, runsOf } from "../../../../rank/collectives/submission-queue.ts";
import { handContext } from "../../../../rank/group.ts";
import type { Transport } from "../../../../rank/transport/transport.ts";
import { internalsOf } from "../../../../rank/window.ts";
import { FrameFlag, FrameKind } from "../../../../shared/frame.ts";
import { range } from "../../../helpers/ranks.ts";
import { Rig, settled } from "../../../helpers/sim.ts";

describe("queueSlots", () => {
  it.each([
    [0, 0],
    [1, 4],
    [12, 4],
    [13, 8],
    [24, 8],
    [25, 12],
    [768, 256],
    [769, 260],
  ])("%i rows take %i blocks", (rows, slots) => {
    expect(queueSlots(rows)).toBe(slots);
  });
});

describe("runsOf", () => {
  it.each([
    [[], []],
    [[5], [[5, 1]]],
    [[5, 6, 7], [[5, 3]]],
    [[5, 5], [[5, 1], [5, 1]]], // prettier-ignore
    [[7, 6], [[7, 1], [6, 1]]], // prettier-ignore
    [[1, 2, 9, 10, 3], [[1, 2], [9, 2], [3, 1]]], // prettier-ignore
  ])("%j is %j", (rows, runs) => {
    expect(runsOf(Int32Array.from(rows))).toEqual(runs);
  });
});

describe("postTransfer", () => {
  /** Posts rows 0, 2, 4, … of a private tensor to rank 1, and shows what reached the transport. */
  async function post(rowBytes: number, count: number, framePayloadBytes = 2 ** 26) {
    const rig = new Rig({ limits: { framePayloadBytes } });
    const window = await rig.window("target", "int8", [count + 3, rowBytes]);
    const payloads: (readonly Uint8Array[])[] = [];
    const recorded = recording(rig, payloads);
    rig.engine.attach(recorded);
    const input = new Uint8Array(2 * count * rowBytes).map((_, i) => i);
    const queue = rig.engine.queue(1, 0);
    const drain = postTransfer(rig.engine, handContext(rig.engine.world, "indexed"), queue, {
      peer: 1,
      input,
      rowBytes,
      rows: Int32Array.from(range(count), (row) => 2 * row),
      target: internalsOf(window)!.allocation,
      firstRow: 3,
    });
    return { rig, input, queue, drain, payloads };
  }

  function recording(rig: Rig, payloads: (readonly Uint8Array[])[]): Transport {
    return {
      address: "recorded",
      connect: () => Promise.resolve(),
      close: () => Promise.resolve(),
      send: (peer, header, payload, exempt) => {
        rig.sent.push({ peer, header: { ...header }, exempt, complete: () => {}, payload: new Uint8Array() });
        if (payload !== undefined) payloads.push(payload instanceof Uint8Array ? [payload] : payload);
        return undefined;
      },
    };
  }

  it("rows of 4 KiB and more leave from where they lie", async () => {
    const { rig, input, payloads } = await post(4096, 30);
    expect(payloads).toHaveLength(1);
    expect(payloads[0]).toHaveLength(30);
    for (const [row, piece] of payloads[0]!.entries()) {
      expect(piece.buffer).toBe(input.buffer);
      expect([piece.byteOffset, piece.byteLength]).toEqual([2 * row * 4096, 4096]);
    }
    expect(rig.sent[0]?.header).toMatchObject({ kind: FrameKind.Put, offset: 3 * 4096, rowBytes: 30 * 4096, rows: 1 });
  });

  it("shorter rows are merged by a copy", async () => {
    const { input, payloads } = await post(4095, 30);
    expect(payloads.map((pieces) => pieces.length)).toEqual([1]);
    expect(payloads[0]?.[0]?.byteLength).toBe(30 * 4095);
    expect(payloads[0]?.[0]?.buffer).not.toBe(input.buffer);
    expect(payloads[0]?.[0]?.subarray(4095, 2 * 4095)).toEqual(input.subarray(2 * 4095, 3 * 4095));
  });

  it("a doorbell is one frame of at most 64 entries, and only the last one asks for a completion", async () => {
    const { rig, queue } = await post(2, 2 * 768 + 1);
    const puts = rig.sent.map(({ header }) => header);
    expect(puts.map(({ rowBytes }) => rowBytes)).toEqual([768 * 2, 768 * 2, 2]);
    expect(puts.map(({ offset }) => offset)).toEqual([6, 6 + 768 * 2, 6 + 2 * 768 * 2]);
    expect(puts.map(({ flags }) => (flags & FrameFlag.AckNow) !== 0)).toEqual([false, false, true]);
    expect(queue).toMatchObject({ sqes: 129, wqebbs: 516, doorbells: 3, submittedWqeCount: 1 });
  });

  it("a doorbell above the frame limit is several frames, and one in the books", async () => {
    const { rig, queue } = await post(5000, 20, 12_000);
    expect(rig.sent.map(({ header }) => header.rowBytes)).toEqual(range(10).map(() => 10_000));
    expect(rig.sent.filter(({ header }) => (header.flags & FrameFlag.AckNow) !== 0)).toHaveLength(1);
    expect(queue).toMatchObject({ sqes: 2, doorbells: 1, submittedWqeCount: 1 });
  });

  it("its completion is the peer's acknowledgement, counted when it is drained", async () => {
    const { rig, queue, drain } = await post(8, 3);
    const drained = drain();
    expect(await settled(drained)).toBe(false);
    expect(queue.cqes).toBe(0);
    rig.feed(1, { kind: FrameKind.Ack, ack: rig.engine.peer(1).sent });
    await drained;
    expect(queue.cqes).toBe(1);
  });

  it("a group that ends rejects what is not drained", async () => {
    const { rig, queue, drain } = await post(8, 3);
    const drained = drain();
    rig.end();
    await expect(drained).rejects.toMatchObject({ code: "ERR_GROUP_ENDED" });
    expect(queue.cqes).toBe(0);
  });
});
