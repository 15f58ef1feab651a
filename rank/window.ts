import type { DType } from "../shared/dtype.ts";
import { RankwiseError } from "../shared/errors.ts";
import { checkBlock, checkShape, describe, type Shape } from "../shared/shape.ts";
import { freeWindow } from "./allocate.ts";
import {
  checkCell,
  checkConditions,
  checkInt32,
  checkLive,
  checkNotifyOp,
  checkPeer,
  checkTimeout,
  checkWaitCmp,
  type DeferredCondition,
} from "./checks.ts";
import type { Engine } from "./engine.ts";
import { type CallBook } from "./collectives/call-book.ts";
import { refusable, type Task } from "./collectives/call.ts";
import { type Group, handContext } from "./group.ts";
import { get } from "./get.ts";
import type { CellChange } from "./headers.ts";
import { notify, put } from "./issue.ts";
import { wait } from "./waits.ts";
import type { Allocation } from "./memory/registry.ts";
import { checkTensor, makeTensor, type Tensor } from "./memory/tensor.ts";
import { type AtomicDType, atomicDtypes, isAtomicDType } from "./memory/write.ts";
import type { NotifyOp, WaitCmp } from "./primitives.ts";
import { blocks, checkOther, type ChunkOptions, type Region, refuseOverlap } from "./region.ts";

/** Options of a put. */
export interface PutOptions extends ChunkOptions {
  /** Add the source to what the window holds, element by element, in its dtype. Integers wrap. */
  readonly atomic?: "add";
}

/** @internal What a window is made of; only code of this package gets at it. */
export interface Internals {
  readonly engine: Engine;
  readonly group: Group;
  readonly allocation: Allocation;
}

/** @internal The parts of a window or signal, undefined for anything else. */
export function internalsOf(value: unknown): Internals | undefined {
  return partsOf(value);
}

let partsOf: (value: unknown) => Internals | undefined;

/**
 * Symmetric memory: every rank of the group holds a part of the same name, dtype and shape, which peers may write
 * and read while the owner does something else.
 *
 * Guarantees. Puts and notifies of one rank to one peer are applied in the order in which they were issued, so a wait
 * that sees a notify sees every put issued before it to the same peer. Across different peers there is no order.
 */
export class Window<D extends DType = DType> {
  readonly name: string;
  readonly dtype: D;
  readonly shape: Shape;
  /**
   * This rank's own part, as a tensor; it can be the source of a put.
   *
   * Its array lies in memory that is shared with the rank's other windows: `array.buffer` is a `SharedArrayBuffer` far
   * larger than the array, which starts at `array.byteOffset`. Copies (`slice`, `map`, `Buffer.from(array)`) have memory
   * of their own. `structuredClone` and `postMessage` share such memory instead of copying it, and some interfaces
   * (`crypto.subtle`, `Response`) refuse it: give them a `slice()`. A large window may have an `ArrayBuffer` of its own.
   */
  readonly local: Tensor<D>;

  readonly #internals: Internals;

  static {
    partsOf = (value) =>
      typeof value === "object" && value !== null && #internals in value ? value.#internals : undefined;
  }

  /** @internal Programs get windows from `comm.window`. */
  constructor(engine: Engine, group: Group, allocation: Allocation) {
    this.#internals = { engine, group, allocation };
    this.name = allocation.name;
    this.dtype = allocation.dtype as D;
    this.shape = allocation.shape;
    this.local = allocation.local as Tensor<D>;
  }

