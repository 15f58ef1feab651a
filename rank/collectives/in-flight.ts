import { ignore } from "../../shared/async.ts";
import type { Allocation } from "../memory/registry.ts";
import type { BufferUse, Task } from "./call.ts";
import type { RunningCall } from "./running-call.ts";

const NO_TASK: Task = Promise.resolve();

/** A task that has been made: what others that come after it, or meet its memory, must know. */
export class InFlight {
  readonly label: string;
  /** The tasks that this one comes after, and those that they come after. */
  readonly follows: ReadonlySet<InFlight>;
  /** The collective; without it, the task is a deferred one. */
  readonly call: RunningCall | undefined;
  /** What comes after a failed one fails too. */
  state: "open" | "done" | "failed" = "open";
  /** The task itself. */
  done: Task = NO_TASK;

  constructor(label: string, follows: ReadonlySet<InFlight>, call?: RunningCall) {
    this.label = label;
    this.follows = follows;
    this.call = call;
  }

  get signal(): Allocation | undefined {
    return this.call?.spec.signal;
  }

  get buffers(): readonly BufferUse[] {
    return this.call?.spec.buffers ?? [];
  }

  get queues(): boolean {
    return this.call?.spec.queues ?? false;
  }

  /** Makes a promise this task's. That it fails is told by whoever awaits it, and by the end of the group. */
  becomes(task: Task): Task {
    task.catch(ignore);
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
