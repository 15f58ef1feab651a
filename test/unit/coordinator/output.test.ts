import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LINE_BYTES_MAX, LineSplitter, RankOutput } from "../../../coordinator/output.ts";

function split(chunks: readonly Buffer[]): Buffer[] {
  const lines: Buffer[] = [];
  const splitter = new LineSplitter((line) => lines.push(Buffer.from(line)));
  for (const chunk of chunks) splitter.push(chunk);
  splitter.flush();
  return lines;
}

describe("LineSplitter", () => {
  test("however a text is cut into chunks, its lines come out whole", () => {
    const line = fc.string({ unit: "binary", maxLength: 12 }).map((text) => text.replaceAll("\n", "·"));
    const run = (lines: readonly string[], size: number): void => {
      const bytes = Buffer.from(lines.map((each) => `${each}\n`).join(""));
      const chunks: Buffer[] = [];
      for (let at = 0; at < bytes.byteLength; at += size) chunks.push(bytes.subarray(at, at + size));
      expect(split(chunks).map(String)).toEqual(lines);
    };
    fc.assert(fc.property(fc.array(line, { maxLength: 20 }), fc.integer({ min: 1, max: 9 }), run), { seed: 1 });
  });

  test("a last line without a newline is a line, an empty rest is none", () => {
    expect(split([Buffer.from("a\nb")]).map(String)).toEqual(["a", "b"]);
    expect(split([Buffer.from("a\n\n")]).map(String)).toEqual(["a", ""]);
    expect(split([])).toEqual([]);
  });

  test.each([LINE_BYTES_MAX - 1, LINE_BYTES_MAX])("a line of %d bytes stays whole", (bytes) => {
    expect(split([Buffer.alloc(bytes, "x"), Buffer.from("\n")]).map(({ byteLength }) => byteLength)).toEqual([bytes]);
  });

  test("a longer line is cut, and loses nothing", () => {
    const long = Buffer.alloc(2.5 * LINE_BYTES_MAX, "x");
    const lines = split([long.subarray(0, 1000), long.subarray(1000), Buffer.from("\nshort\n")]);
    const sizes = lines.map(({ byteLength }) => byteLength);
    expect(sizes).toEqual([LINE_BYTES_MAX, LINE_BYTES_MAX, LINE_BYTES_MAX / 2, 5]);
  });

  test("it is cut between characters", () => {
    const text = "x".repeat(LINE_BYTES_MAX - 2) + "€uro";
    expect(split([Buffer.from(text)]).map((line) => line.toString().slice(-4))).toEqual(["xxxx", "€uro"]);
  });
});

describe("RankOutput", () => {
  let folder: string;
  let printed: string;
  const sink = { write: (bytes: Buffer) => (printed += bytes.toString()) };

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "output-"));
    printed = "";
  });
  afterEach(() => rm(folder, { recursive: true }));

  function streams() {
    return { stdout: new PassThrough(), stderr: new PassThrough() };
  }

  test("prefixes whole lines of both streams with the rank", async () => {
    const output = await RankOutput.open({ job: "j", tagged: false, logDir: undefined, sink });
    const [zero, one] = [streams(), streams()];
    output.attach(0, zero);
    output.attach(1, one);
    zero.stdout.write("hel");
    one.stderr.end("trouble\n");
    one.stdout.end();
    await new Promise(setImmediate);
    zero.stdout.end("lo\nrest");
    zero.stderr.end();
    await output.drained();
    expect(printed).toBe("[1] trouble\n[0] hello\n[0] rest\n");
  });

  test("tags lines with job, rank and stream, and writes files", async () => {
    const logDir = join(folder, "deep", "logs");
    const output = await RankOutput.open({ job: "j", tagged: true, logDir, sink });
    const rank = streams();
    output.attach(3, rank);
    rank.stdout.end("out\n");
    rank.stderr.end("err");
    await output.drained();
    expect(printed.split("\n").sort()).toEqual(["", "[j,3]<stderr> err", "[j,3]<stdout> out"]);
    expect(await readFile(join(logDir, "rank-3.out"), "utf8")).toBe("out\n");
    expect(await readFile(join(logDir, "rank-3.err"), "utf8")).toBe("err");
  });

  test("a folder that cannot be made is told once, and the output goes on", async () => {
    const logDir = join(fileURLToPath(import.meta.url), "logs");
    const output = await RankOutput.open({ job: "j", tagged: false, logDir, sink });
    const rank = streams();
    output.attach(0, rank);
    rank.stdout.end("out\n");
    rank.stderr.end();
    await output.drained();
    expect(printed).toMatch(
      /^rankwise: ERR_FILE_WRITE: --log-dir: cannot make \S+: ENOTDIR.*; the job goes on without logs\n\[0\] out\n$/u,
    );
  });

  test("a file that cannot be written any more is told once, and the others are written", async () => {
    await symlink("/dev/full", join(folder, "rank-0.out"));
    await symlink("/dev/full", join(folder, "rank-1.err"));
    const output = await RankOutput.open({ job: "j", tagged: false, logDir: folder, sink });
    const [zero, one] = [streams(), streams()];
    output.attach(0, zero);
    output.attach(1, one);
    for (const { stdout, stderr } of [zero, one]) {
      for (let line = 0; line < 3; line++) {
        stdout.write("out\n");
        stderr.write("err\n");
        await sleep(20); // long enough for a file to have failed in between
      }
      stdout.end();
      stderr.end();
    }
    await output.drained();
    const lines = printed.split("\n");
    const told = lines.filter((line) => line.startsWith("rankwise: "));
    expect(told).toEqual([
      `rankwise: ERR_FILE_WRITE: --log-dir: cannot write ${join(folder, "rank-0.out")}: ENOSPC: no space left on device, write; the job goes on without this log`,
      "rankwise: ERR_FILE_WRITE: --log-dir: 2 logs in all could not be written",
    ]);
    expect(lines.filter((line) => /^\[[01]\] (?:out|err)$/u.test(line))).toHaveLength(12);
    expect(await readFile(join(folder, "rank-0.err"), "utf8")).toBe("err\n".repeat(3));
    expect(await readFile(join(folder, "rank-1.out"), "utf8")).toBe("out\n".repeat(3));
  });

  test("a flood arrives complete and in order", async () => {
    const script = fileURLToPath(new URL("../../fixtures/processes/floods.mjs", import.meta.url));
    const child = spawn(process.execPath, [script], { stdio: ["ignore", "pipe", "pipe"] });
    const output = await RankOutput.open({ job: "j", tagged: false, logDir: undefined, sink });
    output.attach(0, child);
    await output.drained();
    const lines = printed.split("\n").filter((line) => line !== "");
    const numbers = (name: string): number[] =>
      lines.filter((line) => line.startsWith(`[0] ${name} `)).map((line) => Number(line.split(" ")[2]));
    expect(numbers("err")).toEqual(Array.from({ length: 20_000 }, (_, line) => line));
    expect(numbers("out").slice(0, -1)).toEqual(Array.from({ length: 20_000 }, (_, line) => line));
    expect(lines).toContain("[0] out end");
  });
});
