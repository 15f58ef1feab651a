import { describe, expect, it } from "vitest";
import { collectives } from "../../../../rank/collectives/table.ts";
import { callBuiltin } from "../../../fixtures/programs/builtin-once.ts";
import { run } from "../../../helpers/sim.ts";

const cells = collectives.flatMap((row) => [1, 2, 3, 4, 7].map((nranks) => [row.name, nranks, row] as const));

describe("the cost of the table", () => {
  it.each(cells)(
    "%s on %i ranks is what is measured, at first and when the window is used again",
    async (name, nranks, row) => {
      for (const length of [0, 5, 64]) {
        const cell = { dtype: "float32", op: "sum", nranks, length } as const;
        for (const times of [1, 2, 3]) {
          const { states } = await run(nranks, (comm) => callBuiltin(comm, name, length, times));
          for (const [rank, { counters }] of states.entries()) {
            const { receivedBytes, rounds } = row.cost(cell, rank);
            const ready = row.reuseAddsReady ? times - 1 : 0;
            expect(counters.payloadBytesReceived).toBe(times * receivedBytes);
            expect(counters.barriers).toBe(times * rounds + ready);
          }
          const total = (count: "payloadBytesSent" | "payloadBytesReceived"): number =>
            states.reduce((sum, { counters }) => sum + counters[count], 0);
          expect(total("payloadBytesSent")).toBe(total("payloadBytesReceived"));
        }
      }
    },
  );

  it("of broadcast has all at every rank but root, of the mesh everybody's data, of the ring each segment twice", () => {
    const cost = (name: string, nranks: number, rank: number): number =>
      collectives.find((row) => row.name === name)!.cost({ dtype: "float32", op: "sum", nranks, length: 60 }, rank)
        .receivedBytes;
    const N = 240;
    // root of the first round is rank 1
    expect([0, 1, 2].map((rank) => cost("broadcast", 3, rank))).toEqual([N, 0, N]);
    for (const P of [2, 3, 4]) {
      expect(cost("allgather", P, 0)).toBe((P - 1) * N);
      expect(cost("reduce_scatter", P, 0)).toBe((P - 1) * N);
      expect(cost("all_to_all", P, 0)).toBe((P - 1) * N);
      expect(cost("allreduce:mesh", P, 0)).toBe((P - 1) * N);
      expect(cost("allreduce:ring", P, 0)).toBe((2 * (P - 1) * N) / P);
    }
  });
});
