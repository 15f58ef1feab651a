/** What the coordinator knows of each rank and each supervisor. */
import { assert, present } from "../shared/assert.ts";
import type { ProcessState, RankState } from "../shared/messages.ts";

/** How a process ended: with a code, or by a signal. */
export interface ExitRecord {
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly atMs: number;
  /** It ended after its supervisor had been told to end it. */
  readonly ordered: boolean;
  /** A second signal had cut its grace short by then. */
  readonly hurried: boolean;
}

/** One rank. Unknown parts are null. */
export interface RankEntry {
  readonly rank: number;
  /** Id of the supervisor that started it. */
  supervisor: number | null;
  host: string | null;
  pid: number | null;
  link: "none" | "open" | "closed";
  goodbye: boolean;
  /** Its last words or its goodbye. */
  state: RankState | null;
  /** Its latest answer to the question what it is doing. */
  asked: RankState | null;
  /** What its process was last seen doing. */
  process: ProcessState | null;
  exit: ExitRecord | null;
}

/** One supervisor and the ranks that it was told to start. */
export interface SupervisorEntry {
  readonly id: number;
  readonly host: string;
  readonly pid: number;
  readonly ranks: readonly number[];
  status: "present" | "cleared" | "lost";
}

/** All ranks of a job, by rank, and the supervisors that have got ranks. */
export class Roster {
  readonly ranks: readonly RankEntry[];
  readonly supervisors = new Map<number, SupervisorEntry>();

  constructor(nranks: number) {
    this.ranks = Array.from({ length: nranks }, (_, rank) => ({
      rank,
      supervisor: null,
      host: null,
      pid: null,
      link: "none" as const,
      goodbye: false,
      state: null,
      asked: null,
      process: null,
      exit: null,
    }));
  }

  rank(rank: number): RankEntry {
    return present(this.ranks[rank], `rank ${rank} of the roster`);
  }

  supervisor(id: number): SupervisorEntry {
    return present(this.supervisors.get(id), `supervisor ${id} of the roster`);
  }

  addSupervisor(id: number, host: string, pid: number, ranks: readonly number[]): void {
    assert(!this.supervisors.has(id), `supervisor ${id} joins once`);
    this.supervisors.set(id, { id, host, pid, ranks, status: "present" });
    for (const rank of ranks) {
      const entry = this.rank(rank);
      entry.supervisor = id;
      entry.host = host;
    }
  }

  /** Whether nothing of this rank can still run: it has exited, or, started by no supervisor of ours, has hung up. */
  isOver(entry: RankEntry): boolean {
    if (entry.exit !== null) return true;
    return entry.supervisor === null && entry.link !== "open";
  }
}
