import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { livingGroups, signalGroup, terminateGroups } from "../../../coordinator/termination.ts";

const started: ChildProcess[] = [];

/** Starts a fixture as the leader of a group and waits for what it says first. */
async function start(name: string): Promise<{ child: ChildProcess; group: number }> {
  const script = fileURLToPath(new URL(`../../fixtures/processes/${name}.mjs`, import.meta.url));
  const child = spawn(process.execPath, [script], { detached: true, stdio: ["ignore", "pipe", "inherit"] });
  started.push(child);
  await once(child.stdout, "data");
  return { child, group: child.pid ?? 0 };
}

afterEach(() => {
  for (const { pid } of started.splice(0)) if (pid !== undefined) signalGroup(pid, "SIGKILL");
});

test("a process that heeds SIGTERM is gone long before the grace is over", async () => {
  const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { detached: true, stdio: "ignore" });
  started.push(child);
  await once(child, "spawn");
  const startMs = performance.now();
  expect(await terminateGroups([child.pid ?? 0], 5000)).toEqual({ left: [] });
  expect(performance.now() - startMs).toBeLessThan(1000);
  expect(child.signalCode ?? (await once(child, "exit"))[1]).toBe("SIGTERM");
});

test("one that ignores it is killed after the grace", async () => {
  const { child, group } = await start("ignores-sigterm");
  const startMs = performance.now();
  expect(await terminateGroups([group], 300)).toEqual({ left: [] });
  expect(performance.now() - startMs).toBeGreaterThanOrEqual(300);
  expect(performance.now() - startMs).toBeLessThan(800);
  expect(child.signalCode ?? (await once(child, "exit"))[1]).toBe("SIGKILL");
});

test("a grandchild that survives its parent is found and killed", async () => {
  const { child, group } = await start("forks-grandchild");
  if (child.exitCode === null) await once(child, "exit");
  expect(await livingGroups([group])).toEqual([group]);
  expect(await terminateGroups([group], 100)).toEqual({ left: [] });
  expect(await livingGroups([group])).toEqual([]);
});

test("no grace kills at once, and so does being hurried", async () => {
  const [first, second] = [await start("ignores-sigterm"), await start("ignores-sigterm")];
  const startMs = performance.now();
  expect(await terminateGroups([first.group], 0)).toEqual({ left: [] });
  const hurry = new AbortController();
  setTimeout(() => hurry.abort(), 50);
  expect(await terminateGroups([second.group], 60_000, hurry.signal)).toEqual({ left: [] });
  expect(performance.now() - startMs).toBeLessThan(1000);
});

test.runIf(process.platform === "linux")("a group of which only a zombie is left is gone", async () => {
  // the shell becomes a sleeper that never waits for its child, which leads a group of its own
  const script = "setsid sleep 20 & echo $!; exec sleep 20";
  const child = spawn("/bin/sh", ["-c", script], { detached: true, stdio: ["ignore", "pipe", "inherit"] });
  started.push(child);
  const [said] = (await once(child.stdout, "data")) as [Buffer];
  const zombie = Number(said.toString());
  await expect.poll(() => signalGroup(zombie, 0)).toBe(true);
  expect(await terminateGroups([zombie], 5000)).toEqual({ left: [] });
  expect(signalGroup(zombie, 0), "it is still in the table").toBe(true);
});

test("groups that do not exist are gone", async () => {
  expect(await livingGroups([2 ** 22 + 1])).toEqual([]);
  expect(await terminateGroups([2 ** 22 + 1], 1000)).toEqual({ left: [] });
  expect(await terminateGroups([], 1000)).toEqual({ left: [] });
});
