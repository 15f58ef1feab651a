/** Runs the built command line as real processes, and fails a test that leaves anything behind. */
import { randomUUID } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { execa } from "execa";

const cli = fileURLToPath(new URL("../../dist/cli.js", import.meta.url));

/** Marks every process that descends from a test, in its environment. */
const MARK = "RANKWISE_TEST_MARK";

/** How long processes may outlive the command: ranks whose supervisor was killed have 2 s. */
const VANISH_MS = 3000;

export interface CliOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** The command is killed, and the test fails, after this time. */
  readonly timeoutMs?: number;
}

/** A command that has ended. */
export interface CliResult {
  readonly exitCode: number | undefined;
  readonly signal: string | undefined;
  readonly stdout: string;
  readonly stderr: string;
  readonly wallMs: number;
  /** Everything above, for the message of a failed expectation. */
  readonly text: string;
}

/** Runs `rankwise ARGS` to its end and checks that nothing is left. */
export async function runCli(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  await using command = await startCli(args, options);
  return await command.ended;
}

/** Starts `rankwise ARGS` in a scratch of its own. */
export async function startCli(args: readonly string[], options: CliOptions = {}): Promise<CliProcess> {
  const scratch = await Scratch.make();
  return new CliProcess(args, options, scratch, true);
}

/** A running command. Leaving its scope ends it, and fails when it leaves processes, sockets or files. */
export class CliProcess implements AsyncDisposable {
  readonly ended: Promise<CliResult>;
  readonly #child: ReturnType<typeof spawnCli>;
  readonly #scratch: Scratch;
  readonly #ownsScratch: boolean;
  readonly #args: readonly string[];
  #stdout = "";
  #stderr = "";

  constructor(args: readonly string[], options: CliOptions, scratch: Scratch, ownsScratch: boolean) {
    this.#args = args;
    this.#scratch = scratch;
    this.#ownsScratch = ownsScratch;
    const startedMs = performance.now();
    this.#child = spawnCli(args, options, scratch);
    this.#child.stdout.on("data", (chunk: Buffer) => (this.#stdout += chunk.toString()));
    this.#child.stderr.on("data", (chunk: Buffer) => (this.#stderr += chunk.toString()));
    this.ended = this.#end(startedMs);
  }

  get pid(): number {
    return this.#child.pid ?? Number.NaN;
  }

  /** Whether the process still is: one that has ended and was waited for is not. */
  get isAlive(): boolean {
    try {
      process.kill(this.pid, 0);
      return true;
    } catch {
      return false;
    }
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** The first match of a pattern in what the command prints on stderr; fails when it ends before. */
  async says(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.#stderr);
      if (match !== null) return match;
      const ended = await Promise.race([this.ended, sleep(5)]);
      if (ended === undefined || pattern.test(this.#stderr)) continue;
      throw new Error(`the command ended and never said ${String(pattern)}\n${ended.text}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGTERM"); // and by the time limit SIGKILL
    const { text } = await this.ended;
    if (this.#ownsScratch) await this.#scratch.dispose(text);
  }

  async #end(startedMs: number): Promise<CliResult> {
    const { exitCode, signal, timedOut } = await this.#child;
    const wallMs = performance.now() - startedMs;
    const { stdout, stderr } = { stdout: this.#stdout, stderr: this.#stderr };
    const how = signal ?? `exit code ${exitCode}`;
    const text = `$ rankwise ${this.#args.join(" ")}\n${stdout}${stderr}[${how} after ${Math.round(wallMs)} ms]`;
    if (timedOut) throw new Error(`the command did not end in time\n${text}`);
    return { exitCode, signal, stdout, stderr, wallMs, text };
  }
}

function spawnCli(args: readonly string[], options: CliOptions, scratch: Scratch) {
  return execa(process.execPath, [cli, ...args], {
    cwd: options.cwd ?? process.cwd(),
    env: { NODE_OPTIONS: "", ...options.env, ...scratch.env },
    timeout: options.timeoutMs ?? 20_000,
    killSignal: "SIGKILL",
    stdin: "ignore",
    buffer: false,
    reject: false,
  });
}

/** A private temporary folder and a mark for processes, shared by the commands of one test. */
export class Scratch {
  readonly folder: string;
  readonly #mark = randomUUID();

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async make(): Promise<Scratch> {
    return new Scratch(await mkdtemp(join(tmpdir(), "t-")));
  }

  get env(): Record<string, string> {
    return { TMPDIR: this.folder, [MARK]: this.#mark };
  }

  /** Removes the folder and fails, with the output given, if processes or files were left. */
  async dispose(output: string): Promise<void> {
    const untilMs = performance.now() + VANISH_MS;
    let left = await this.#left();
    while (left.length > 0 && performance.now() < untilMs) {
      await sleep(20);
      left = await this.#left();
    }
    for (const { pid } of left) if (pid !== undefined) process.kill(pid, "SIGKILL");
    await rm(this.folder, { recursive: true, force: true });
    if (left.length > 0) throw new Error(`left behind: ${left.map(({ name }) => name).join(", ")}\n${output}`);
  }

  async #left(): Promise<{ name: string; pid?: number }[]> {
    const processes = await processesWith(`${MARK}=${this.#mark}`);
    const files = await readdir(this.folder);
    return [
      ...processes.map(({ pid, command }) => ({ name: `process ${pid}: ${command}`, pid })),
      ...files.map((name) => ({ name })),
    ];
  }
}

/** Running processes that have this in their environment. */
async function processesWith(variable: string): Promise<{ pid: number; command: string }[]> {
  const found: { pid: number; command: string }[] = [];
  for (const entry of await readdir("/proc").catch(() => [])) {
    if (!/^\d+$/u.test(entry)) continue;
    const read = (name: string): Promise<string> => readFile(`/proc/${entry}/${name}`, "utf8").catch(() => "");
    if (!(await read("environ")).includes(variable)) continue; // empty for one that has ended
    found.push({ pid: Number(entry), command: (await read("cmdline")).replaceAll("\0", " ").trim() });
  }
  return found;
}
