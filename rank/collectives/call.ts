/**
 * How a builtin call runs: checked and numbered when it is made, ordered after the calls it must follow, executed with
 * its credits, and taken out of the books when it ends.
 */
import { ignore } from "../../shared/async.ts";
import { RankwiseError } from "../../shared/errors.ts";
import { fingerprint } from "../../shared/frame.ts";
import { describe, offsetOf } from "../../shared/shape.ts";
import type { Engine } from "../engine.ts";
import type { CallContext, Group } from "../group.ts";
import type { Allocation } from "../memory/registry.ts";
import { sharesMemory } from "../memory/tensor.ts";
import { CreditBarrier } from "./credits.ts";
import type { LedgerCall } from "./ledger.ts";

/** A collective, a deferred wait or a `comm.task` in flight: resolves when it is complete here. `{ after }` accepts it. */
export type Task = Promise<void>;

/** Options that every collective and `comm.task` take. */
export interface CallOptions {
  /** Tasks of this rank that must have completed before this one starts. */
  readonly after?: Task | readonly Task[];
}

/** Memory that a call uses. */
export interface BufferUse {
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly writes: boolean;
}

/** The task that `start` makes; a refused call rejects its task, so that nothing is thrown past the caller's await. */
export function refusable(start: () => Task): Task {
  try {
    return start();
  } catch (error) {
    return Promise.reject(error instanceof Error ? error : new Error(String(error)));
  }
}

/** A checked call, ready to run. */
export interface CollectiveSpec {
  readonly op: string;
  /** What every rank must agree on beside op, lanes and ready round, as one text. */
  readonly agreement: string;
  readonly signal: Allocation;
  /** The window that the call leaves its result in. Its builtin calls are counted. */
  readonly target: Allocation | undefined;
  /** Whether the call pushes into peers' targets at once, and so begins with a ready round when the window is reused. */
  readonly pushes: boolean;
  readonly buffers: readonly BufferUse[];
  /** Whether the call uses the submission queues, which one call at a time may. */
  readonly queues?: boolean;
  readonly options: CallOptions;
  /** Members that this rank hears from in every such call; all of them without it. */
  readonly hears?: readonly number[];
  run(call: CollectiveCall): Promise<void>;
}

/** A running call. */
export interface CollectiveCall {
  readonly engine: Engine;
  readonly group: Group;
  /** Whether the call begins with a ready round. */
  readonly ready: boolean;
  /** Number of the call in its group. */
  readonly seq: number;
  /** The credits of a lane. */
  readonly lane: (index: number) => CreditBarrier;
  readonly context: (round: number, lane: number) => CallContext;
}

interface InFlight {
  readonly label: string;
  readonly signal: Allocation | undefined;
  readonly buffers: readonly BufferUse[];
  readonly queues: boolean;
  /** The tasks that this one comes after, and those that they come after. */
  readonly follows: ReadonlySet<InFlight>;
  readonly done: Promise<void>;
}

/** Fingerprints that are remembered at most. */
const FINGERPRINTS_KEPT_MAX = 1024;

/** The context of a round, whose label is made when it is told. */
class RoundContext implements CallContext {
  readonly group: Group;
  readonly seq: number;
  readonly fingerprint: number;
  readonly lane: number;
  readonly round: number;
  readonly #op: string;

  constructor(op: string, group: Group, seq: number, hash: number, lane: number, round: number) {
    this.#op = op;
    this.group = group;
    this.seq = seq;
    this.fingerprint = hash;
    this.lane = lane;
    this.round = round;
  }

  get label(): string {
    return `${this.#op} #${this.seq}`;
  }
}

