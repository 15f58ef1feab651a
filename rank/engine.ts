/**
 * The state of one rank: its memory, its peers, what it waits for, and whether its group still lives.
 *
 * ```text
 * a put leaves    window.ts → issue.ts → engine.send → transport
 * a put lands     transport → serve.ts → window memory, signal cells → waiters
 * ```
 */
import { ignore } from "../shared/async.ts";
import { WAIT_TIMEOUT_MS } from "../shared/constants.ts";
import { RankwiseError } from "../shared/errors.ts";
import type { FrameHeader } from "../shared/frame.ts";
import {
  type Cause,
  type Counters,
  type MessageOf,
  type QueueCounters,
  type RankState,
  zeroCounters,
} from "../shared/messages.ts";
import type { Faults } from "./faults.ts";
import { Group, groupId } from "./group.ts";
import { defaultLimits, type Limits } from "./limits.ts";
import { type Arena, noArena } from "./memory/arena.ts";
import { Registry } from "./memory/registry.ts";
import { Peer } from "./peer.ts";
import { PendingWaits } from "./pending.ts";
import { Publications } from "./publications.ts";
import type { Payload, Transport } from "./transport/transport.ts";

/** What makes a rank: who it is, and how long it waits. */
export interface EngineOptions {
  readonly rank: number;
  readonly nranks: number;
  readonly waitTimeoutMs?: number;
  readonly faults?: Faults;
  readonly limits?: Partial<Limits>;
  readonly placement?: Placement;
  /** Where windows and scratch lie; default: each has memory of its own. */
  readonly arena?: Arena;
}

/** Where the ranks of the job run. The same on every rank, so that they choose the same algorithms. */
export type Placement = MessageOf<"start">["placement"];

/** Ranks that share one process never wait for a processor. */
const IN_PROCESS: Placement = { hosts: 1, processors: Infinity };

/** A failure that this rank has found, on its way to the coordinator. */
export interface RankFailure {
  readonly error: RankwiseError;
  /** The call it happened in, or null. */
  readonly call: string | null;
  /** The rank at fault, if it is another one. */
  readonly suspect: number | null;
}

export class Engine {
  readonly rank: number;
  readonly nranks: number;
  /** Deadline of a wait; set once the job's settings are known. */
  waitTimeoutMs: number;
  readonly faults: Faults | undefined;
  readonly limits: Limits;
  placement: Placement;
  readonly arena: Arena;
  readonly registry: Registry;
  readonly pending = new PendingWaits();
  readonly publications = new Publications();
  readonly counters: Counters = zeroCounters();
  readonly #queues = new Map<string, QueueCounters>();
  readonly world: Group;
  readonly #groups = new Map<number, Group>();
  readonly #groupOrdinals = new Map<string, number>();
  readonly #peers: Peer[];
  /** The poller's: told of every frame that a peer has sent, once it is applied. */
  onFrame: (() => void) | undefined;
  #transport: Transport | undefined;
  #failure: RankFailure | undefined;
  #ended: RankwiseError | undefined;
  #leaving = false;
  #someoneLeft = false;
  #onFailure: (failure: RankFailure) => void = ignore;
  /** Called when a peer's goodbye or check has arrived. */
  readonly #progressListeners = new Set<() => void>();
  /** Checks made so far, by group and rank. */
  readonly #checks = new Map<string, number>();

