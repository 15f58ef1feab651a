/**
 * Mutants: transports, engines, registries and cells that break one guarantee each. They live here only, laid around
 * or over the real ones for the time of one test.
 */
import { RankwiseError } from "rankwise";
import { CellWait } from "../../rank/cell-wait.ts";
import { CreditBarrier } from "../../rank/collectives/credits.ts";
import { Engine } from "../../rank/engine.ts";
import { Registry } from "../../rank/memory/registry.ts";
import { type CellWaiter, SignalCells } from "../../rank/memory/signal-cells.ts";
import { Peer } from "../../rank/peer.ts";
import { type FrameSink, payloadBytes, type Transport } from "../../rank/transport/transport.ts";
import { Window } from "../../rank/window.ts";
import { SNAPSHOT_BYTES_MAX } from "../../shared/constants.ts";
import { type FrameHeader, FrameKind } from "../../shared/frame.ts";
import type { Interposed } from "../helpers/ranks.ts";

/** A way to be wrong. */
export interface Mutant {
  readonly name: string;
  /** Name of the guarantee that it breaks. */
  readonly breaks: string;
  /** What stands between ranks and transport, made anew for each job. */
  readonly interpose?: () => Interposed;
  /** Replaces a method of a class; returns what puts it back. */
  readonly patch?: () => () => void;
}

const { Put, Notify, Get, Ack } = FrameKind;
const isWrite = ({ kind }: FrameHeader): boolean => kind === Put || kind === Notify;