/** The tasks in flight on one rank, over all its groups. */
export class CallBook {
  readonly #engine: Engine;
  readonly #inFlight = new Set<InFlight>();
  readonly #recordOf = new WeakMap<Task, InFlight>();
  readonly #fingerprints = new Map<string, number>();
  /** What comes after one of these fails too. */
  readonly #failed = new WeakSet<InFlight>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /**
   * Starts a checked collective call. A call refused here has moved nothing and consumed no sequence number.
   *
   * @throws {ERR_SIGNAL_NOT_CLEAN | ERR_QUEUE_CONFLICT | ERR_BUFFER_CONFLICT | ERR_INVALID_ARGUMENT | ERR_GROUP_ENDED}
   */
  start(group: Group, spec: CollectiveSpec): Task {
    this.#engine.throwIfEnded();
    checkClean(spec);
    const follows = this.#predecessors(spec.op, spec.options);
    // queues want an order that the program states; one that a shared signal implies is not enough
    if (spec.queues === true) this.#refuseSharedQueues(spec, follows);
    for (const other of this.#inFlight) if (other.signal === spec.signal) this.#add(follows, other);
    this.#refuseConflicts(spec, follows);
    const ready = spec.pushes && spec.target !== undefined && spec.target.builtinCalls > 0;
    this.#countUses(group, spec);
    const agreement = `${spec.op}(${spec.agreement}${spec.pushes ? `, ready round ${ready ? "yes" : "no"}` : ""})`;
    const before = follows.size === 0 ? [] : [...follows].map((call) => call.done);
    const task = this.#run(group, spec, agreement, ready && this.#engine.faults?.skipReady !== true, before);
    const queues = spec.queues === true;
    return this.#record(task, { label: spec.op, signal: spec.signal, buffers: spec.buffers, queues, follows });
  }

  /** Runs `work` as a task of its own, once the tasks of `after` have completed. @throws {ERR_INVALID_ARGUMENT} */
  defer(label: string, options: CallOptions, work: () => unknown): Task {
    this.#engine.throwIfEnded();
    const follows = this.#predecessors(label, options);
    const execute = async (): Promise<void> => {
      await Promise.all([...follows].map((call) => call.done));
      await work();
    };
    return this.#record(execute(), { label, signal: undefined, buffers: [], queues: false, follows });
  }

  #record(task: Task, parts: Omit<InFlight, "done">): Task {
    const record: InFlight = { ...parts, done: task };
    this.#inFlight.add(record);
    this.#recordOf.set(task, record);
    task.then(
      () => this.#inFlight.delete(record),
      () => {
        this.#inFlight.delete(record);
        this.#failed.add(record);
      },
    );
    return task;
  }

