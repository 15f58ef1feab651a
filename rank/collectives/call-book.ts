/**
 * How a builtin call runs: checked and numbered when it is made, ordered after the calls it must follow, executed with
 * its credits, and taken out of the books when it ends.
 */
import { RankwiseError } from "../../shared/errors.ts";
import { fingerprint } from "../../shared/frame.ts";
import { takeOut } from "../list.ts";
import { describe, offsetOf } from "../../shared/shape.ts";
import type { Engine } from "../engine.ts";
import type { Group } from "../group.ts";
import type { Allocation } from "../memory/registry.ts";
import { sharesMemory } from "../memory/tensor.ts";
import type { CallOptions, CollectiveSpec, Task, Term } from "./call.ts";
import { InFlight } from "./in-flight.ts";
import type { LedgerCall } from "./ledger.ts";
import { RunningCall } from "./running-call.ts";

/** Agreements of one signal that are remembered at most. */
const AGREEMENTS_KEPT_MAX = 64;

/** What the ranks agree on in a call, as text and as a number. */
interface Agreement {
  readonly op: string;
  readonly ready: boolean;
  readonly of: readonly Term[];
  readonly text: string;
  readonly fingerprint: number;
}

/** The tasks in flight on one rank, over all its groups. */
export class CallBook {
  readonly #engine: Engine;
  readonly #inFlight: InFlight[] = [];
  /** Programs make the same calls again and again. */
  readonly #agreements = new WeakMap<Allocation, Agreement[]>();

  constructor(engine: Engine) {
    this.#engine = engine;
    engine.onProgress(() => {
      for (const { call } of this.#inFlight) if (call !== undefined) this.#refuseAbsent(call);
    });
  }

  /**
   * Starts a checked collective call. A call refused here has moved nothing and consumed no sequence number.
   *
   * @throws {ERR_SIGNAL_NOT_CLEAN | ERR_QUEUE_CONFLICT | ERR_BUFFER_CONFLICT | ERR_INVALID_ARGUMENT | ERR_GROUP_ENDED}
   */
  start(group: Group, spec: CollectiveSpec): Task {
    const engine = this.#engine;
    engine.throwIfEnded();
    checkClean(spec);
    const follows = this.#predecessors(spec.op, spec.options);
    // queues want an order that the program states; one that a shared signal implies is not enough
    if (spec.queues) this.#refuseSharedQueues(spec, follows);
    // the latest call on a signal comes after all others on it
    const latest = this.#inFlight.findLast(({ signal }) => signal === spec.signal);
    if (latest !== undefined) follows.push(latest);
    this.#refuseConflicts(spec, follows);
    const ready = spec.pushes && spec.target !== undefined && spec.target.builtinCalls > 0;
    this.#countUses(group, spec);
    const entered = this.#enter(group, spec, ready);
    const call = new RunningCall(engine, group, spec, entered, ready && engine.faults?.skipReady !== true);
    if (engine.someoneLeft) this.#refuseAbsent(call);
    const record = new InFlight(spec.op, follows, call);
    return record.becomes(this.#execute(record, () => call.run()));
  }

  /** Runs `work` as a task of its own, once the tasks of `after` have completed. @throws {ERR_INVALID_ARGUMENT} */
  defer(label: string, options: CallOptions, work: () => unknown): Task {
    this.#engine.throwIfEnded();
    const record = new InFlight(label, this.#predecessors(label, options));
    return record.becomes(this.#execute(record, work));
  }

  async #execute(record: InFlight, work: () => unknown): Promise<void> {
    const { call, follows } = record;
    this.#inFlight.push(record);
    try {
      // what a program gives to be done never starts before its own code goes on: all ranks make their calls in one order
      if (call === undefined || follows.length > 0) await Promise.all(follows.map(({ done }) => done));
      await work();
      call?.complete();
      record.settle("done");
    } catch (error) {
      record.settle("failed");
      // what the end of the group tells is no unhandled rejection of a program that does not await the task
      if (this.#engine.failed) record.toldOtherwise();
      throw error;
    } finally {
      takeOut(this.#inFlight, record);
      call?.leave();
    }
  }

  /** Enters the ledger of the group. @throws {ERR_MISMATCH} when a peer has announced another call. */
  #enter(group: Group, spec: CollectiveSpec, ready: boolean): LedgerCall {
    const { text, fingerprint } = this.#agreement(spec, ready);
    try {
      return group.ledger.enter(spec.op, text, fingerprint);
    } catch (error) {
      const engine = this.#engine;
      if (error instanceof RankwiseError) engine.fail({ error, call: engine.currentCall(), suspect: null });
      throw error;
    }
  }

  #agreement({ op, terms, signal, pushes }: CollectiveSpec, ready: boolean): Agreement {
    let known = this.#agreements.get(signal);
    if (known === undefined) this.#agreements.set(signal, (known = []));
    const found = known.find((other) => other.op === op && other.ready === ready && sameTerms(other.of, terms.of));
    if (found !== undefined) return found;
    const text = `${op}(${terms.text()}${pushes ? `, ready round ${ready ? "yes" : "no"}` : ""})`;
    const made = { op, ready, of: terms.of, text, fingerprint: fingerprint(text) };
    if (known.length === AGREEMENTS_KEPT_MAX) known.shift();
    known.push(made);
    return made;
  }

  /** A peer that has left without a word of a call will never enter it. */
  #refuseAbsent({ group, entered, spec }: RunningCall): void {
    const engine = this.#engine;
    const absent = spec.hears
      .map((peer) => engine.peer(group.world(peer)))
      .find(({ rank, saidGoodbye }) => saidGoodbye && !group.ledger.heard(rank, entered));
    if (absent === undefined) return;
    const call = `${entered.op} #${entered.seq}`;
    const error = new RankwiseError(
      "ERR_MISMATCH",
      `${call}: rank ${absent.rank} has come to the end of its program without this call (here: ${entered.arguments})`,
      { peer: absent.rank, collective: entered.op, seq: entered.seq },
    );
    engine.fail({ error, call, suspect: null });
  }

  /** Resolves when no collective of this rank is in flight any more, however it has ended. */
  async idle(): Promise<void> {
    for (;;) {
      const collectives = this.#inFlight.filter(({ call }) => call !== undefined);
      if (collectives.length === 0) return;
      await Promise.allSettled(collectives.map(({ done }) => done));
    }
  }

  /** The tasks that `after` names and that are still in flight, or have failed; what is done needs no order any more. */
  #predecessors(label: string, { after }: CallOptions): InFlight[] {
    const follows: InFlight[] = [];
    if (after === undefined) return follows;
    const tasks: readonly unknown[] = Array.isArray(after) ? after : [after];
    for (const task of tasks) {
      const record = InFlight.of(task);
      if (record === undefined) {
        throw new RankwiseError(
          "ERR_INVALID_ARGUMENT",
          `${label}: after takes tasks of this rank (a collective, signal.deferWait or comm.task), got ${describe(task)}`,
          { argument: "after" },
        );
      }
      if (record.state !== "done") follows.push(record);
    }
    return follows;
  }

  /**
   * Counts this call for every window of the group that it uses. One that it sends from counts too: a faster peer that
   * pushes into it in the next call must know that it has been sent.
   */
  #countUses(group: Group, { target, buffers }: CollectiveSpec): void {
    const used = target === undefined ? [] : [target];
    for (const { bytes } of buffers) {
      for (const window of this.#engine.registry.sharing(group.id, bytes)) {
        if (!used.includes(window)) used.push(window);
      }
    }
    for (const window of used) window.builtinCalls += 1;
  }

