/**
 * How a builtin call runs: checked and numbered when it is made, ordered after the calls it must follow, executed with
 * its credits, and taken out of the books when it ends.
 */
import { ignore } from "../../shared/async.ts";
import { RankwiseError } from "../../shared/errors.ts";
import { fingerprint } from "../../shared/frame.ts";
import type { Engine } from "../engine.ts";
import type { CallContext, Group } from "../group.ts";
import type { Allocation } from "../memory/registry.ts";
import { sharesMemory } from "../memory/tensor.ts";
import { CreditBarrier } from "./credits.ts";

/** A collective in flight: resolves when it is complete on this rank. `{ after }` accepts it. */
export type Task = Promise<void>;

/** Options that every collective takes. */
export interface CallOptions {
  /** Tasks that must have completed before this call starts. */
  readonly after?: Task | readonly Task[];
}

/** Memory that a call uses. */
export interface BufferUse {
  readonly name: string;
  readonly bytes: Uint8Array;
  readonly writes: boolean;
}

/** A checked call, ready to run. */
export interface CollectiveSpec {
  readonly op: string;
  /** What every rank must agree on beside op, lanes and ready round, as one text. */
  readonly agreement: string;
  readonly signal: Allocation;
  /** The window that the call pushes into; its reuse decides about the ready round. */
  readonly target: Allocation | undefined;
  readonly buffers: readonly BufferUse[];
  readonly options: CallOptions;
  run(call: CollectiveCall): Promise<void>;
}

/** A running call. */
export interface CollectiveCall {
  readonly engine: Engine;
  readonly group: Group;
  readonly credits: CreditBarrier;
  /** Whether the call begins with a ready round. */
  readonly ready: boolean;
  context(round: number, lane?: number): CallContext;
}

interface InFlight {
  readonly label: string;
  readonly signal: Allocation;
  readonly buffers: readonly BufferUse[];
  readonly follows: ReadonlySet<InFlight>;
  readonly done: Promise<void>;
}

/** The builtin calls in flight on one rank, over all its groups. */
export class CallBook {
  readonly #engine: Engine;
  readonly #inFlight = new Set<InFlight>();
  readonly #callOf = new WeakMap<Task, InFlight>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /**
   * Starts a checked call. A call refused here has moved nothing and consumed no sequence number.
   *
   * @throws {ERR_SIGNAL_NOT_CLEAN | ERR_BUFFER_CONFLICT | ERR_GROUP_ENDED}
   */
  start(group: Group, spec: CollectiveSpec): Task {
    this.#engine.throwIfEnded();
    checkClean(spec);
    const follows = this.#predecessors(spec);
    this.#refuseConflicts(spec, follows);
    const ready = spec.target !== undefined && spec.target.builtinCalls > 0;
    if (spec.target !== undefined) spec.target.builtinCalls += 1;
    const agreement = `${spec.op}(${spec.agreement}${spec.target === undefined ? "" : `, ready round ${ready ? "yes" : "no"}`})`;
    const task = this.#run(
      group,
      spec,
      agreement,
      ready && this.#engine.faults?.skipReady !== true,
      [...follows].map((call) => call.done),
    );
    const record: InFlight = { label: spec.op, signal: spec.signal, buffers: spec.buffers, follows, done: task };
    this.#inFlight.add(record);
    this.#callOf.set(task, record);
    task.then(
      () => this.#inFlight.delete(record),
      () => this.#inFlight.delete(record),
    );
    return task;
  }

  #run(group: Group, spec: CollectiveSpec, agreement: string, ready: boolean, before: readonly Promise<void>[]): Task {
    const engine = this.#engine;
    const hash = fingerprint(agreement);
    let entered;
    try {
      entered = group.ledger.enter(spec.op, agreement, hash);
    } catch (error) {
      if (error instanceof RankwiseError) engine.fail({ error, call: spec.op, suspect: null });
      throw error;
    }
    const { seq } = entered;
    const context = (round: number, lane = 0): CallContext => ({
      label: `${spec.op} #${seq}`,
      group,
      seq,
      fingerprint: hash,
      lane,
      round,
    });
    const execute = async (): Promise<void> => {
      await Promise.all(before);
      const credits = new CreditBarrier(engine, group, spec.signal, context);
      spec.signal.cells?.enterBuiltin();
      try {
        await spec.run({ engine, group, credits, ready, context });
        credits.settle();
        group.ledger.leave(entered);
      } finally {
        spec.signal.cells?.leaveBuiltin();
      }
    };
    const task = execute();
    task.catch(ignore);
    return task;
  }

  /** Calls in flight that this one must follow: those on the same signal, those named by `after`, and theirs. */
  #predecessors(spec: CollectiveSpec): Set<InFlight> {
    const follows = new Set<InFlight>();
    const add = (call: InFlight): void => {
      follows.add(call);
      for (const earlier of call.follows) follows.add(earlier);
    };
    for (const call of this.#inFlight) if (call.signal === spec.signal) add(call);
    const { after } = spec.options;
    for (const task of after === undefined ? [] : after instanceof Promise ? [after] : after) {
      const call = this.#callOf.get(task);
      if (call === undefined) {
        throw new RankwiseError("ERR_INVALID_ARGUMENT", `${spec.op}: after must be tasks of collectives on this rank`, {
          argument: "after",
        });
      }
      add(call);
    }
    return follows;
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
  const cell = spec.signal.cells?.uncleanCell();
  if (cell === undefined) return;
  throw new RankwiseError(
    "ERR_SIGNAL_NOT_CLEAN",
    `${spec.op}: cell ${cell} of signal "${spec.signal.name}" holds ${spec.signal.cells?.value(cell) ?? 0}, last changed by Set; a builtin counts credits and needs a signal of its own, or one whose cells are zero`,
    { window: spec.signal.name, offset: cell, collective: spec.op },
  );
}
