/** Windows in shared memory: what their owner may do with them, and when their memory goes to somebody else. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, test } from "vitest";
import { range, runRanksWell } from "../helpers/ranks.ts";

describe.each(["tcp direct", "unix direct"] as const)("over %s", (transport) => {
  test("a window's memory is not given away before what was sent from it has arrived", async () => {
    const elements = 2 * 1024 * 1024;
    await runRanksWell({
      transport,
      nranks: 3,
      main: async (comm) => {
        const sink = await comm.window("sink", "int32", [elements]);
        const credits = await comm.signal("credits", [comm.nranks, 1]);
        for (const k of range(3)) {
          const source = await comm.window("source", "int32", [elements]);
          // the others have nothing to send, so their word to free it is there at once
          const receivers = comm.rank === 0 ? comm.peers : [];
          if (comm.rank === 0) source.local.array.fill(k + 1);
          const sent = receivers.map((peer) => sink.put(peer, source.local));
          await source.free();
          const next = await comm.window("next", "int32", [elements]);
          assert.equal(next.local.array.byteOffset, source.local.array.byteOffset);
          next.local.array.fill(-1);
          await Promise.all(sent);
          await comm.barrier(credits);
          if (comm.rank !== 0) assert.ok(sink.local.array.every((value) => value === k + 1));
          await comm.barrier(credits);
          await next.free();
        }
      },
    });
  });

  test("a window's array is an array like any other", async () => {
    await runRanksWell({
      transport,
      nranks: 1,
      main: async (comm) => {
        const { local } = await comm.window("data", "float32", [2, 4]);
        const { array } = local;
        assert.ok(array.buffer instanceof SharedArrayBuffer);
        array.set([1, 2, 3]);
        array.subarray(3).fill(9);
        assert.deepEqual([...array], [1, 2, 3, 9, 9, 9, 9, 9]);
        array.copyWithin(4, 0, 2).sort();
        assert.deepEqual(array.slice(0, 4), Float32Array.of(1, 1, 2, 2));
        for (const copy of [array.slice(), Float32Array.from(array), new Float32Array(array), array.map((x) => x)]) {
          assert.ok(copy.buffer instanceof ArrayBuffer);
          assert.deepEqual([...copy], [...array]);
        }
        const bytes = Buffer.from(array.buffer, array.byteOffset, array.byteLength);
        const copy = Buffer.from(bytes);
        assert.ok(copy.equals(bytes));
        const hash = (data: NodeJS.ArrayBufferView): string => createHash("sha256").update(data).digest("hex");
        assert.equal(hash(array), hash(copy));
        assert.equal(Buffer.concat([local.bytes, copy]).compare(Buffer.concat([copy, copy])), 0);
        assert.equal(new TextDecoder().decode(local.bytes), new TextDecoder().decode(copy));
        bytes.fill(0);
        assert.deepEqual([...array], range(8).map(() => 0)); // prettier-ignore
        const wrapped = comm.tensor("float32", [4], array.subarray(4));
        assert.equal(wrapped.array.buffer, array.buffer);
      },
    });
  });
});