  /**
   * One-sided write of a block of `source` into the peer's part of this window.
   *
   * Resolves at local completion: the source may be changed; a put of at most 4 KiB is snapshotted at the call. The
   * data is visible to the peer once it has seen a later notify of this rank, or once `fence` or `quiet` has resolved.
   * Without a region the whole source moves and both shapes must match. A put to oneself is a checked copy.
   *
   * @throws {ERR_PEER_RANGE | ERR_OUT_OF_BOUNDS | ERR_SHAPE_MISMATCH | ERR_DTYPE_MISMATCH | ERR_INVALID_ARGUMENT | ERR_ALIASED_BUFFERS | ERR_WINDOW_FREED | ERR_QUEUE_FULL | ERR_GROUP_ENDED}
   * before anything moves.
   * @example
   * ```ts
   * import type { Comm } from "rankwise";
   *
   * export default async function main(comm: Comm): Promise<void> {
   *   const x = comm.tensor("float32", [1, 64]);
   *   const data = await comm.window("data", "float32", [comm.nranks, 64]);
   *   for (const peer of comm.peers) await data.put(peer, x, { dstOffset: [comm.rank, 0], shape: [1, 64] });
   * }
   * ```
   */
  async put(peer: number, source: Tensor<D>, region?: Region, options: PutOptions = {}): Promise<void> {
    await issuePut(this, "put", peer, source, region, options);
  }

  /**
   * A put and a notify in one frame: the cell changes once the data is there. A zero-byte block still signals.
   *
   * @throws as `put` and `notify` do, before anything moves.
   */
  async putSignal(
    peer: number,
    source: Tensor<D>,
    region: Region | undefined,
    signal: Signal,
    offset: Shape,
    value: number,
    op: NotifyOp,
  ): Promise<void> {
    const change = checkChange("putSignal", this, signal, offset, value, op);
    await issuePut(this, "putSignal", peer, source, region, {}, change);
  }

  /**
   * The tile-sized put: all of `source` goes to `offset` of the peer's part.
   *
   * @throws as `put` does, before anything moves.
   */
  async remoteStore(peer: number, offset: Shape, source: Tensor<D>): Promise<void> {
    const { shape } = checkTensor("remoteStore", "source", source);
    await issuePut(this, "remoteStore", peer, source, { dstOffset: offset, shape }, {});
  }

  /**
   * One-sided read of a block of the peer's part of this window into `destination`.
   *
   * Resolves when the data is there. The owner serves it after everything this rank sent to it before. A reply of at
   * most 4 KiB is a snapshot; a larger one may mix states of its block, so whoever writes it must be ordered by the
   * callers. `srcOffset` counts in the window, `dstOffset` in the destination.
   *
   * @throws {ERR_PEER_RANGE | ERR_OUT_OF_BOUNDS | ERR_SHAPE_MISMATCH | ERR_DTYPE_MISMATCH | ERR_INVALID_ARGUMENT | ERR_ALIASED_BUFFERS | ERR_WINDOW_FREED | ERR_GROUP_ENDED}
   * before anything moves.
   */
  async get(peer: number, destination: Tensor<D>, region?: Region, options: ChunkOptions = {}): Promise<void> {
    await issueGet(this, "get", peer, destination, region, options);
  }

  /**
   * The tile-sized get: a new tensor of `shape` with the block at `offset` of the peer's part. With `validShape` only
   * that much of the tile is read, and the rest is zero.
   *
   * @throws as `get` does, before anything moves.
   */
  async remoteLoad(
    peer: number,
    offset: Shape,
    shape: Shape,
    options: { readonly validShape?: Shape } = {},
  ): Promise<Tensor<D>> {
    const tile = makeTensor(this.dtype, checkShape("remoteLoad", shape));
    const validShape = options.validShape ?? tile.shape;
    const zeros = tile.shape.map(() => 0);
    checkBlock({ call: "remoteLoad", argument: "validShape", what: "the tile", shape: tile.shape }, zeros, validShape);
    await issueGet(this, "remoteLoad", peer, tile, { srcOffset: offset, shape: validShape }, {});
    return tile;
  }

  /**
   * Gives the memory back. Collective: every rank of the group frees the same windows in the same order; resolves
   * when all have, and when everything that was under way to this rank's part, or from it, has been applied. The name
   * may be used again, and `local` may not: its memory will be another window's.
   *
   * @throws {ERR_WINDOW_FREED | ERR_WAIT_TIMEOUT | ERR_GROUP_ENDED}
   */
  async free(): Promise<void> {
    const { engine, group, allocation } = present(this);
    checkLive("free", allocation);
    await freeWindow(engine, group, allocation);
  }
}

