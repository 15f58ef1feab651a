import { describe, expect, test } from "vitest";
import type { Engine } from "../../../rank/engine.ts";
import { FrameServer } from "../../../rank/serve.ts";
import { simulate, type SimulationResult } from "../../../rank/simulate.ts";
import type { FrameSink } from "../../../rank/transport/transport.ts";
import { FrameKind } from "../../../shared/frame.ts";
import { type TutorialProgram, tutorialPrograms } from "../../helpers/tutorial.ts";

const programs = await tutorialPrograms();

test("there are sixteen, in every mode that they declare", () => {
  expect(new Set(programs.map(({ name }) => name)).size).toBe(16);
  expect(programs.filter(({ mode }) => mode === "builtin").length).toBeGreaterThanOrEqual(9);
});

describe.each(programs)("$name, $mode", (program) => {
  const { main, mode } = program;

  // 17 ranks have empty segments, and are more than the goldens with readable values are made for
  test.each([1, 2, 3, 4, 7, 17])("is right on %i ranks, in every order of deliveries that is tried", async (nranks) => {
    for (const seed of nranks === 17 ? [1] : [1, 2, 3, 4]) {
      const { failure } = await simulate({ nranks, seed, main, settings: { mode } });
      expect(failure?.error, `seed ${seed}`).toBeUndefined();
    }
  });

  test.each([2, 4])(
    "notices one changed byte of what it has received, whatever brought it (%i ranks)",
    async (nranks) => {
      const told = [];
      for (const kind of [FrameKind.Put, FrameKind.GetReply]) {
        const { failure, changed } = await runWithOneByteChanged(program, nranks, kind);
        if (changed) told.push(failure?.error.code);
      }
      if (told.length === 0) {
        expect(program.name, "moves no payload").toBe("hello_rank");
        const { failure } = await runWithOneByteChanged(program, nranks, FrameKind.Notify);
        told.push(failure?.error.code);
      }
      expect(new Set(told)).toEqual(new Set(["ERR_WRONG_DATA"]));
    },
  );
});

const misrouted = [
  { name: "window", mode: "hand", told: /rank 0 row 0 holds nothing yet|rank 1 row \d+ holds rank 3's element/u },
  {
    name: "remote_load_store",
    mode: "hand",
    told: /rank \d row \d+ holds (?:padding, or nothing yet|rank \d's element)/u,
  },
  { name: "put_get", mode: "hand", told: /rank \d row \d+ holds (?:nothing yet|rank \d's element)/u },
  { name: "all_to_all", mode: "hand", told: /rank ([01]) row 3 holds rank 3's chunk for rank (?!\1)[01];/u },
  { name: "all_to_all", mode: "builtin", told: /rank ([01]) row 3 holds rank 3's chunk for rank (?!\1)[01];/u },
  { name: "one_signal", mode: "hand", told: /rank ([01]) row 3 holds rank 3's chunk for rank (?!\1)[01] of round 0;/u },
  {
    name: "one_signal",
    mode: "builtin",
    told: /rank ([01]) row 3 holds rank 3's chunk for rank (?!\1)[01] of round 0;/u,
  },
];

test.each(misrouted)("$name, $mode, says whose data went astray", async ({ name, mode, told }) => {
  const program = programs.find((other) => other.name === name && other.mode === mode);
  const testFault = name === "remote_load_store" ? "misroute:rank=3,a=2,b=1" : "misroute:rank=3,a=0,b=1";
  const settings = { mode: program?.mode ?? "hand" };
  const { failure } = await simulate({ nranks: 4, seed: 1, main: program?.main ?? fail, settings, testFault });
  expect(failure?.error.code).toBe("ERR_WRONG_DATA");
  expect(failure?.error.message).toMatch(told);
});

/** Runs a program in which the last byte of the first frame of a kind that rank 1 gets has one bit changed. */
async function runWithOneByteChanged(
  { main, mode }: TutorialProgram,
  nranks: number,
  kind: FrameKind,
): Promise<SimulationResult & { changed: boolean }> {
  let changed = false;
  const serve = (engine: Engine): FrameSink => {
    const server = new FrameServer(engine);
    if (engine.rank !== 1) return server;
    return {
      receive: (peer, header, payload) => {
        if (changed || header.kind !== kind || (kind !== FrameKind.Notify && payload.byteLength === 0)) {
          server.receive(peer, header, payload);
          return;
        }
        changed = true;
        const copy = payload.slice();
        if (copy.byteLength > 0) copy[copy.byteLength - 1]! ^= 1;
        const value = kind === FrameKind.Notify ? header.value + 1 : header.value;
        server.receive(peer, { ...header, value }, copy);
      },
      lost: (peer, error) => server.lost(peer, error),
      client: (connection) => server.client(connection),
    };
  };
  const result = await simulate({ nranks, seed: 1, main, settings: { mode }, serve });
  return { ...result, changed };
}

function fail(): never {
  throw new Error("no such program");
}
