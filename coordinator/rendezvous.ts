/**
 * How a group comes together: who may join, who starts which ranks, and when all of them may go.
 *
 * A pure state machine: it does no I/O and reads no clock. Events go in, commands come out.
 */
import { PROTOCOL_VERSION } from "../shared/constants.ts";
import { RankwiseError } from "../shared/errors.ts";

/** What a rendezvous is about. */
export interface RendezvousOptions {
  readonly job: string;
  readonly epoch: number;
  readonly nranks: number;
  readonly joinTimeoutMs: number;
  readonly startedAtMs: number;
}

/** What happens to a rendezvous. A `connection` is any number that its owner gives to one control connection. */
export type RendezvousEvent =
  | { readonly type: "supervisor_joins"; readonly connection: number; readonly version: number; readonly slots: number }
  | {
      readonly type: "rank_joins";
      readonly connection: number;
      readonly version: number;
      readonly job: string;
      readonly epoch: number;
      readonly rank: number;
      readonly address: string;
    }
  | { readonly type: "rank_ready"; readonly rank: number }
  | { readonly type: "tick"; readonly atMs: number }
  /** The group has failed or is over: whoever joins now is refused. */
  | { readonly type: "closed" };

/** What a rendezvous wants done. */
export type RendezvousCommand =
  | { readonly type: "assign"; readonly connection: number; readonly ranks: readonly number[] }
  | { readonly type: "admit"; readonly connection: number; readonly rank: number }
  | { readonly type: "refuse"; readonly connection: number; readonly error: RankwiseError }
  | { readonly type: "start"; readonly addresses: readonly string[] }
  | { readonly type: "go" }
  | { readonly type: "fail"; readonly error: RankwiseError };

type Place = "free" | "assigned" | "joined" | "ready";

/**
 * Places ranks on supervisors in the order in which these join, admits each rank once, sends `start` when all have
 * joined and `go` when all are ready. Nobody who is refused changes its state.
 */
export class Rendezvous {
  readonly #options: RendezvousOptions;
  readonly #places: Place[];
  readonly #addresses = new Map<number, string>();
  #phase: "joining" | "linking" | "gone" | "closed" = "joining";

  constructor(options: RendezvousOptions) {
    this.#options = options;
    this.#places = new Array<Place>(options.nranks).fill("free");
  }

  /** When a `tick` is due: the join deadline, as long as it counts. */
  get deadlineMs(): number | undefined {
    const open = this.#phase === "joining" || this.#phase === "linking";
    return open ? this.#options.startedAtMs + this.#options.joinTimeoutMs : undefined;
  }

  handle(event: RendezvousEvent): RendezvousCommand[] {
    switch (event.type) {
      case "supervisor_joins":
        return this.#supervisorJoins(event);
      case "rank_joins":
        return this.#rankJoins(event);
      case "rank_ready":
        return this.#rankReady(event.rank);
      case "tick":
        return this.#tick(event.atMs);
      case "closed":
        this.#phase = "closed";
        return [];
    }
  }