  #run(group: Group, spec: CollectiveSpec, agreement: string, ready: boolean, before: readonly Promise<void>[]): Task {
    const engine = this.#engine;
    const hash = this.#fingerprintOf(agreement);
    let entered;
    try {
      entered = group.ledger.enter(spec.op, agreement, hash);
    } catch (error) {
      if (error instanceof RankwiseError) engine.fail({ error, call: engine.currentCall(), suspect: null });
      throw error;
    }
    const { seq } = entered;
    const forget = this.#refuseAbsent(group, entered, spec.hears ?? group.peers());
    // from now on, also while the call waits for its turn, no Set may reach its signal
    spec.signal.cells?.enterBuiltin();
    const { faults } = engine;
    const context = (round: number, lane: number): CallContext => {
      faults?.reached(spec.op, seq, round);
      return new RoundContext(spec.op, group, seq, hash, lane, round);
    };
    const execute = async (): Promise<void> => {
      const lanes = new Map<number, CreditBarrier>();
      const lane = (index: number): CreditBarrier => {
        let credits = lanes.get(index);
        if (credits === undefined) {
          credits = new CreditBarrier(engine, group, spec.signal, index, (round) => context(round, index));
          lanes.set(index, credits);
        }
        return credits;
      };
      try {
        if (before.length > 0) await Promise.all(before);
        const held = faults?.entered(spec.op, seq);
        if (held !== undefined) await held;
        await spec.run({ engine, group, ready, seq, lane, context });
        for (const credits of lanes.values()) credits.settle();
        group.ledger.leave(entered);
      } finally {
        forget();
        spec.signal.cells?.leaveBuiltin();
      }
    };
    const task = execute();
    task.catch(ignore);
    return task;
  }

  /** Programs make the same calls again and again. */
  #fingerprintOf(agreement: string): number {
    let hash = this.#fingerprints.get(agreement);
    if (hash === undefined) {
      if (this.#fingerprints.size >= FINGERPRINTS_KEPT_MAX) this.#fingerprints.clear();
      this.#fingerprints.set(agreement, (hash = fingerprint(agreement)));
    }
    return hash;
  }

  /** A peer that has left without a word of this call will never enter it. Returns the function that ends the watch. */
  #refuseAbsent(group: Group, { op, seq, heard, arguments: args }: LedgerCall, members: readonly number[]): () => void {
    const engine = this.#engine;
    const peers = members.map((peer) => engine.peer(group.world(peer)));
    return engine.onProgress(() => {
      const absent = peers.find(({ rank, saidGoodbye }) => saidGoodbye && !heard.has(rank));
      if (absent === undefined) return;
      const error = new RankwiseError(
        "ERR_MISMATCH",
        `${op} #${seq}: rank ${absent.rank} has come to the end of its program without this call (here: ${args})`,
        { peer: absent.rank, collective: op, seq },
      );
      engine.fail({ error, call: `${op} #${seq}`, suspect: null });
    });
  }

  /** Resolves when no collective of this rank is in flight any more, however it has ended. */
  async idle(): Promise<void> {
    for (;;) {
      const collectives = [...this.#inFlight].filter(({ signal }) => signal !== undefined);
      if (collectives.length === 0) return;
      await Promise.allSettled(collectives.map(({ done }) => done));
    }
  }

  /** The tasks that `after` names, and theirs. */
  #predecessors(label: string, { after = [] }: CallOptions): Set<InFlight> {
    const follows = new Set<InFlight>();
    const tasks: readonly unknown[] = Array.isArray(after) ? after : [after];
    for (const task of tasks) {
      const record = task instanceof Promise ? this.#recordOf.get(task as Task) : undefined;
      if (record === undefined) {
        throw new RankwiseError(
          "ERR_INVALID_ARGUMENT",
          `${label}: after takes tasks of this rank (a collective, signal.deferWait or comm.task), got ${describe(task)}`,
          { argument: "after" },
        );
      }
      this.#add(follows, record);
    }
    return follows;
  }

  /** A task that is still in flight or has failed, with those it comes after; what is done needs no order any more. */
  #add(follows: Set<InFlight>, record: InFlight): void {
    for (const task of [record, ...record.follows]) {
      if (this.#inFlight.has(task) || this.#failed.has(task)) follows.add(task);
    }
  }

  /**
   * Counts this call for every window of the group that it uses. One that it sends from counts too: a faster peer that
   * pushes into it in the next call must know that it has been sent.
   */
  #countUses(group: Group, { target, buffers }: CollectiveSpec): void {
    const used = new Set(target === undefined ? [] : [target]);
    for (const { bytes } of buffers) {
      for (const window of this.#engine.registry.sharing(group.id, bytes)) used.add(window);
    }
    for (const window of used) window.builtinCalls += 1;
  }

  #refuseSharedQueues(spec: CollectiveSpec, follows: ReadonlySet<InFlight>): void {
    for (const other of this.#inFlight) {
      if (!other.queues || follows.has(other)) continue;
      throw new RankwiseError(
        "ERR_QUEUE_CONFLICT",
        `${spec.op}: another ${other.label} is in flight on this rank and they would share submission queues; pass { after: task } to run after it`,
        { collective: spec.op },
      );
    }
  }

  #refuseConflicts(spec: CollectiveSpec, follows: ReadonlySet<InFlight>): void {
    for (const other of this.#inFlight) {
      if (follows.has(other)) continue;
      for (const mine of spec.buffers) {
        const clash = other.buffers.find(
          (theirs) => (mine.writes || theirs.writes) && sharesMemory(mine.bytes, theirs.bytes),
        );
        if (clash === undefined) continue;
        throw new RankwiseError(
          "ERR_BUFFER_CONFLICT",
          `${spec.op}: its ${mine.name} is the ${clash.name} of ${other.label}, which is in flight on another signal; pass { after: task } to run after it`,
          { collective: spec.op },
        );
      }
    }
  }
}

function checkClean(spec: CollectiveSpec): void {
  const { cells, name, shape } = spec.signal;
  const cell = cells?.uncleanCell();
  if (cells === undefined || cell === undefined) return;
  throw new RankwiseError(
    "ERR_SIGNAL_NOT_CLEAN",
    `${spec.op}: ${cells.describe(cell)} holds ${cells.value(cell)}, last changed by Set; a builtin counts credits and needs a signal of its own, or one whose cells are zero`,
    { window: name, offset: offsetOf(cell, shape), collective: spec.op },
  );
}
