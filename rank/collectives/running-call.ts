import type { Engine } from "../engine.ts";
import type { CallContext, Group } from "../group.ts";
import type { CollectiveCall, CollectiveSpec } from "./call.ts";
import { CreditBarrier } from "./credits.ts";
import type { LedgerCall } from "./ledger.ts";

/** The context of a round, whose label is made when it is told. */
class RoundContext implements CallContext {
  readonly group: Group;
  readonly seq: number;
  readonly fingerprint: number;
  readonly lane: number;
  readonly round: number;
  readonly #op: string;

  constructor(group: Group, { op, seq, fingerprint }: LedgerCall, round: number, lane: number) {
    this.#op = op;
    this.group = group;
    this.seq = seq;
    this.fingerprint = fingerprint;
    this.lane = lane;
    this.round = round;
  }

  get label(): string {
    return `${this.#op} #${this.seq}`;
  }
}

/** A collective that this rank has entered: it makes the credits of its lanes and the contexts of its rounds. */
export class RunningCall implements CollectiveCall {
  readonly engine: Engine;
  readonly group: Group;
  readonly ready: boolean;
  readonly seq: number;
  readonly spec: CollectiveSpec;
  readonly entered: LedgerCall;
  readonly #lanes: (CreditBarrier | undefined)[] = [];

  constructor(engine: Engine, group: Group, spec: CollectiveSpec, entered: LedgerCall, ready: boolean) {
    this.engine = engine;
    this.group = group;
    this.ready = ready;
    this.seq = entered.seq;
    this.spec = spec;
    this.entered = entered;
    // from now on, also while the call waits for its turn, no Set may reach its signal
    spec.signal.cells?.enterBuiltin();
  }

  lane(index: number): CreditBarrier {
    return (this.#lanes[index] ??= new CreditBarrier(this, this.spec.signal, index));
  }

  context(round: number, lane: number): CallContext {
    this.engine.faults?.reached(this.spec.op, this.seq, round);
    return new RoundContext(this.group, this.entered, round, lane);
  }

  land(round: number, placeOf: (peer: number) => Uint8Array): void {
    this.entered.landing = (worldRank, arriving) =>
      arriving === round ? placeOf(this.group.members.indexOf(worldRank)) : undefined;
  }

  /** Runs the collective. */
  run(): Promise<unknown> {
    const held = this.engine.faults?.entered(this.spec.op, this.seq);
    return held === undefined ? this.spec.run(this) : held.then(() => this.spec.run(this));
  }

  /** The collective has run: takes back its credits, and leaves the ledger. */
  complete(): void {
    for (const credits of this.#lanes) credits?.settle();
    this.group.ledger.leave(this.entered);
  }

  /** The call is over, however it has ended: its window is the program's again. */
  leave(): void {
    this.entered.landing = undefined;
    this.spec.signal.cells?.leaveBuiltin();
  }
}
