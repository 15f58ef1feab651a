/** Groups have their own windows, signals and sequence numbers, and do not see each other. */
import { type Comm, NotifyOp, type Tensor, WaitCmp } from "rankwise";
import { describe, expect, test } from "vitest";
import { groupId } from "../../rank/group.ts";
import { range, rankTransports, runRanks, runRanksWell } from "../helpers/ranks.ts";

const { Set: SET } = NotifyOp;
const { Ge: GE } = WaitCmp;

describe.each(rankTransports)("over %s", (transport) => {
  const seeds = range(transport === "inproc" ? 30 : 1);

  test.each([
    ["by put and notify", byPut],
    ["by collectives", byCollectives],
    ["by get", byGet],
  ])("{0, 1} and {1, 2} at once, %s", async (_, exchange) => {
    for (const seed of seeds) {
      const a = [0, 0, 0];
      const b = [0, 0, 0];
      await runRanksWell({
        transport,
        nranks: 3,
        seed,
        main: async (comm) => {
          const input = comm.tensor("float32", [1], Float32Array.of(10 + comm.rank));
          const groups: [number[], number[]][] = [
            [a, [0, 1]],
            [b, [1, 2]],
          ];
          await Promise.all(
            groups
              .filter(([, members]) => members.includes(comm.rank))
              .map(async ([result, members]) => {
                const rounds = members.includes(0) ? 1 : 4; // sequence numbers differ from group to group
                for (const round of range(rounds)) {
                  result[comm.rank] = await exchange(comm.group(members), input, round);
                }
              }),
          );
        },
      });
      expect({ a, b }).toEqual({ a: [11, 10, 0], b: [0, 12, 11] });
    }
  });

  test("a group renumbers its ranks in list order, and groups of groups do", async () => {
    await runRanksWell({
      transport,
      nranks: 4,
      main: async (world) => {
        const reversed = world.group([3, 2, 1, 0]);
        expect([reversed.rank, reversed.nranks]).toEqual([3 - world.rank, 4]);
        const data = await reversed.window("data", "int32", [4]);
        const credits = await reversed.signal("credits", [4, 1]);
        const mine = reversed.tensor("int32", [1], Int32Array.of(100 + reversed.rank));
        for (const peer of reversed.peers) await data.put(peer, mine, { dstOffset: [reversed.rank], shape: [1] });
        await reversed.barrier(credits);
        expect([...data.local.array]).toEqual(range(4).map((rank) => (rank === reversed.rank ? 0 : 100 + rank)));
        if (reversed.rank > 1) return;
        const pair = reversed.group([1, 0]); // world ranks 2 and 3
        expect(pair.rank).toBe(world.rank - 2);
        const own = await pair.window("data", "int32", [1]); // the same name, another group
        const signal = await pair.signal("signal", [1]);
        await own.putSignal(1 - pair.rank, mine, undefined, signal, [0], 1, SET);
        await signal.wait([0], 1, GE);
        expect(own.local.array[0]).toBe(100 + 1 - reversed.rank);
      },
    });
  });

  test("what belongs to one group is refused in another, and nothing moves", async () => {
    await runRanksWell({
      transport,
      nranks: 3,
      main: async (world) => {
        const worldSignal = await world.signal("signal", [3, 1]);
        const worldData = await world.window("data", "float32", [3, 1]);
        if (world.rank < 2) {
          const pair = world.group([0, 1]);
          const data = await pair.window("data", "float32", [2, 1]);
          const signal = await pair.signal("signal", [2, 1]);
          const x = pair.tensor("float32", [2, 1]);
          const foreign = { code: "ERR_FOREIGN_GROUP", message: expect.stringContaining("signal") as string };
          await expect(pair.barrier(worldSignal)).rejects.toMatchObject(foreign);
          await expect(world.barrier(signal)).rejects.toMatchObject(foreign);
          await expect(pair.allToAll(x, worldData as never, signal)).rejects.toMatchObject({
            code: "ERR_FOREIGN_GROUP",
          });
          await expect(data.putSignal(0, x, { shape: [0, 1] }, worldSignal, [0, 0], 1, SET)).rejects.toMatchObject(
            foreign,
          );
          expect([...worldSignal.local.array.subarray(0, 2)]).toEqual([0, 0]);
          await pair.barrier(signal); // a refused call has consumed no sequence number
        }
        await world.barrier(worldSignal);
      },
    });
  });

  test("a group's windows are for its members: the owner refuses a stranger and names it", async () => {
    let strays = false;
    const { failure } = await runRanks({
      transport,
      nranks: 3,
      waitTimeoutMs: 2000,
      interposed: {
        // rank 2 writes to whatever group its peers have, as a faulty sender would
        transport: (inner, engine) =>
          engine.rank !== 2
            ? inner
            : {
                address: inner.address,
                connect: (addresses) => inner.connect(addresses),
                close: () => inner.close(),
                send: (peer, header, payload, exempt) => {
                  if (strays && peer === 1) header.group = groupId([0, 1], 1);
                  return inner.send(peer, header, payload, exempt);
                },
              },
      },
      main: async (world) => {
        const signal = await world.signal("signal", [3, 1]);
        if (world.rank < 2) {
          const pair = world.group([0, 1]);
          await pair.signal("mine", [3, 1]);
        }
        await world.barrier(signal);
        if (world.rank === 2) {
          strays = true;
          await signal.notify(1, [0, 0], 1, SET);
        }
        await world.barrier(signal);
      },
    });
    expect(failure?.error).toMatchObject({ code: "ERR_FRAME_BOUNDS", context: { rank: 1, peer: 2 } });
    expect(failure?.error.message).toMatch(/frame from rank 2: notify to group \d+, of which rank 2 is no member/u);
    expect(failure?.suspect).toBe(2);
  });
});

async function byPut(group: Comm, input: Tensor<"float32">, round: number): Promise<number> {
  const data = await group.window(`data ${round}`, "float32", [1]);
  const signal = await group.signal(`signal ${round}`, [1]);
  await data.putSignal(1 - group.rank, input, undefined, signal, [0], 1, SET);
  await signal.wait([0], 1, GE);
  return data.local.array[0] ?? -1;
}

async function byCollectives(group: Comm, input: Tensor<"float32">): Promise<number> {
  const data = await group.window("data", "float32", [2, 1]);
  const credits = await group.signal("credits", [2, 1]);
  const x = group.tensor("float32", [2, 1]);
  x.array.fill(input.array[0] ?? -1);
  await group.allToAll(x, data, credits);
  return data.local.array[1 - group.rank] ?? -1;
}

async function byGet(group: Comm, input: Tensor<"float32">): Promise<number> {
  const data = await group.window("data", "float32", [1]);
  const credits = await group.signal("credits", [2, 1]);
  data.local.array.set(input.array);
  await group.barrier(credits);
  const seen = await data.remoteLoad(1 - group.rank, [0], [1]);
  await group.barrier(credits);
  return seen.array[0] ?? -1;
}
