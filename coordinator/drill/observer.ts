/**
 * What is really there, whatever the product says: processes by a mark in their environment, sockets and files by
 * their place. It reads `/proc` and nothing else.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** How often known processes are looked at, and how often new ones are looked for. */
const LOOK_MS = 4;
const SEARCH_MS = 40;

/** Looks after which a process without the mark is taken for a foreign one. */
const LOOKS_FOREIGN = 3;

/** Marks every process that descends from a drill, in its environment. */
export const DRILL_MARK = "RANKWISE_DRILL_MARK";

/** A process that carries the mark. */
export interface MarkedProcess {
  readonly pid: number;
  readonly command: string;
}

/** Watches the processes of one drill. */
export class Observer {
  readonly #mark: string;
  readonly #known = new Set<number>();
  /** Processes without the mark, and how often they were found so: before its exec a child has its parent's environment. */
  readonly #foreign = new Map<number, number>();
  readonly #exempt: ReadonlySet<number>;
  /** Ports by the socket that listened there: a port alone may be another process's by now. */
  readonly #ports = new Map<string, number>();
  #searchedMs = Number.NEGATIVE_INFINITY;

  /** `exempt` processes are the drill's own commands, or one that it has stopped itself. */
  constructor(mark: string, exempt: ReadonlySet<number> = new Set()) {
    this.#mark = mark;
    this.#exempt = exempt;
  }

  /** Processes with the mark that run now. */
  running(): MarkedProcess[] {
    const nowMs = performance.now();
    if (nowMs - this.#searchedMs >= SEARCH_MS) this.#search();
    for (const pid of this.#known) if (!runs(pid)) this.#known.delete(pid);
    if (this.#known.size === 0) this.#search(); // somebody may have been forked meanwhile
    return [...this.#known]
      .filter((pid) => !this.#exempt.has(pid))
      .map((pid) => ({ pid, command: read(`/proc/${pid}/cmdline`).replaceAll("\0", " ").trim() }));
  }

  /** The number of a rank's process, once there is one. */
  async rank(rank: number, untilMs: number): Promise<number | undefined> {
    while (performance.now() < untilMs) {
      this.#search();
      const found = [...this.#known].find((pid) => environmentOf(pid).includes(`RANKWISE_RANK=${rank}`));
      if (found !== undefined) return found;
      await sleep(1);
    }
    return undefined;
  }

  /** Resolves with the time (of `Date.now()`) when nothing marked ran any more, or with undefined at the deadline. */
  async gone(untilMs: number): Promise<number | undefined> {
    for (;;) {
      if (this.running().length === 0) return Date.now();
      if (performance.now() >= untilMs) return undefined;
      await sleep(LOOK_MS);
    }
  }

  /** Takes note of the TCP ports on which marked processes listen. */
  notePorts(): void {
    const inodes = new Set<string>();
    for (const pid of this.#known) for (const inode of socketInodes(pid)) inodes.add(inode);
    for (const { port, inode } of listeners()) if (inodes.has(inode)) this.#ports.set(inode, port);
  }

  /** What is left behind: processes, sockets with a path below the folder, files in it, ports once listened on. */
  leftovers(folder: string): string[] {
    this.#search();
    const listening = new Set(listeners().map(({ inode }) => inode));
    return [
      ...this.running().map(({ pid, command }) => `process ${pid} (${command})`),
      ...unixSockets()
        .filter((path) => path.startsWith(folder))
        .map((path) => `socket ${path}`),
      ...list(folder).map((name) => `file ${name}`),
      ...[...this.#ports].filter(([inode]) => listening.has(inode)).map(([, port]) => `port ${port}`),
    ];
  }

  #search(): void {
    this.#searchedMs = performance.now();
    const seen = new Set<number>();
    for (const entry of list("/proc")) {
      if (!/^\d+$/u.test(entry)) continue;
      const pid = Number(entry);
      seen.add(pid);
      if (this.#known.has(pid) || (this.#foreign.get(pid) ?? 0) >= LOOKS_FOREIGN) continue;
      const environment = environmentOf(pid);
      // one that is about to run its program shows none for a while, however long that takes under load
      if (environment.length <= 1 && !isKernels(pid)) continue;
      if (!environment.includes(`${DRILL_MARK}=${this.#mark}`)) {
        this.#foreign.set(pid, (this.#foreign.get(pid) ?? 0) + 1);
      } else if (runs(pid)) this.#known.add(pid);
    }
    for (const pid of this.#foreign.keys()) if (!seen.has(pid)) this.#foreign.delete(pid);
  }
}

function environmentOf(pid: number): string[] {
  return read(`/proc/${pid}/environ`).split("\0");
}

/** Whether it is a thread of the kernel, a child of process 2, which has no environment. */
function isKernels(pid: number): boolean {
  const stat = read(`/proc/${pid}/stat`);
  return stat.slice(stat.lastIndexOf(")") + 4).split(" ")[0] === "2" || pid === 2;
}

/** Whether a process runs: one that has ended and was not waited for does not. */
function runs(pid: number): boolean {
  const stat = read(`/proc/${pid}/stat`);
  const state = stat.charAt(stat.lastIndexOf(")") + 2);
  return state !== "" && state !== "Z" && state !== "X";
}

function socketInodes(pid: number): string[] {
  return list(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return /^socket:\[(\d+)\]$/u.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
    } catch {
      return []; // closed meanwhile
    }
  });
}

/** TCP sockets that listen. */
function listeners(): { port: number; inode: string }[] {
  return ["/proc/net/tcp", "/proc/net/tcp6"].flatMap((file) =>
    rows(file).flatMap((columns) => {
      const [, local = "", , state, , , , , , inode = ""] = columns;
      return state === "0A" ? [{ port: Number.parseInt(local.split(":")[1] ?? "", 16), inode }] : [];
    }),
  );
}

/** Paths of Unix sockets. */
function unixSockets(): string[] {
  return rows("/proc/net/unix").flatMap((columns) => columns[7] ?? []);
}

function rows(file: string): string[][] {
  return read(file)
    .split("\n")
    .slice(1)
    .map((line) => line.trim().split(/\s+/u));
}

function read(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
