/**
 * The credit barrier: the one protocol by which every builtin synchronises, on the caller's signal [P, S].
 *
 * The g-th round inside a call sends AtomicAdd(+1) to each peer at the cell [my rank, lane] and waits `Ge g` on each
 * own cell [source, lane]. At the end the call subtracts, by a notify to itself, what it has received. No state
 * outlives a call. `Ge` and never `Eq`: a fast peer may already have added a credit of its next call.
 */
import type { RankwiseError } from "../../shared/errors.ts";
import { ignore } from "../../shared/async.ts";
import type { Engine } from "../engine.ts";
import type { CallContext, Group } from "../group.ts";
import { type CellChange, notify, wait } from "../issue.ts";
import type { Allocation } from "../memory/registry.ts";
import { NotifyOp, WaitCmp } from "../primitives.ts";

export class CreditBarrier {
  readonly #engine: Engine;
  readonly #group: Group;
  readonly #signal: Allocation;
  readonly #context: (round: number, lane?: number) => CallContext;
  /** Rounds completed or under way. */
  #round = 0;

  constructor(
    engine: Engine,
    group: Group,
    signal: Allocation,
    context: (round: number, lane?: number) => CallContext,
  ) {
    this.#engine = engine;
    this.#group = group;
    this.#signal = signal;
    this.#context = context;
  }

  /** One whole round: a credit to every peer, then everybody's credit here. */
  async round(): Promise<void> {
    const ctx = this.begin();
    for (const peer of this.#group.peers()) notify(this.#engine, ctx, peer, this.credit()).catch(ignore);
    await this.arrived(ctx);
  }

  /** Opens a round whose credits the caller sends along with its puts. */
  begin(): CallContext {
    this.#round += 1;
    this.#engine.counters.barriers += 1;
    return this.#context(this.#round);
  }

  /** The credit that this rank gives to a peer. */
  credit(): CellChange {
    return { signal: this.#signal, cell: this.#cell(this.#group.rank), op: NotifyOp.AtomicAdd, value: 1 };
  }

  /** Waits for every peer's credit of the current round. */
  async arrived(ctx: CallContext): Promise<void> {
    const onExpired = (error: RankwiseError): void => {
      this.#engine.fail({ error, call: ctx.label, suspect: null });
    };
    await Promise.all(
      this.#group
        .peers()
        .map((source) =>
          wait(
            this.#engine,
            ctx,
            this.#signal,
            { cell: this.#cell(source), compare: WaitCmp.Ge, expected: this.#round },
            this.#engine.waitTimeoutMs,
            onExpired,
          ),
        ),
    );
  }

  /** Takes back the credits that this call has received: the epilogue. */
  settle(): void {
    if (this.#round === 0) return;
    const ctx = this.#context(this.#round);
    for (const source of this.#group.peers()) {
      const change = { signal: this.#signal, cell: this.#cell(source), op: NotifyOp.AtomicAdd, value: -this.#round };
      notify(this.#engine, ctx, this.#group.rank, change).catch(ignore);
    }
  }

  /** Cell [source, lane 0] of a signal [P, S]. */
  #cell(source: number): number {
    return source * (this.#signal.shape[1] ?? 1);
  }
}
