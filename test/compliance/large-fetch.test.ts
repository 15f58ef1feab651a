/** Line 12 at full size: fetching much from each other at once finishes, over real sockets. */
import { describe, expect, test } from "vitest";
import { range, rankTransports, runRanksWell } from "../helpers/ranks.ts";

const MIB = 1024 * 1024;

describe.each(rankTransports.slice(1))("over %s", (transport) => {
  test("two ranks fetch 64 MiB from each other", async () => {
    const { states } = await fetchAll({ transport, nranks: 2, bytes: 64 * MIB });
    expect(states.map(({ counters }) => counters.payloadBytesReceived)).toEqual([64 * MIB, 64 * MIB]);
  });

  test("all pairs of four ranks fetch from each other with the smallest queues", async () => {
    const limits = { linkQueueBytes: 0, linkQueueFrames: 1, getInFlightBytes: 1, framePayloadBytes: 256 * 1024 };
    const { states } = await fetchAll({ transport, nranks: 4, bytes: 4 * MIB, limits });
    for (const { counters } of states) expect(counters.payloadBytesReceived).toBe(3 * 4 * MIB);
  });
});

/** Every rank fetches every other rank's window at once. */
async function fetchAll({ bytes, ...run }: { bytes: number } & Omit<Parameters<typeof runRanksWell>[0], "main">) {
  const fetched: Record<number, boolean[]> = {};
  const result = await runRanksWell({
    ...run,
    waitTimeoutMs: 20_000,
    main: async (comm) => {
      const data = await comm.window("data", "uint8", [bytes]);
      const credits = await comm.signal("credits", [comm.nranks, 1]);
      data.local.array.fill(comm.rank + 1);
      await comm.barrier(credits);
      fetched[comm.rank] = await Promise.all(
        comm.peers.map(async (peer) => {
          const seen = comm.tensor("uint8", [bytes]);
          await data.get(peer, seen);
          return isFilled(seen.array, peer + 1);
        }),
      );
    },
  });
  const ranks = range(run.nranks);
  expect(fetched).toEqual(Object.fromEntries(ranks.map((rank) => [rank, ranks.slice(1).map(() => true)])));
  return result;
}

/** Whether all bytes are the same value: each the one before it. */
function isFilled(bytes: Uint8Array, value: number): boolean {
  return bytes[0] === value && Buffer.compare(bytes.subarray(1), bytes.subarray(0, -1)) === 0;
}
