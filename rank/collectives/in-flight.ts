import { ignore } from "../../shared/async.ts";
import type { Allocation } from "../memory/registry.ts";
import type { BufferUse, Task } from "./call.ts";
import type { RunningCall } from "./running-call.ts";

const NO_TASK: Task = Promise.resolve();
const NO_TASKS: readonly InFlight[] = [];

/** A task that has been made: what others that come after it, or meet its memory, must know. */
export class InFlight {
  readonly label: string;
  #follows: readonly InFlight[];
  #call: RunningCall | undefined;
  #state: "open" | "done" | "failed" = "open";
  #told = false;
  /** The task itself. */
  done: Task = NO_TASK;

  constructor(label: string, follows: readonly InFlight[], call?: RunningCall) {
    this.label = label;
    this.#follows = follows;
    this.#call = call;
  }

  /** The tasks that this one comes after; none once it is done, as they are. */
  get follows(): readonly InFlight[] {
    return this.#follows;
  }

  /** The collective, as long as it is in flight; without it, the task is a deferred one. */
  get call(): RunningCall | undefined {
    return this.#call;
  }

  /** What comes after a failed one fails too. */
  get state(): "open" | "done" | "failed" {
    return this.#state;
  }

  /** The task has ended. It holds on to nothing any more: programs keep tasks, and tasks those before them. */
  settle(state: "done" | "failed"): void {
    this.#state = state;
    this.#call = undefined;
    if (state === "done") this.#follows = NO_TASKS;
  }

  get signal(): Allocation | undefined {
    return this.#call?.spec.signal;
  }

  get buffers(): readonly BufferUse[] {
    return this.#call?.spec.buffers ?? [];
  }

  get queues(): boolean {
    return this.#call?.spec.queues ?? false;
  }

  /** The program learns of the task's failure also when it does not await it. */
  toldOtherwise(): void {
    this.#told = true;
    this.done.catch(ignore);
  }

  /** Makes a promise this task's. */
  becomes(task: Task): Task {
    if (this.#told) task.catch(ignore);
    this.done = task;
    Mark.set(task, this);
    return task;
  }

  /** The task that a promise is, or undefined for any other. */
  static of(value: unknown): InFlight | undefined {
    return value instanceof Promise ? Mark.of(value) : undefined;
  }
}

/** Hands on the object that it is given, so that a class above it adds its fields to that. */
const Given = function (object: object): object {
  return object;
} as unknown as new (object: object) => object;

/** The record of a task, as a private field of its promise: every call sets one, and a WeakMap costs more than the rest. */
class Mark extends Given {
  readonly #record: InFlight;

  private constructor(task: Task, record: InFlight) {
    super(task);
    this.#record = record;
  }

  static set(task: Task, record: InFlight): void {
    new Mark(task, record);
  }

  static of(task: object): InFlight | undefined {
    return #record in task ? task.#record : undefined;
  }
}
