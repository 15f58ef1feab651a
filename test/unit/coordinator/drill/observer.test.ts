import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DRILL_MARK, Observer } from "../../../../coordinator/drill/observer.ts";

const linux = process.platform === "linux";

test.runIf(linux)("finds processes by their mark, grandchildren too, and sees them go", async () => {
  const mark = randomUUID();
  const child = spawn("/bin/sh", ["-c", "sleep 60 & wait"], {
    stdio: "ignore",
    detached: true,
    env: { ...process.env, [DRILL_MARK]: mark, RANKWISE_RANK: "3" },
  });
  const observer = new Observer(mark);
  const untilMs = performance.now() + 5000;
  expect(await observer.rank(3, untilMs)).toBe(child.pid);
  const commands = (): string[] => observer.running().map(({ command }) => command);
  while (!commands().includes("sleep 60") && performance.now() < untilMs) {
    await new Promise((next) => setTimeout(next, 10));
  }
  expect(commands()).toContain("sleep 60");
  expect(await observer.gone(performance.now() + 50)).toBeUndefined();
  expect(new Observer(randomUUID()).running()).toEqual([]);
  process.kill(-(child.pid ?? NaN), "SIGKILL");
  expect(await observer.gone(performance.now() + 5000)).toBeTypeOf("number");
});

test.runIf(linux)("tells what is left behind: files, sockets, ports", async () => {
  const folder = await mkdtemp(join(tmpdir(), "observed-"));
  const mark = randomUUID();
  const script = `require("net").createServer().listen(0, "127.0.0.1", function () { console.log(this.address().port) })`;
  const child = spawn(process.execPath, ["-e", script], { env: { ...process.env, [DRILL_MARK]: mark } });
  const [chunk] = (await once(child.stdout, "data")) as [Buffer];
  const observer = new Observer(mark);
  await observer.rank(-1, performance.now() + 50);
  observer.notePorts();
  expect(observer.leftovers(folder)).toEqual([
    expect.stringMatching(/^process \d+ /u),
    `port ${chunk.toString().trim()}`,
  ]);
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(observer.leftovers(folder)).toEqual([]);
  const path = join(folder, "socket");
  const server = createServer().listen(path);
  await once(server, "listening");
  await writeFile(join(folder, "file"), "");
  expect(observer.leftovers(folder).sort()).toEqual(["file file", "file socket", `socket ${path}`]);
  server.close();
  await rm(folder, { recursive: true });
});