  #refuseSharedQueues(spec: CollectiveSpec, follows: readonly InFlight[]): void {
    const before = new Before(follows);
    for (const other of this.#inFlight) {
      if (!other.queues || before.has(other)) continue;
      throw new RankwiseError(
        "ERR_QUEUE_CONFLICT",
        `${spec.op}: another ${other.label} is in flight on this rank and they would share submission queues; pass { after: task } to run after it`,
        { collective: spec.op },
      );
    }
  }

  #refuseConflicts(spec: CollectiveSpec, follows: readonly InFlight[]): void {
    const before = new Before(follows);
    for (const other of this.#inFlight) {
      for (const mine of spec.buffers) {
        const clash = other.buffers.find(
          (theirs) => (mine.writes || theirs.writes) && sharesMemory(mine.bytes, theirs.bytes),
        );
        if (clash === undefined || before.has(other)) continue;
        throw new RankwiseError(
          "ERR_BUFFER_CONFLICT",
          `${spec.op}: its ${mine.name} is the ${clash.name} of ${other.label}, which is in flight on another signal; pass { after: task } to run after it`,
          { collective: spec.op },
        );
      }
    }
  }
}

/** Everything that some tasks are and come after, gone through when it is first asked for. */
class Before {
  readonly #tasks: readonly InFlight[];
  #all: Set<InFlight> | undefined;

  constructor(tasks: readonly InFlight[]) {
    this.#tasks = tasks;
  }

  has(task: InFlight): boolean {
    if (this.#all === undefined) {
      this.#all = new Set(this.#tasks);
      // a set goes on with what is added to it meanwhile
      for (const { follows } of this.#all) for (const earlier of follows) this.#all.add(earlier);
    }
    return this.#all.has(task);
  }
}

function sameTerms(some: readonly Term[], others: readonly Term[]): boolean {
  return some.length === others.length && some.every((term, index) => term === others[index]);
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
