/** What a builtin call is: what its collective has checked, and what it is given to run with. */
import type { Allocation } from "../memory/registry.ts";
import type { CreditBarrier, CreditedCall } from "./credits.ts";

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

/** A part of what ranks agree on: no object, which would be held on to. */
export type Term = string | number | boolean;

/** What every rank must agree on beside op and ready round. */
export interface Terms {
  /** What the text is made of, windows as their ordinals: the same terms on the same signal make the same text. */
  readonly of: readonly Term[];
  readonly text: () => string;
}

/** A checked call, ready to run. All collectives write its fields in this order, so that calls of all kinds have one shape. */
export interface CollectiveSpec {
  readonly op: string;
  readonly terms: Terms;
  readonly signal: Allocation;
  /** The window that the call leaves its result in. Its builtin calls are counted. */
  readonly target: Allocation | undefined;
  /** Whether the call pushes into peers' targets at once, and so begins with a ready round when the window is reused. */
  readonly pushes: boolean;
  /** Whether the call uses the submission queues, which one call at a time may. */
  readonly queues: boolean;
  readonly buffers: readonly BufferUse[];
  readonly options: CallOptions;
  /** Members that this rank hears from in every such call. */
  readonly hears: readonly number[];
  run(call: CollectiveCall): Promise<unknown>;
}

/** A running call, as its collective sees it. */
export interface CollectiveCall extends CreditedCall {
  /** Whether the call begins with a ready round. */
  readonly ready: boolean;
  /** Number of the call in its group. */
  readonly seq: number;
  /** The credits of a lane. */
  lane(index: number): CreditBarrier;
  /** From here on, blocks that members stage for a round may land where this says. See `LedgerCall.landing`. */
  land(round: number, placeOf: (peer: number) => Uint8Array): void;
}
