import { describe, expect, it } from "vitest";
import main from "../../../examples/15-all-to-all.ts";
import { simulate } from "../../../rank/simulate.ts";

describe("simulate", () => {
  it.each([1, 2, 3, 4, 7, 8, 16])("runs all_to_all by hand and builtin on %i ranks", async (nranks) => {
    for (const mode of ["hand", "builtin"] as const) {
      const { failure, states } = await simulate({ nranks, seed: nranks, main, settings: { mode } });
      expect(failure).toBeUndefined();
      const received = states.map(({ counters }) => counters.payloadBytesReceived);
      expect(received).toEqual(states.map(() => (nranks - 1) * 64 * 4));
    }
  });

  it("repeats a seed exactly", async () => {
    const order = async (seed: number): Promise<number[]> => {
      const arrivals: number[] = [];
      await simulate({
        nranks: 3,
        seed,
        main: async (comm) => {
          const signal = await comm.signal("signal", [3]);
          arrivals.push(comm.rank);
          for (const peer of comm.peers) await signal.notify(peer, [comm.rank], 1, "set");
          for (const peer of comm.peers) {
            await signal.wait([peer], 1, "ge");
            arrivals.push(comm.rank * 10 + peer);
          }
        },
      });
      return arrivals;
    };
    const first = await order(7);
    expect(await order(7)).toEqual(first);
    const others = await Promise.all([1, 2, 3, 4, 5].map(order));
    expect(others.some((other) => other.join() !== first.join())).toBe(true);
  });
});
