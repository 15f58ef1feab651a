/** Plays one drill: starts a real job in a scratch of its own, lets the fault strike, and tells what it observed. */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ENV } from "../../shared/config.ts";
import { type ErrorCode, isErrorCode } from "../../shared/errors.ts";
import type { RunReport } from "../../shared/report.ts";
import { distFolder } from "../installation.ts";
import { makeTempFolder } from "../temp-folder.ts";
import { DRILL_MARK, Observer } from "./observer.ts";
import type { Drill } from "./plan.ts";
import type { DrillFault } from "./scenarios.ts";
import type { DetectionTimes, Observation } from "./verdict.ts";

/** What drills run with: short enough to be many, long enough for a loaded machine. */
export const DRILL_TIMES: DetectionTimes = { livenessMs: 1000, waitTimeoutMs: 2000 };

/** Calls of a job that must outlive its fault, and of one that must not. */
const CALLS_TO_THE_END = 8;
const CALLS_WITHOUT_END = 1_000_000;

/** Longest time until the fault strikes, and until everything has gone after it; beyond them it is a failed drill. */
const STRIKE_MS_MAX = 30_000;
const END_MS_MAX = 15_000;

/** How often, and how long apart, is looked again at what seems to be left behind. */
const LEFTOVER_LOOKS = 10;
const LEFTOVER_LOOK_MS = 20;

const POLL_MS = 2;

