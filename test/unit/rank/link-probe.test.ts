import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type LinkProbe, probeLinks } from "../../../rank/link-probe.ts";
import { FrameKind } from "../../../shared/frame.ts";
import { Rig } from "../../helpers/sim.ts";

let rig: Rig;
let probe: LinkProbe;
let silences: string[];
const moved = [0, 0, 0];

beforeEach(() => {
  vi.useFakeTimers();
  rig = new Rig({ rank: 0, nranks: 3 });
  silences = [];
  moved.fill(0);
  probe = probeLinks(
    rig.engine,
    1000,
    (peer) => moved[peer] ?? 0,
    (peer, ms) => silences.push(`${peer}: ${ms}`),
  );
});
afterEach(() => {
  probe.stop();
  vi.useRealTimers();
});

async function wait(): Promise<void> {
  const made = rig.signal("signal", [1, 1]);
  await vi.advanceTimersByTimeAsync(0);
  void (await made).wait([0, 0], 1, "ge").catch(() => undefined);
  rig.sent.length = 0;
}

test("a rank that waits for nothing asks nobody", () => {
  vi.advanceTimersByTime(10_000);
  expect([rig.sent, silences]).toEqual([[], []]);
});

/** Six looks, while something comes from rank 1 alone. */
function look(): void {
  for (let looks = 0; looks < 6; looks++) {
    moved[1] = (moved[1] ?? 0) + 66;
    vi.advanceTimersByTime(100);
  }
}

const asked = (): Set<string> => new Set(rig.sent.map(({ peer, header }) => `${peer} ${header.kind}`));

test("one that waits for some asks them, whatever comes from them", async () => {
  const made = rig.signal("signal", [3, 1]);
  await vi.advanceTimersByTimeAsync(0);
  void rig.comm.barrier(await made);
  rig.sent.length = 0;
  look();
  expect(asked()).toEqual(new Set([`1 ${FrameKind.Fence}`, `2 ${FrameKind.Fence}`]));
});

test("one that waits for anybody asks those of which nothing has come, and tells of them", async () => {
  await wait();
  look();
  expect(asked()).toEqual(new Set([`2 ${FrameKind.Fence}`]));
  expect(silences).toEqual(["2: 300", "2: 400", "2: 500"]);
  moved[2] = 1;
  vi.advanceTimersByTime(300);
  expect(silences.filter((text) => text.startsWith("2"))).toHaveLength(3);
});

test("after the end of the group it is still", async () => {
  await wait();
  rig.end();
  vi.advanceTimersByTime(5000);
  expect([rig.sent, silences]).toEqual([[], []]);
});