export const mutants: readonly Mutant[] = [
  {
    name: "small payloads are read later than at the call",
    breaks: "a put of at most 4 KiB is snapshotted at the call",
    interpose: () => ({ transport: readingLater }),
  },
  {
    name: "local completion is told before the payload has been read",
    breaks: "when a put resolves, its source may be changed",
    interpose: () => ({ transport: completingEarly }),
  },
  {
    name: "a notify overtakes the put before it",
    breaks: "a wait that sees a notify sees every put issued before it",
    interpose: () => ({ sink: swapping((first, second) => first.kind === Put && second.kind === Notify) }),
  },
  {
    name: "two puts of a pair change places",
    breaks: "puts to one peer are applied in the order of their issue",
    interpose: () => ({ sink: swapping((first, second) => first.kind === Put && second.kind === Put) }),
  },
  {
    name: "small puts overtake large ones",
    breaks: "puts to one peer are applied in the order of their issue",
    interpose: () => ({ sink: swapping((first, second) => isWrite(second) && bytesOf(first) > SNAPSHOT_BYTES_MAX) }),
  },
  {
    name: "two notifies of a pair change places",
    breaks: "notifies to one peer are applied in the order of their issue",
    interpose: () => ({ sink: swapping((first, second) => first.kind === Notify && second.kind === Notify) }),
  },
  {
    name: "a notify overtakes the last chunk of the put before it",
    breaks: "a chunked put is complete before a later notify is visible",
    interpose: () => ({ sink: swapping((first, second) => first.kind === Put && second.kind === Notify) }),
  },
  {
    name: "frames are acknowledged before they are applied",
    breaks: "quiet and fence resolve when every earlier put and notify has been applied",
    interpose: () => ({ sink: applyingLate }),
  },
  {
    name: "a fence takes any acknowledgement for its own",
    breaks: "quiet and fence resolve when every earlier put and notify has been applied",
    patch: () => patched(Peer.prototype, "acknowledge", () => function (this: Peer) {
      return this.fences.splice(0);
    }), // prettier-ignore
  },
  {
    name: "an AtomicAdd reads the cell at once and writes it a turn later",
    breaks: "AtomicAdd of several ranks on one cell loses nothing, negative values included",
    patch: () => patched(SignalCells.prototype, "apply", (apply) => function (this: SignalCells, cell, op, value, writer) {
      const before = this.value(cell);
      apply.call(this, cell, op, value, writer);
      if (op === "atomic_add") setImmediate(() => (this.values[cell] = before + value));
    }), // prettier-ignore
  },
  {
    name: "a notify also writes the cell behind its own",
    breaks: "a notify touches no other cell and no other memory",
    patch: () => patched(SignalCells.prototype, "apply", (apply) => function (this: SignalCells, cell, op, value, writer) {
      apply.call(this, cell, op, value, writer);
      if (cell + 1 < this.values.length) this.values[cell + 1] = (this.values[cell + 1] ?? 0) + 1;
    }), // prettier-ignore
  },
  {
    name: "AtomicAdd stops at the largest INT32 instead of wrapping",
    breaks: "AtomicAdd wraps as INT32",
    patch: () => patched(SignalCells.prototype, "apply", (apply) => function (this: SignalCells, cell, op, value, writer) {
      const sum = this.value(cell) + value;
      const saturated = Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, sum)) - this.value(cell);
      apply.call(this, cell, op, op === "atomic_add" ? saturated : value, writer);
    }), // prettier-ignore
  },
  {
    name: "Set and AtomicAdd on one cell pass unnoticed",
    breaks: "Set and AtomicAdd that meet on one cell end the group and name the sender",
    patch: () => patched(SignalCells.prototype, "checkKind", () => () => undefined),
  },
  {
    name: "a change of another kind is refused although a wait was satisfied",
    breaks: "Set may follow AtomicAdd, and the reverse, once a wait on the cell was satisfied",
    patch: refusingEveryMixture,
  },
  {
    name: "a notify to oneself is lost",
    breaks: "a notify to oneself acts on the same cell",
    ...losingOwnNotifies(),
  },
  {
    name: "a wait looks at its cell only when that changes",
    breaks: "a wait whose condition already holds returns at once, and consumes nothing",
    patch: () => patched(SignalCells.prototype, "test", () => () => false),
  },
  {
    name: "a wait that is met clears its cell",
    breaks: "a wait whose condition already holds returns at once, and consumes nothing",
    patch: () => patched(SignalCells.prototype, "test", (test) => function (this: SignalCells, cell, compare, expected) {
      const holds = test.call(this, cell, compare, expected);
      if (holds) queueMicrotask(() => (this.values[cell] = 0));
      return holds;
    }), // prettier-ignore
  },
  {
    name: "a change wakes one waiter of its cell only",
    breaks: "every change of a cell wakes all its waiters",
    patch: wakingOneOnly,
  },
  {
    name: "a wait is not woken by AtomicAdd",
    breaks: "every change of a cell wakes all its waiters",
    patch: () => patched(SignalCells.prototype, "apply", (apply) => function (this: SignalCells, cell, op, value, writer) {
      if (op === "set") apply.call(this, cell, op, value, writer);
      else this.values[cell] = this.value(cell) + value;
    }), // prettier-ignore
  },
  {
    name: "a zero-byte putSignal is dropped as nothing to send",
    breaks: "a zero-byte putSignal still signals, behind what was put before",
    patch: () => patched(Window.prototype, "putSignal", (putSignal) => async function (this: Window, ...args) {
      if (args[2]?.shape.includes(0) !== true) await putSignal.apply(this, args);
    }), // prettier-ignore
  },
  {
    name: "memory is zeroed some turns after its publication",
    breaks: "windows and signals are zero when a peer reaches them, and a rank that runs ahead loses no signal",
    patch: () => patched(Registry.prototype, "allocate", (allocate) => function (this: Registry, ...args) {
      const allocation = allocate.apply(this, args);
      afterTurns(8, () => allocation.local.bytes.fill(0));
      return allocation;
    }), // prettier-ignore
  },
  {
    name: "memory is handed out as the last owner left it",
    breaks: "windows and signals are zero when a peer reaches them, and a rank that runs ahead loses no signal",
    patch: recyclingMemory,
  },
  {
    name: "a get is served before the put in front of it",
    breaks: "a get is served after everything this rank sent to that owner before",
    interpose: () => ({ sink: swapping((first, second) => first.kind === Put && second.kind === Get) }),
  },
  {
    name: "a small reply is read from the window when it is sent",
    breaks: "a get reply of at most 4 KiB is a snapshot",
    interpose: () => ({ transport: readingLater }),
  },
  {
    name: "Eq is compared when its waiter runs, not at the change",
    breaks: "an Eq value that passed by counts as met",
    patch: comparingLate,
  },
  {
    name: "a wait that times out ends the group",
    breaks: "a hand-written wait that timed out may be tried again",
    ...endingAtTimeouts(),
  },
  {
    name: "a timed-out waiter stays on its cell and takes the next wake",
    breaks: "a hand-written wait that timed out may be tried again",
    patch: () => {
      const restore = [patched(SignalCells.prototype, "forget", () => () => undefined), wakingOneOnly()];
      return () => restore.forEach((undo) => undo());
    },
  },
  {
    name: "a timeout inside a builtin only rejects the call",
    breaks: "a timeout inside a builtin ends the group",
    patch: () => patched(Engine.prototype, "fail", (fail) => function (this: Engine, failure) {
      if (failure.error.code !== "ERR_WAIT_TIMEOUT") fail.call(this, failure);
    }), // prettier-ignore
  },
  {
    name: "a barrier sends its credits and does not wait for any",
    breaks: "no rank leaves a barrier before every rank has entered it",
    patch: () => patched(CreditBarrier.prototype, "arrived", () => () => Promise.resolve()),
  },
  {
    name: "a barrier does not hold",
    breaks: "behind a barrier, a peer's first put meets the owner's initialisation",
    patch: () => {
      const late = patched(Registry.prototype, "allocate", (allocate) => function (this: Registry, ...args) {
        return ownedSlowly(allocate.apply(this, args));
      }); // prettier-ignore
      const open = patched(CreditBarrier.prototype, "arrived", () => () => Promise.resolve());
      return () => [late, open].forEach((undo) => undo());
    },
  },
  {
    name: "a rank reads its links only while its own sending queue is empty",
    breaks: "two ranks that fetch from each other at once finish, whatever their sending queues hold",
    interpose: pausingReads,
  },
  {
    name: "get replies and credits count against the queue",
    breaks: "a full queue refuses puts and notifies whole, never credits, acknowledgements or get replies",
    interpose: () => ({
      transport: (inner) => ({
        ...handles(inner),
        send: (peer, header, payload) => inner.send(peer, header, payload, header.kind === FrameKind.Publish),
      }),
    }),
  },
  {
    name: "a frame that the queue refused keeps its number",
    breaks: "a full queue refuses puts and notifies whole, never credits, acknowledgements or get replies",
    patch: () => patched(Peer.prototype, "takeBackSerial", () => () => undefined),
  },
  {
    name: "a frame that has to wait completes at once",
    breaks: "a caller that awaits its puts and notifies never meets a full queue",
    interpose: () => ({ transport: completingEarly }),
  },
  {
    name: "every get is sent at once",
    breaks: "a requester bounds the get bytes it has outstanding",
    patch: () => patched(Peer.prototype, "getFits", () => () => true),
  },
];

