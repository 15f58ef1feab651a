/**
 * The credit barrier: the one protocol by which every builtin synchronises, on the caller's signal [P, S].
 *
 * The g-th round inside a call sends AtomicAdd(+1) to each peer at the cell [my rank, lane] and waits `Ge g` on each
 * own cell [source, lane]. At the end the call subtracts, by a notify to itself, what it has received. No state
 * outlives a call. `Ge` and never `Eq`: a fast peer may already have added a credit of its next call.
 */
import { ignore } from "../../shared/async.ts";
import type { RankwiseError } from "../../shared/errors.ts";
import type { Engine } from "../engine.ts";
import type { CallContext, Group } from "../group.ts";
import type { CellChange } from "../headers.ts";
import { notify } from "../issue.ts";
import { wait } from "../waits.ts";
import type { Allocation } from "../memory/registry.ts";
import { NotifyOp, WaitCmp } from "../primitives.ts";

/** The credits of one lane of one call. */
export class CreditBarrier {
  readonly #engine: Engine;
  readonly #group: Group;
  readonly #signal: Allocation;
  readonly #lane: number;
  readonly #context: (round: number) => CallContext;
  /** Rounds completed or under way. */
  #round = 0;
  /** Credits awaited from each member so far. */
  readonly #awaited: number[];

  constructor(engine: Engine, group: Group, signal: Allocation, lane: number, context: (round: number) => CallContext) {
    this.#engine = engine;
    this.#group = group;
    this.#signal = signal;
    this.#lane = lane;
    this.#context = context;
    this.#awaited = group.members.map(() => 0);
  }

  /** One whole round: a credit to every peer, then everybody's credit here. `note` goes along with the credit. */
  async round(note?: (peer: number) => number): Promise<void> {
    const ctx = this.begin();
    for (const peer of this.#group.peers()) {
      const change = note === undefined ? this.credit() : { ...this.credit(), note: note(peer) };
      notify(this.#engine, ctx, peer, change).catch(ignore);
    }
    await this.arrived(ctx);
  }

  /** Opens a round whose credits the caller sends along with its puts. */
  begin(): CallContext {
    this.#round += 1;
    // a round is one round of the call, however many lanes take part in it
    if (this.#lane === 0) this.#engine.counters.barriers += 1;
    return this.#context(this.#round);
  }

  /** The credit that this rank gives to a peer. */
  credit(): CellChange {
    return { signal: this.#signal, cell: this.#cell(this.#group.rank), op: NotifyOp.AtomicAdd, value: 1 };
  }

  /** Waits for the credit of the current round of every peer, or of some. */
  async arrived(ctx: CallContext, sources: readonly number[] = this.#group.peers()): Promise<void> {
    await Promise.all(
      sources.map((source) => {
        const credits = (this.#awaited[source] ?? 0) + 1;
        this.#awaited[source] = credits;
        return waitCredit(this.#engine, ctx, this.#signal, this.#cell(source), credits, source);
      }),
    );
  }

  /** Takes back the credits that this lane has received: the epilogue. */
  settle(): void {
    if (this.#round === 0) return;
    const ctx = this.#context(this.#round);
    for (const [source, credits] of this.#awaited.entries()) {
      if (credits > 0) takeCredits(this.#engine, ctx, this.#signal, this.#cell(source), credits);
    }
  }

  /** Cell [source, lane] of a signal [P, S]. */
  #cell(source: number): number {
    return source * (this.#signal.shape[1] ?? 1) + this.#lane;
  }
}

/** Waits for a cell to hold so many credits of a member; a timeout in a builtin ends the group. */
export function waitCredit(
  engine: Engine,
  ctx: CallContext,
  signal: Allocation,
  cell: number,
  credits: number,
  source: number,
): Promise<number> {
  if (engine.faults?.skipsRound(ctx.label, ctx.round) === true) return Promise.resolve(0);
  const condition = { cell, compare: WaitCmp.Ge, expected: credits, source };
  return wait(engine, ctx, signal, condition, engine.waitTimeoutMs, (error: RankwiseError) => {
    engine.fail({ error, call: ctx.label, suspect: null });
  });
}

/** Subtracts credits from an own cell in one AtomicAdd. */
export function takeCredits(engine: Engine, ctx: CallContext, signal: Allocation, cell: number, credits: number): void {
  const change = { signal, cell, op: NotifyOp.AtomicAdd, value: -credits };
  notify(engine, ctx, ctx.group.rank, change).catch(ignore);
}
