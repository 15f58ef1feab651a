/** What the processes of ranks are doing, as the operating system tells it. */
import { readFileSync } from "node:fs";
import { STATE_SAMPLES, STOPPED_SAMPLES } from "../shared/constants.ts";
import type { ProcessState } from "../shared/messages.ts";

/**
 * The state of a process's main thread. A program that computes without yielding is busy, one that waits is sleeping.
 * Unknown where there is no `/proc`, and for a process that has ended.
 */
export function processState(pid: number): ProcessState {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    return "unknown";
  }
  // pid (name) state …; the name may hold anything, so read from its last parenthesis
  return states[stat.charAt(stat.lastIndexOf(")") + 2)] ?? "unknown";
}

/** The letters of proc(5). A process under a tracer (`t`) is stopped as well. */
const states: Readonly<Record<string, ProcessState>> = {
  R: "busy",
  D: "busy",
  S: "sleeping",
  I: "sleeping",
  T: "stopped",
  t: "stopped",
};

export interface ProcessWatchOptions {
  readonly livenessMs: number;
  /** The processes to look at, by rank. */
  readonly processes: () => Iterable<readonly [rank: number, pid: number]>;
  /** A process has been found stopped for most of `livenessMs`; told once each time it stops. */
  readonly onStopped: (rank: number, pid: number, stoppedMs: number) => void;
  /** How a state is read. */
  readonly read?: (pid: number) => ProcessState;
}

/**
 * Looks at processes again and again. It counts looks rather than time: when this process itself was stopped for a
 * while, it has seen nothing of the others in between.
 */
export class ProcessWatch {
  readonly #options: ProcessWatchOptions;
  readonly #read: (pid: number) => ProcessState;
  readonly #seen = new Map<number, { pid: number; state: ProcessState; looks: number }>();
  readonly #periodMs: number;
  readonly #timer: NodeJS.Timeout;

  constructor(options: ProcessWatchOptions) {
    this.#options = options;
    this.#read = options.read ?? processState;
    this.#periodMs = options.livenessMs / STATE_SAMPLES;
    this.#timer = setInterval(() => this.#look(), this.#periodMs);
    this.#timer.unref();
  }

  /** What each process is doing. One that only happens to run at this moment is not busy: it was so before, too. */
  states(): { rank: number; state: ProcessState }[] {
    return [...this.#options.processes()].map(([rank, pid]) => {
      const state = this.#read(pid);
      const before = this.#seen.get(rank);
      const passing = state === "busy" && before?.pid === pid && (before.state !== "busy" || before.looks < 2);
      return { rank, state: passing ? "sleeping" : state };
    });
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    for (const [rank, pid] of this.#options.processes()) {
      const state = this.#read(pid);
      const before = this.#seen.get(rank);
      const looks = before?.pid === pid && before.state === state ? before.looks + 1 : 1;
      this.#seen.set(rank, { pid, state, looks });
      if (state === "stopped" && looks === STOPPED_SAMPLES) {
        this.#options.onStopped(rank, pid, Math.round((looks - 1) * this.#periodMs));
      }
    }
  }
}