/**
 * A window of INT32 cells for synchronisation: peers `notify` its cells, the owner `wait`s on them. Zero when
 * published. Only signals take notify and wait; puts into them are refused.
 */
export class Signal extends Window<"int32"> {
  readonly #engine: Engine;
  readonly #group: Group;
  readonly #allocation: Allocation;
  readonly #book: CallBook;

  /** @internal Programs get signals from `comm.signal`. */
  constructor(engine: Engine, group: Group, allocation: Allocation, book: CallBook) {
    super(engine, group, allocation);
    this.#book = book;
    this.#engine = engine;
    this.#group = group;
    this.#allocation = allocation;
  }

  /**
   * Changes one cell of the peer's part, after everything this rank sent to that peer before.
   *
   * Atomic per cell; AtomicAdd wraps as INT32 and accepts negative values. A notify to oneself acts on the same cell
   * at once. Resolves at local completion. Set and AtomicAdd must not meet on one cell without a satisfied wait in
   * between: that ends the group with `ERR_NOTIFY_MIXED`.
   *
   * @throws {ERR_PEER_RANGE | ERR_OUT_OF_BOUNDS | ERR_INVALID_ARGUMENT | ERR_WINDOW_FREED | ERR_QUEUE_FULL | ERR_GROUP_ENDED}
   */
  async notify(peer: number, offset: Shape, value: number, op: NotifyOp): Promise<void> {
    checkLive("notify", this.#allocation);
    const destination = checkPeer("notify", this.#group, peer);
    const change = checkChange("notify", this, this, offset, value, op);
    await notify(this.#engine, handContext(this.#group, "notify"), destination, change);
  }

  /**
   * Waits until this rank's own cell compares true with `expected`, and resolves with the value that did. Consumes
   * nothing. The condition is evaluated at once and at every change of the cell, and latched: an `Eq` value that
   * passed by counts as met. Several tasks may wait on one cell.
   *
   * A wait that times out (`timeoutMs`, default `--wait-timeout`) rejects and may be tried again.
   *
   * @throws {ERR_WAIT_TIMEOUT} naming the cell, its value and its last writer;
   * @throws {ERR_OUT_OF_BOUNDS | ERR_INVALID_ARGUMENT | ERR_WINDOW_FREED | ERR_GROUP_ENDED}
   */
  async wait(
    offset: Shape,
    expected: number,
    compare: WaitCmp,
    options: { readonly timeoutMs?: number } = {},
  ): Promise<number> {
    checkLive("wait", this.#allocation);
    const condition = {
      cell: checkCell("wait", this.#allocation, offset),
      expected: checkInt32("wait", "expected", expected),
      compare: checkWaitCmp("wait", compare),
    };
    const timeoutMs = checkTimeout("wait", options.timeoutMs ?? this.#engine.waitTimeoutMs);
    return await wait(this.#engine, handContext(this.#group, "signal.wait"), this.#allocation, [condition], timeoutMs);
  }

  /**
   * A task that completes once all conditions hold, without blocking its caller: collectives and `comm.task` take it
   * as `{ after }`. At most DEFERRED_CONDITIONS_MAX (64) conditions, each `Ge`. Consumes nothing.
   *
   * Rejects when a condition has not come true within `--wait-timeout`.
   *
   * @throws {ERR_INVALID_ARGUMENT | ERR_OUT_OF_BOUNDS | ERR_LIMIT | ERR_WINDOW_FREED | ERR_WAIT_TIMEOUT | ERR_GROUP_ENDED}
   */
  deferWait(conditions: readonly DeferredCondition[]): Task {
    const engine = this.#engine;
    const ctx = handContext(this.#group, "signal.deferWait");
    return refusable(() => {
      checkLive("deferWait", this.#allocation);
      const checked = checkConditions(this.#allocation, conditions);
      return this.#book.defer("signal.deferWait", {}, () =>
        wait(engine, ctx, this.#allocation, checked, engine.waitTimeoutMs),
      );
    });
  }
}

async function issueGet(
  window: Window,
  call: string,
  peer: number,
  destination: Tensor,
  region: Region | undefined,
  options: ChunkOptions,
): Promise<void> {
  const { engine, group, allocation } = present(window);
  checkLive(call, allocation);
  const owner = checkPeer(call, group, peer);
  const target = checkOther(call, "destination", allocation, destination);
  const { mine, theirs } = blocks(call, allocation, target, region, options, "get");
  if (owner === group.rank) refuseOverlap(call, allocation, target, mine, theirs);
  await get(engine, handContext(group, call), owner, allocation, theirs, { bytes: target.bytes, spans: mine });
}

async function issuePut(
  window: Window,
  call: string,
  peer: number,
  source: Tensor,
  region: Region | undefined,
  options: PutOptions,
  change?: CellChange,
): Promise<void> {
  const { engine, group, allocation } = present(window);
  checkLive(call, allocation);
  const destination = checkPeer(call, group, peer);
  if (allocation.cells !== undefined) {
    throw new RankwiseError(
      "ERR_NOT_A_SIGNAL",
      `${call}: "${allocation.name}" is a signal; only notify changes a signal`,
      { window: allocation.name },
    );
  }
  const from = checkOther(call, "source", allocation, source);
  const atomic = checkAtomic(call, allocation.dtype, options.atomic);
  const { mine, theirs } = blocks(call, allocation, from, region, options, "put");
  if (destination === group.rank) refuseOverlap(call, allocation, from, mine, theirs);
  await put(engine, handContext(group, call), {
    peer: destination,
    target: allocation,
    spans: theirs,
    source: { bytes: from.bytes, spans: mine },
    change,
    atomic,
  });
}

/** The change of a cell that a call asks for, checked. */
function checkChange(
  call: string,
  window: Window,
  signal: Signal,
  offset: Shape,
  value: number,
  op: NotifyOp,
): CellChange {
  const own = present(window);
  const parts = internalsOf(signal);
  if (parts?.allocation.cells === undefined) {
    throw new RankwiseError("ERR_NOT_A_SIGNAL", `${call}: signal must come from comm.signal`, { argument: "signal" });
  }
  if (parts.group !== own.group) {
    throw new RankwiseError(
      "ERR_FOREIGN_GROUP",
      `${call}: signal "${signal.name}" belongs to another group than window "${window.name}"`,
      { argument: "signal" },
    );
  }
  checkLive(call, parts.allocation);
  return {
    signal: parts.allocation,
    cell: checkCell(call, parts.allocation, offset),
    value: checkInt32(call, "value", value),
    op: checkNotifyOp(call, op),
  };
}

/** @throws {ERR_INVALID_ARGUMENT | ERR_DTYPE_MISMATCH} */
function checkAtomic(call: string, dtype: DType, atomic: unknown): AtomicDType | undefined {
  if (atomic === undefined) return undefined;
  if (atomic !== "add") {
    throw new RankwiseError("ERR_INVALID_ARGUMENT", `${call}: atomic must be "add", got ${describe(atomic)}`, {
      argument: "atomic",
    });
  }
  if (isAtomicDType(dtype)) return dtype;
  throw new RankwiseError(
    "ERR_DTYPE_MISMATCH",
    `${call}: atomic add works on ${atomicDtypes.join(", ")}, not on ${dtype}`,
    {
      argument: "atomic",
    },
  );
}

function present(window: object): Internals {
  const parts = internalsOf(window);
  if (parts === undefined) {
    throw new RankwiseError(
      "ERR_NOT_A_WINDOW",
      "a peer's target must be a window made by comm.window; a private tensor is not reachable",
    );
  }
  return parts;
}