/** Puts another method into a prototype, made from the one that is there; returns what undoes it. */
function patched<T extends object, K extends keyof T>(
  prototype: T,
  key: K,
  make: (original: T[K]) => T[K],
): () => void {
  const original = prototype[key];
  prototype[key] = make(original);
  return () => {
    prototype[key] = original;
  };
}

function afterTurns(count: number, work: () => unknown): void {
  setImmediate(() => (count > 1 ? afterTurns(count - 1, work) : work()));
}

function bytesOf({ rows, rowBytes }: FrameHeader): number {
  return rows * rowBytes;
}

/** The other methods of a transport. */
function handles(inner: Transport): Transport {
  return {
    address: inner.address,
    connect: (addresses) => inner.connect(addresses),
    send: (...args) => inner.send(...args),
    close: () => inner.close(),
  };
}

/** Takes frames at the call and looks at their payload some turns later. */
function readingLater(inner: Transport): Transport {
  return {
    ...handles(inner),
    send: (peer, header, payload, exempt) => {
      const sent = new Promise<void>((resolve) => {
        afterTurns(6, () => resolve(inner.send(peer, header, payload, exempt)));
      });
      return payloadBytes(payload) <= SNAPSHOT_BYTES_MAX ? undefined : sent;
    },
  };
}

function completingEarly(inner: Transport): Transport {
  return {
    ...handles(inner),
    send: (...args) => {
      void inner.send(...args);
      return undefined;
    },
  };
}

