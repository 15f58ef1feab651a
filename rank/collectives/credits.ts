/**
 * The credit barrier: the one protocol by which every builtin synchronises, on the caller's signal [P, S].
 *
 * The g-th round inside a call sends AtomicAdd(+1) to each peer at the cell [my rank, lane] and waits `Ge g` on each
 * own cell [source, lane]. At the end the call subtracts, by a notify to itself, what it has received. No state
 * outlives a call. `Ge` and never `Eq`: a fast peer may already have added a credit of its next call.
 */
import { ignore } from "../../shared/async.ts";
import type { RankwiseError } from "../../shared/errors.ts";
import type { CellCondition } from "../cell-wait.ts";
import type { Engine } from "../engine.ts";
import type { CallContext, Group } from "../group.ts";
import type { CellChange } from "../headers.ts";
import { notify } from "../issue.ts";
import { wait } from "../waits.ts";
import type { Allocation } from "../memory/registry.ts";
import { NotifyOp, WaitCmp } from "../primitives.ts";

/** The call that credits belong to. */
export interface CreditedCall {
  readonly engine: Engine;
  readonly group: Group;
  context(round: number, lane: number): CallContext;
}

/** The credits of one lane of one call. */
export class CreditBarrier {
  readonly #call: CreditedCall;
  readonly #signal: Allocation;
  readonly #lane: number;
  /** Rounds completed or under way. */
  #round = 0;
  /** Credits awaited from each member so far. */
  readonly #awaited: number[];
  readonly #credit: CellChange;

  constructor(call: CreditedCall, signal: Allocation, lane: number) {
    this.#call = call;
    this.#signal = signal;
    this.#lane = lane;
    this.#awaited = new Array<number>(call.group.members.length).fill(0);
    this.#credit = { signal, cell: this.#cell(call.group.rank), op: NotifyOp.AtomicAdd, value: 1 };
  }

  /** One whole round: a credit to every peer, then everybody's credit here. `note` goes along with the credit. */
  round(note?: (peer: number) => number): Promise<unknown> {
    const ctx = this.begin();
    const { engine, group } = this.#call;
    for (const peer of group.peers()) {
      const change = note === undefined ? this.#credit : { ...this.#credit, note: note(peer) };
      notify(engine, ctx, peer, change)?.catch(ignore);
    }
    return this.arrived(ctx);
  }

  /** Opens a round whose credits the caller sends along with its puts. */
  begin(): CallContext {
    this.#round += 1;
    // a round is one round of the call, however many lanes take part in it
    if (this.#lane === 0) this.#call.engine.counters.barriers += 1;
    return this.#call.context(this.#round, this.#lane);
  }

  /** The credit that this rank gives to a peer. */
  credit(): CellChange {
    return this.#credit;
  }

  /** Waits for the credit of the current round of every peer, or of some. */
  arrived(ctx: CallContext, sources: readonly number[] = this.#call.group.peers()): Promise<unknown> {
    const conditions = sources.map((source) => {
      const credits = (this.#awaited[source] ?? 0) + 1;
      this.#awaited[source] = credits;
      return creditCondition(this.#cell(source), credits, source);
    });
    return waitCredits(this.#call.engine, ctx, this.#signal, conditions);
  }

  /** Takes back the credits that this lane has received: the epilogue. */
  settle(): void {
    if (this.#round === 0) return;
    const { engine } = this.#call;
    const ctx = this.#call.context(this.#round, this.#lane);
    for (let source = 0; source < this.#awaited.length; source++) {
      const credits = this.#awaited[source] ?? 0;
      if (credits > 0) takeCredits(engine, ctx, this.#signal, this.#cell(source), credits);
    }
  }

  /** Cell [source, lane] of a signal [P, S]. */
  #cell(source: number): number {
    return source * (this.#signal.shape[1] ?? 1) + this.#lane;
  }
}

/** That a cell holds so many credits of a member. */
export function creditCondition(cell: number, credits: number, source: number): CellCondition {
  return { cell, compare: WaitCmp.Ge, expected: credits, source };
}

/** Waits for credits; a timeout in a builtin ends the group. */
export function waitCredits(
  engine: Engine,
  ctx: CallContext,
  signal: Allocation,
  conditions: readonly CellCondition[],
): Promise<unknown> {
  if (engine.faults?.skipsRound(ctx.label, ctx.round) === true) return Promise.resolve();
  return wait(engine, ctx, signal, conditions, engine.waitTimeoutMs, (error: RankwiseError) => {
    engine.fail({ error, call: ctx.label, suspect: null });
  });
}

/** Subtracts credits from an own cell in one AtomicAdd. */
export function takeCredits(engine: Engine, ctx: CallContext, signal: Allocation, cell: number, credits: number): void {
  void notify(engine, ctx, ctx.group.rank, { signal, cell, op: NotifyOp.AtomicAdd, value: -credits });
}