/** Plays a drill. */
export async function play(drill: Drill): Promise<Observation> {
  const folder = await makeTempFolder("rd-");
  try {
    return await new Stage(drill, folder).play();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The commands of one job; the first is the one that knows how it ended. */
interface Cast {
  readonly commands: readonly ChildProcess[];
  /** Whom a signal from outside goes to. */
  readonly target: ChildProcess;
}

class Stage {
  readonly #drill: Drill;
  /** Temporary folder of the job; it must be empty at the end. */
  readonly #scratch: string;
  /** What ranks leave for the observer. */
  readonly #notes: string;
  readonly #mark = randomUUID();
  #stderr = "";

  constructor(drill: Drill, folder: string) {
    this.#drill = drill;
    this.#scratch = join(folder, "t");
    this.#notes = join(folder, "n");
  }

  async play(): Promise<Observation> {
    await mkdir(this.#scratch);
    await mkdir(this.#notes);
    const { scenario } = this.#drill;
    const { injector } = scenario;
    const cast = await this.#start();
    const stopped = injector.by === "signal" && injector.signal === "SIGSTOP" ? cast.target.pid : undefined;
    const observer = new Observer(this.#mark, new Set(stopped === undefined ? [] : [stopped]));
    const struckAtMs = injector.by === "start" ? await this.#killAtStart(observer) : await this.#strike(observer, cast);
    const endMs = performance.now() + END_MS_MAX;
    const goneAtMs = await observer.gone(endMs);
    if (stopped !== undefined) cast.target.kill("SIGKILL");
    const [ending = { exitCode: null, signal: null }] = await Promise.all(
      cast.commands.map((command) => ended(command, Math.max(endMs - performance.now(), 1000))),
    );
    await observer.gone(performance.now() + 200); // of the commands themselves
    // the main thread of a killed process may be gone a moment before the last one, which closes its sockets
    let leftovers = observer.leftovers(this.#scratch);
    for (let look = 0; leftovers.length > 0 && look < LEFTOVER_LOOKS; look++) {
      await sleep(LEFTOVER_LOOK_MS);
      leftovers = observer.leftovers(this.#scratch);
    }
    for (const { pid } of observer.running()) process.kill(pid, "SIGKILL");
    await rm(this.#scratch, { recursive: true, force: true });
    await mkdir(this.#scratch);
    const since = (atMs: number | undefined): number | undefined =>
      atMs === undefined || struckAtMs === undefined ? undefined : Math.max(atMs - struckAtMs, 0);
    const settled = await this.#settledAt();
    return {
      struck: struckAtMs !== undefined,
      ...ending,
      ...(await this.#told()),
      ok: ending.exitCode === 0,
      settledMs: settled.map(since),
      goneMs: since(goneAtMs),
      leftovers,
      nextOk: await this.#nextRun(),
    };
  }

  /** Waits until the rank is at its point, and does from outside what has to be done from there. */
  async #strike(observer: Observer, { commands, target }: Cast): Promise<number | undefined> {
    const { injector } = this.#drill.scenario;
    const untilMs = performance.now() + STRIKE_MS_MAX;
    const file = join(this.#notes, `fault-${this.#drill.rank}.json`);
    for (;;) {
      const note = await readNote(file);
      if (note !== undefined) {
        observer.running();
        observer.notePorts();
        if (injector.by !== "signal") return note.atMs;
        target.kill(injector.signal);
        return Date.now();
      }
      const over = commands.some(({ exitCode, signalCode }) => exitCode !== null || signalCode !== null);
      if (over || performance.now() > untilMs) return undefined;
      await sleep(POLL_MS);
    }
  }

  async #killAtStart(observer: Observer): Promise<number | undefined> {
    const found = await observer.rank(this.#drill.rank, performance.now() + STRIKE_MS_MAX);
    if (found === undefined) return undefined;
    process.kill(found, "SIGKILL");
    return Date.now();
  }

  async #start(): Promise<Cast> {
    const { injector } = this.#drill.scenario;
    if (injector.by === "signal" && injector.to === "coordinator") return this.#startSeparately();
    const { nranks, transport, scenario } = this.#drill;
    const report = ["--json", join(this.#notes, "report.json")];
    const fault = injector.by === "start" ? {} : { [ENV.testFault]: this.#faults() };
    const calls = scenario.outcome.ok === true ? CALLS_TO_THE_END : CALLS_WITHOUT_END;
    const command = this.#spawn(
      ["run", "drill", "-n", String(nranks), "--transport", transport, ...times(), ...report, ...this.#program(calls)],
      fault,
    );
    return { commands: [command], target: command };
  }

  /** A coordinator and a supervisor as processes of their own. */
  async #startSeparately(): Promise<Cast> {
    const { nranks, transport } = this.#drill;
    const token = randomBytes(16).toString("hex");
    const env = { [ENV.token]: token, [ENV.testFault]: this.#faults() };
    const job = ["-n", String(nranks), "--transport", transport, ...times()];
    const coordinator = this.#spawn(["coordinator", "drill", ...job, ...this.#program(CALLS_WITHOUT_END)], env);
    const url = await this.#said(/ranks at (ws:\/\/\S+)/u, coordinator);
    const supervisor = this.#spawn(["rank", "--coordinator", url, "--ranks", String(nranks)], env);
    return { commands: [supervisor, coordinator], target: coordinator };
  }

  #program(calls: number): string[] {
    const { call, scenario } = this.#drill;
    return ["--", call, String(calls), scenario.handler ?? "none"];
  }

  #faults(): string {
    const { injector } = this.#drill.scenario;
    // a signal from outside comes while the rank spins
    const faults: readonly DrillFault[] = injector.by === "rank" ? injector.faults : [{ name: "spin" }];
    return faults.map((fault) => this.#fault(fault)).join(";");
  }

  #fault({ name, link, ms }: DrillFault): string {
    const { rank, nranks, call, nth, round } = this.#drill;
    const next = (rank + 1) % nranks;
    const keys = { rank, op: call, nth, round };
    const more = { ...(link === true ? { to: next } : {}), ...(ms === undefined ? {} : { ms }) };
    return `${name}:${Object.entries({ ...keys, ...more })
      .map(([key, value]) => `${key}=${value}`)
      .join(",")}`;
  }

  #spawn(args: readonly string[], env: Readonly<Record<string, string>>): ChildProcess {
    const child = spawn(process.execPath, [join(distFolder(), "cli.js"), ...args], {
      stdio: ["ignore", "ignore", "pipe"],
      env: {
        ...process.env,
        TMPDIR: this.#scratch,
        [DRILL_MARK]: this.#mark,
        [ENV.drillDir]: this.#notes,
        ...env,
      },
    });
    child.stderr.on("data", (chunk: Buffer) => (this.#stderr += chunk.toString()));
    return child;
  }

  async #said(pattern: RegExp, command: ChildProcess): Promise<string> {
    const untilMs = performance.now() + STRIKE_MS_MAX;
    while (command.exitCode === null && performance.now() < untilMs) {
      const match = pattern.exec(this.#stderr);
      if (match !== null) return match[1] ?? "";
      await sleep(POLL_MS);
    }
    throw new Error(`the command never said ${String(pattern)}: ${this.#stderr}`);
  }

  /** When each rank's call settled. */
  async #settledAt(): Promise<(number | undefined)[]> {
    const ranks = Array.from({ length: this.#drill.nranks }, (_, rank) => rank);
    const notes = await Promise.all(ranks.map((rank) => readNote(join(this.#notes, `settled-${rank}.json`))));
    return notes.map((note) => note?.atMs);
  }

  /** The first cause, from the report or, without one, from what the commands printed. */
  async #told(): Promise<Pick<Observation, "code" | "rank" | "message">> {
    const text = await readFile(join(this.#notes, "report.json"), "utf8").catch(() => undefined);
    if (text !== undefined) {
      const { failure } = JSON.parse(text) as RunReport;
      return { code: failure?.code ?? null, rank: failure?.rank ?? null, message: failure?.message ?? "" };
    }
    const [, code = "", message = ""] = /^rankwise: (ERR_[A-Z_]+): (.*)$/mu.exec(this.#stderr) ?? [];
    return { code: isErrorCode(code) ? (code satisfies ErrorCode) : null, rank: null, message };
  }

  /** The same program without a fault, in the same place. */
  async #nextRun(): Promise<boolean> {
    const { nranks, transport } = this.#drill;
    const args = ["run", "drill", "-n", String(nranks), "--transport", transport, "--timeout", "20s"];
    const { exitCode } = await ended(this.#spawn([...args, ...this.#program(2)], {}), 30_000);
    return exitCode === 0;
  }
}

function times(): string[] {
  const { livenessMs, waitTimeoutMs } = DRILL_TIMES;
  return ["--liveness", `${livenessMs}ms`, "--wait-timeout", `${waitTimeoutMs}ms`, "--grace", "1s", "--timeout", "60s"];
}

/** How a command ended; one that does not in time is killed. */
async function ended(
  child: ChildProcess,
  timeoutMs: number,
): Promise<{ exitCode: number | null; signal: string | null }> {
  const timer = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
  if (child.exitCode === null && child.signalCode === null) {
    await new Promise((resolve) => child.once("exit", resolve));
  }
  clearTimeout(timer);
  return { exitCode: child.exitCode, signal: child.signalCode };
}

async function readNote(file: string): Promise<{ readonly atMs: number } | undefined> {
  try {
    return JSON.parse(await readFile(file, "utf8")) as { atMs: number };
  } catch {
    return undefined; // not there yet, or not whole yet
  }
}