interface Held {
  readonly header: FrameHeader;
  readonly payload: Uint8Array;
}

/** Delivers two frames of a link in the wrong order where `wrong` says so, with their numbers in the right one. */
function swapping(wrong: (first: FrameHeader, second: FrameHeader) => boolean): NonNullable<Interposed["sink"]> {
  return (inner) => {
    const held = new Map<number, Held>();
    /** What stands behind a frame that was overtaken. */
    const late = new Map<number, Held[]>();
    const flush = (from: number, frame: Held): void => {
      if (held.get(from) !== frame) return;
      held.delete(from);
      inner.receive(from, frame.header, frame.payload);
    };
    const drain = (from: number, queue: Held[]): void => {
      const next = queue.shift();
      if (next === undefined) {
        late.delete(from);
        return;
      }
      inner.receive(from, next.header, next.payload);
      setImmediate(() => drain(from, queue));
    };
    return {
      ...sinkOf(inner),
      receive: (from, header, payload) => {
        const behind = late.get(from);
        if (behind !== undefined) {
          behind.push({ header, payload: payload.slice() });
          return;
        }
        const earlier = held.get(from);
        held.delete(from);
        if (earlier !== undefined && wrong(earlier.header, header)) {
          const [first, second] = [earlier.header.serial, header.serial];
          inner.receive(from, { ...header, serial: first }, payload);
          const queue = [{ header: { ...earlier.header, serial: second }, payload: earlier.payload }];
          late.set(from, queue);
          afterTurns(10, () => drain(from, queue));
          return;
        }
        if (earlier !== undefined) inner.receive(from, earlier.header, earlier.payload);
        const frame = { header, payload: payload.slice() };
        held.set(from, frame);
        afterTurns(40, () => flush(from, frame));
      },
    };
  };
}

/** Counts a put or notify at once, so that it is acknowledged, and applies it some turns later. */
function applyingLate(inner: FrameSink, engine: Engine): FrameSink {
  return {
    ...sinkOf(inner),
    receive: (from, header, payload) => {
      if (!isWrite(header)) {
        inner.receive(from, header, payload);
        return;
      }
      inner.receive(from, { ...header, kind: Ack, flags: 0 }, new Uint8Array());
      const copy = payload.slice();
      afterTurns(5, () => {
        const peer = engine.peer(from);
        const { received } = peer;
        inner.receive(from, { ...header, serial: received + 1 }, copy);
        peer.received = received;
      });
    },
  };
}

/** Each rank stops reading while more than a little of what it sent has not been read by the receiver. */
function pausingReads(): Interposed {
  const unread = new Map<number, number>();
  const inboxes = new Map<number, { from: number; frame: Held; sink: FrameSink }[]>();
  const read = (rank: number): void => {
    for (;;) {
      if ((unread.get(rank) ?? 0) > 10_000) return;
      const next = inboxes.get(rank)?.shift();
      if (next === undefined) return;
      const { from, frame, sink } = next;
      unread.set(from, (unread.get(from) ?? 0) - frame.payload.byteLength);
      sink.receive(from, frame.header, frame.payload);
      read(from);
    }
  };
  return {
    transport: (inner, { rank }) => ({
      ...handles(inner),
      send: (peer, header, payload, exempt) => {
        unread.set(rank, (unread.get(rank) ?? 0) + payloadBytes(payload));
        return inner.send(peer, header, payload, exempt);
      },
    }),
    sink: (inner, { rank }) => ({
      ...sinkOf(inner),
      receive: (from, header, payload) => {
        const inbox = inboxes.get(rank) ?? [];
        inboxes.set(rank, inbox);
        inbox.push({ from, frame: { header, payload: payload.slice() }, sink: inner });
        read(rank);
      },
    }),
  };
}

function sinkOf(inner: FrameSink): FrameSink {
  return {
    receive: (from, header, payload) => inner.receive(from, header, payload),
    lost: (from, error) => inner.lost(from, error),
    client: (connection) => inner.client(connection),
  };
}