  constructor(options: EngineOptions) {
    this.rank = options.rank;
    this.nranks = options.nranks;
    this.waitTimeoutMs = options.waitTimeoutMs ?? WAIT_TIMEOUT_MS;
    this.faults = options.faults;
    this.limits = { ...defaultLimits, ...options.limits };
    this.placement = options.placement ?? IN_PROCESS;
    this.arena = options.arena ?? noArena;
    this.registry = new Registry(this.arena);
    this.#peers = Array.from({ length: options.nranks }, (_, rank) => new Peer(rank, this.limits.getInFlightBytes));
    this.world = new Group([...this.#peers.keys()], 0, this.rank, 0);
    this.#groups.set(0, this.world);
  }

  /** Gives the engine its transport. */
  attach(transport: Transport): void {
    this.#transport = transport;
  }

  /** Where failures go. */
  onFailure(listener: (failure: RankFailure) => void): void {
    this.#onFailure = listener;
  }

  // ---- groups -------------------------------------------------------------------------------------------------

  /** The group of these world ranks; each call with the same list makes a further group. */
  makeGroup(members: readonly number[]): Group {
    const list = members.join(",");
    const ordinal = (this.#groupOrdinals.get(list) ?? 0) + 1;
    this.#groupOrdinals.set(list, ordinal);
    const id = groupId(members, ordinal);
    if (this.#groups.has(id)) {
      throw new RankwiseError(
        "ERR_LIMIT",
        `group [${list}]: its id ${id} is that of another group; order the ranks differently`,
      );
    }
    const group = new Group(members, ordinal, this.rank, id);
    this.#groups.set(id, group);
    return group;
  }

  group(id: number): Group | undefined {
    return this.#groups.get(id);
  }

  // ---- frames out ---------------------------------------------------------------------------------------------

  peer(worldRank: number): Peer {
    const peer = this.#peers[worldRank];
    if (peer === undefined) throw new RankwiseError("ERR_INTERNAL", `no peer ${worldRank}`);
    return peer;
  }

  /**
   * Sends one frame to a peer, with its serial and acknowledgement filled in.
   * Returns the promise of local completion, or undefined when it is reached.
   */
  send(peer: Peer, header: FrameHeader, payload: Payload | undefined, exempt = false): Promise<void> | undefined {
    this.throwIfEnded();
    if (this.#transport === undefined) throw new RankwiseError("ERR_INTERNAL", "no transport");
    header.serial = peer.nextSerial();
    header.ack = peer.received;
    try {
      return this.#transport.send(peer.rank, header, payload, exempt);
    } catch (error) {
      // a frame that the link refused was never sent, so the next one has its number
      peer.takeBackSerial();
      throw error;
    }
  }

  /** Sends a frame that is taken however full the link's queue is, and whose local completion nobody awaits. */
  post(peer: Peer, header: FrameHeader, payload?: Uint8Array): void {
    this.send(peer, header, payload, true)?.catch(ignore);
  }

  // ---- checks and goodbyes of peers ---------------------------------------------------------------------------

  /** Number of this rank's next check in a group. */
  nextCheck(groupId: number): number {
    return this.#countCheck(groupId, this.rank);
  }

  peerChecked(groupId: number, from: number): void {
    this.#countCheck(groupId, from);
    this.#progressed();
  }

  peerSaidGoodbye(from: number): void {
    this.peer(from).saidGoodbye = true;
    this.#someoneLeft = true;
    this.#progressed();
  }

  /** Whether a peer has said goodbye. */
  get someoneLeft(): boolean {
    return this.#someoneLeft;
  }

  /** Which of these ranks have neither made their `nth` check in the group nor said goodbye. */
  notChecked(groupId: number, worldRanks: readonly number[], nth: number): number[] {
    return worldRanks.filter(
      (rank) => !this.peer(rank).saidGoodbye && (this.#checks.get(`${groupId}:${rank}`) ?? 0) < nth,
    );
  }

  /** Calls back now and whenever a peer's check or goodbye arrives; the returned function ends that. */
  onProgress(listener: () => void): () => void {
    this.#progressListeners.add(listener);
    listener();
    return () => this.#progressListeners.delete(listener);
  }

  #countCheck(groupId: number, rank: number): number {
    const key = `${groupId}:${rank}`;
    const count = (this.#checks.get(key) ?? 0) + 1;
    this.#checks.set(key, count);
    return count;
  }

  #progressed(): void {
    for (const listener of [...this.#progressListeners]) listener();
  }

  /** The counters of one lane's submission queue to one peer (world rank). */
  queue(peer: number, lane: number): QueueCounters {
    const key = `${peer}:${lane}`;
    let queue = this.#queues.get(key);
    if (queue === undefined) {
      queue = { peer, lane, sqes: 0, wqebbs: 0, doorbells: 0, cqes: 0, submittedWqeCount: 0 };
      this.#queues.set(key, queue);
    }
    return queue;
  }

  // ---- failure and end ----------------------------------------------------------------------------------------

  /**
   * Reports a failure that ends the group. Pending calls reject when the coordinator has settled on the first cause
   * and `end` is called with it.
   */
  fail(failure: RankFailure): void {
    if (this.#failure !== undefined || this.#ended !== undefined) return;
    this.#failure = failure;
    this.#onFailure(failure);
  }

  /** The group has ended: every pending call, and every later one, rejects with `ERR_GROUP_ENDED`. */
  end(cause: Cause): void {
    if (this.#ended !== undefined) return;
    const who = cause.rank === null ? "" : `rank ${cause.rank}: `;
    const first = new RankwiseError(cause.code, cause.message, cause.rank === null ? {} : { rank: cause.rank });
    this.#ended = new RankwiseError(
      "ERR_GROUP_ENDED",
      `the group has ended; first cause: ${who}${cause.code} ${cause.message}`,
      first.context,
      first,
    );
    this.pending.end(this.#ended);
  }

  /** From here on, links may close. */
  leave(): void {
    this.#leaving = true;
    this.pending.disarm();
  }

  /** Whether the link from a rank may close without that being a failure. */
  mayClose(worldRank: number): boolean {
    return this.#leaving || this.peer(worldRank).saidGoodbye;
  }

  /** Whether this rank has reported a failure, or the group has ended. */
  get failed(): boolean {
    return this.#failure !== undefined || this.#ended !== undefined;
  }

  get ended(): boolean {
    return this.#ended !== undefined;
  }

  /** @throws {ERR_GROUP_ENDED} once the group has ended. */
  throwIfEnded(): void {
    if (this.#ended !== undefined) throw this.#ended;
  }

  /** The call this rank is in, for a report: the latest builtin, else the latest pending primitive. */
  currentCall(): string | null {
    const builtin = [...this.#groups.values()].flatMap((group) => group.ledger.current()).at(-1);
    if (builtin !== undefined) return `${builtin.op} #${builtin.seq}`;
    return this.pending.rows().at(-1)?.call ?? null;
  }

  /** Counters, calls and waits, as they go into the report. */
  state(): RankState {
    const calls = [...this.#groups.values()].flatMap((group) =>
      group.ledger.current().map((call) => ({ ...call, group: [...group.members], groupOrdinal: group.ordinal })),
    );
    const queues = [...this.#queues.values()].map((queue) => ({ ...queue }));
    return { counters: { ...this.counters }, queues, calls, waits: this.pending.rows() };
  }
}