  #supervisorJoins(event: Extract<RendezvousEvent, { type: "supervisor_joins" }>): RendezvousCommand[] {
    const { connection, version, slots } = event;
    const refused = this.#refusal(version);
    if (refused !== undefined) return [{ type: "refuse", connection, error: refused }];
    const ranks = this.#ranksThat((place) => place === "free").slice(0, slots);
    if (ranks.length === 0) {
      const { nranks } = this.#options;
      const error = new RankwiseError(
        "ERR_LIMIT",
        `all ${nranks} ranks (-n) are placed on other supervisors already; this one is not needed`,
      );
      return [{ type: "refuse", connection, error }];
    }
    for (const rank of ranks) this.#places[rank] = "assigned";
    return [{ type: "assign", connection, ranks }];
  }

  #rankJoins(event: Extract<RendezvousEvent, { type: "rank_joins" }>): RendezvousCommand[] {
    const { connection, rank, address } = event;
    const refused = this.#refusal(event.version) ?? this.#strangeness(event);
    if (refused !== undefined) return [{ type: "refuse", connection, error: refused }];
    this.#places[rank] = "joined";
    this.#addresses.set(rank, address);
    const commands: RendezvousCommand[] = [{ type: "admit", connection, rank }];
    if (this.#addresses.size === this.#options.nranks) {
      this.#phase = "linking";
      commands.push({ type: "start", addresses: this.#places.map((_, index) => this.#addresses.get(index) ?? "") });
    }
    return commands;
  }

  #rankReady(rank: number): RendezvousCommand[] {
    if (this.#phase !== "linking") return [];
    this.#places[rank] = "ready";
    if (this.#places.some((place) => place !== "ready")) return [];
    this.#phase = "gone";
    return [{ type: "go" }];
  }

  #tick(atMs: number): RendezvousCommand[] {
    if (this.deadlineMs === undefined || atMs < this.deadlineMs) return [];
    this.#phase = "closed";
    return [{ type: "fail", error: this.#lateness() }];
  }

  #refusal(version: number): RankwiseError | undefined {
    if (version !== PROTOCOL_VERSION) {
      return new RankwiseError(
        "ERR_PROTOCOL_VERSION",
        `the coordinator speaks version ${PROTOCOL_VERSION}, this process ${version}; install one rankwise version everywhere`,
      );
    }
    if (this.#phase === "closed") {
      return new RankwiseError("ERR_GROUP_ENDED", `job ${this.#options.job} has already ended`);
    }
    return undefined;
  }

  #strangeness(event: Extract<RendezvousEvent, { type: "rank_joins" }>): RankwiseError | undefined {
    const { job, epoch, nranks } = this.#options;
    const { rank } = event;
    if (event.job !== job) {
      return new RankwiseError("ERR_FOREIGN_JOB", `this coordinator runs job ${job}, not job ${event.job}`, { rank });
    }
    if (event.epoch !== epoch) {
      return new RankwiseError("ERR_STALE_EPOCH", `job ${job} is in epoch ${epoch}, not ${event.epoch}`, { rank });
    }
    if (rank >= nranks) {
      return new RankwiseError("ERR_BAD_HELLO", `rank ${rank} is not in [0, ${nranks}), the ranks of job ${job}`, {
        rank,
      });
    }
    if (this.#addresses.has(rank)) {
      return new RankwiseError("ERR_DUPLICATE_RANK", `rank ${rank} of job ${job} has already joined`, { rank });
    }
    return undefined;
  }

  #lateness(): RankwiseError {
    const unplaced = this.#ranksThat((place) => place === "free");
    const absent = this.#ranksThat((place) => place === "assigned");
    const unready = this.#phaseLinked() ? this.#ranksThat((place) => place === "joined") : [];
    const missing = [...unplaced, ...absent, ...unready].sort((a, b) => a - b);
    const parts = [
      unplaced.length > 0 ? `no supervisor offered to start ${list(unplaced)}` : "",
      absent.length > 0 ? `started but did not join: ${list(absent)}` : "",
      unready.length > 0 ? `joined but could not reach all peers: ${list(unready)}` : "",
    ].filter((part) => part !== "");
    const { nranks, joinTimeoutMs } = this.#options;
    return new RankwiseError(
      "ERR_JOIN_TIMEOUT",
      `${missing.length} of ${nranks} ranks missing after ${joinTimeoutMs / 1000} s (--join-timeout): ${parts.join("; ")}`,
      { missing },
    );
  }

  /** Whether all had joined, so that being ready is what was awaited. */
  #phaseLinked(): boolean {
    return this.#addresses.size === this.#options.nranks;
  }

  #ranksThat(test: (place: Place) => boolean): number[] {
    return this.#places.flatMap((place, rank) => (test(place) ? [rank] : []));
  }
}

function list(ranks: readonly number[]): string {
  return `rank${ranks.length === 1 ? "" : "s"} ${ranks.join(", ")}`;
}