function refusingEveryMixture(): () => void {
  const kinds = new WeakMap<SignalCells, Map<number, string>>();
  return patched(SignalCells.prototype, "apply", (apply) => function (this: SignalCells, cell, op, value, writer) {
    const own = kinds.get(this) ?? new Map<number, string>();
    kinds.set(this, own);
    if ((own.get(cell) ?? op) !== op) throw new RankwiseError("ERR_NOTIFY_MIXED", "mixed");
    own.set(cell, op);
    apply.call(this, cell, op, value, writer);
  }); // prettier-ignore
}

/** Only what arrives in a frame changes a cell. */
function losingOwnNotifies(): Pick<Mutant, "interpose" | "patch"> {
  let serving = 0;
  return {
    interpose: () => ({
      sink: (inner) => ({
        ...sinkOf(inner),
        receive: (...args) => {
          serving += 1;
          inner.receive(...args);
          serving -= 1;
        },
      }),
    }),
    patch: () => patched(SignalCells.prototype, "apply", (apply) => function (this: SignalCells, ...args) {
      if (serving > 0) apply.apply(this, args);
    }), // prettier-ignore
  };
}

function wakingOneOnly(): () => void {
  const first = new WeakMap<SignalCells, Map<number, CellWaiter>>();
  return patched(SignalCells.prototype, "wait", (wait) => function (this: SignalCells, cell, waiter) {
    const own = first.get(this) ?? new Map<number, CellWaiter>();
    first.set(this, own);
    if (own.has(cell)) return;
    own.set(cell, waiter);
    const once: CellWaiter = {
      compare: waiter.compare,
      expected: waiter.expected,
      met: (value) => {
        own.delete(cell);
        waiter.met(value);
      },
    };
    wait.call(this, cell, once);
  }); // prettier-ignore
}

/** The memory of the last owner of a name on this rank, with what it holds. */
function recyclingMemory(): () => void {
  const leftOn = new WeakMap<Registry, Uint8Array[]>();
  const allocate = patched(Registry.prototype, "allocate", (original) => function (this: Registry, ...args) {
    const allocation = original.apply(this, args);
    const old = leftOn.get(this)?.find(({ byteLength }) => byteLength === allocation.local.bytes.byteLength);
    if (old !== undefined) allocation.local.bytes.set(old);
    return allocation;
  }); // prettier-ignore
  const release = patched(Registry.prototype, "release", (original) => function (this: Registry, allocation) {
    leftOn.set(this, [...(leftOn.get(this) ?? []), allocation.local.bytes.slice()]);
    original.call(this, allocation);
  }); // prettier-ignore
  return () => [allocate, release].forEach((undo) => undo());
}

/** `local.array` is filled some turns after its owner asked for it, as by an owner that is slow. */
function ownedSlowly(allocation: ReturnType<Registry["allocate"]>): ReturnType<Registry["allocate"]> {
  const { array } = allocation.local;
  const fill = array.fill.bind(array) as (value: number) => typeof array;
  Object.defineProperty(array, "fill", {
    value: (value: number) => {
      afterTurns(10, () => fill(value));
      return array;
    },
  });
  return allocation;
}

function comparingLate(): () => void {
  return patched(SignalCells.prototype, "wait", (wait) => function (this: SignalCells, cell, waiter) {
    const late: CellWaiter = {
      compare: waiter.compare,
      expected: waiter.expected,
      met: () => {
        afterTurns(20, () => {
          if (this.test(cell, waiter.compare, waiter.expected)) waiter.met(this.value(cell));
          else this.wait(cell, waiter);
        });
      },
    };
    wait.call(this, cell, late);
  }); // prettier-ignore
}

function endingAtTimeouts(): Pick<Mutant, "interpose" | "patch"> {
  let engines: Engine[] = [];
  return {
    interpose: () => {
      engines = [];
      return {
        sink: (inner, engine) => {
          engines.push(engine);
          return inner;
        },
      };
    },
    patch: () => patched(CellWait.prototype, "expire", (expire) => function (this: CellWait) {
      expire.call(this);
      const error = new RankwiseError("ERR_WAIT_TIMEOUT", "a wait has timed out");
      for (const engine of engines) engine.fail({ error, call: null, suspect: null });
    }), // prettier-ignore
  };
}
