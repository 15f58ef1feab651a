import type { ArrayOf, DType } from "../shared/dtype.ts";
import { checkDType } from "../shared/dtype.ts";
import { RankwiseError } from "../shared/errors.ts";
import { type Mode, type Platform, platforms } from "../shared/config.ts";
import { checkShape, describe, type Shape } from "../shared/shape.ts";
import { allocateWindow } from "./allocate.ts";
import { type Decode, type Golden, checkTensorData } from "./check.ts";
import { checkLanes, checkName, checkPeer, checkRanks } from "./checks.ts";
import { allGather } from "./collectives/all-gather.ts";
import { allReduce } from "./collectives/all-reduce.ts";
import type { AllReduceOptions, ReduceOptions } from "./collectives/reduce-options.ts";
import { allToAllV, type AllToAllVOptions } from "./collectives/all-to-all-v.ts";
import type { BarrierOptions, ExchangeOptions } from "./collectives/algo.ts";
import { allToAll } from "./collectives/all-to-all.ts";
import { broadcast, type BroadcastOptions } from "./collectives/broadcast.ts";
import { indexedAllToAllV, type IndexedAllToAllVOptions } from "./collectives/indexed-all-to-all-v.ts";
import { reduceScatter } from "./collectives/reduce-scatter.ts";
import { barrier } from "./collectives/barrier.ts";
import { type CallBook } from "./collectives/call-book.ts";
import { type CallOptions, type CollectiveSpec, refusable, type Task } from "./collectives/call.ts";
import type { Engine } from "./engine.ts";
import { type Group, handContext } from "./group.ts";
import { fence, quiet } from "./waits.ts";
import { checkTensor, makeTensor, type Tensor } from "./memory/tensor.ts";
import { Signal, Window } from "./window.ts";

/** What the command line said, the same on every rank. */
export interface JobSettings {
  readonly mode: Mode;
  readonly platform: Platform;
  readonly args: readonly string[];
  /** Most lanes of one launch, if not the platform profile's. */
  readonly lanesMax?: number | null;
  /** WQEBBs of a submission queue, if not the platform profile's. */
  readonly sqDepth?: number | null;
}

/** @internal What a `Comm` is made of. */
export interface CommParts {
  readonly engine: Engine;
  readonly book: CallBook;
  readonly settings: JobSettings;
}

/**
 * A rank's view of its group: who it is, its memory, the primitives and the collectives.
 *
 * @example
 * ```ts
 * import type { Comm } from "rankwise";
 *
 * export default async function main(comm: Comm): Promise<void> {
 *   const credits = await comm.signal("credits", [comm.nranks, 1]);
 *   await comm.barrier(credits);
 * }
 * ```
 */
export class Comm {
  readonly #parts: CommParts;
  readonly #group: Group;
  /** This rank's index in the group. */
  readonly rank: number;
  /** Number of ranks in the group, P. */
  readonly nranks: number;
  /** The other ranks, ascending. */
  readonly peers: readonly number[];
  /** `--mode` of the command line. */
  readonly mode: Mode;
  /** Program arguments: what stood behind `--`. */
  readonly args: readonly string[];
  /** Platform profile, `-p`. */
  readonly platform: Platform;
  /** Most lanes of one launch: the platform profile's limit, or what `--lanes-max` says. */
  readonly lanesMax: number;

  /** @internal Programs get their `Comm` as the argument of `main`. */
  constructor(parts: CommParts, group: Group) {
    this.#parts = parts;
    this.#group = group;
    this.rank = group.rank;
    this.nranks = group.members.length;
    this.peers = group.peers();
    this.mode = parts.settings.mode;
    this.args = parts.settings.args;
    this.platform = parts.settings.platform;
    this.lanesMax = parts.settings.lanesMax ?? platforms[this.platform].lanesMax;
  }

  /**
   * A private tensor: zeros, or the given typed array (its `byteOffset` and length are honoured, nothing is copied).
   *
   * @throws {ERR_INVALID_ARGUMENT | ERR_SHAPE_MISMATCH | ERR_NOT_CONTIGUOUS | ERR_SIZE_LIMIT}
   */
  tensor<D extends DType>(dtype: D, shape: Shape, array?: ArrayOf<D>): Tensor<D> {
    return makeTensor(dtype, shape, array);
  }

  /**
   * A window: symmetric memory, zero, at most 4 GiB. Collective: every rank of the group asks for the same name,
   * dtype and shape in the same order; resolves when all have published theirs.
   *
   * A peer may write as soon as its own call has resolved, so initialise `local` only in front of a barrier.
   *
   * @throws {ERR_INVALID_ARGUMENT | ERR_SIZE_LIMIT | ERR_NAME_IN_USE | ERR_MISMATCH | ERR_WAIT_TIMEOUT | ERR_GROUP_ENDED}
   */
  async window<D extends DType>(name: string, dtype: D, shape: Shape): Promise<Window<D>> {
    checkName("window", name);
    checkDType("window", dtype);
    const { engine } = this.#parts;
    const allocation = await allocateWindow(engine, this.#group, "window", name, dtype, checkShape("window", shape));
    return new Window<D>(engine, this.#group, allocation);
  }

  /** A signal: a window of INT32 cells, zero. Collective like `window`. @throws as `window` does. */
  async signal(name: string, shape: Shape): Promise<Signal> {
    checkName("signal", name);
    const { engine } = this.#parts;
    const allocation = await allocateWindow(engine, this.#group, "signal", name, "int32", checkShape("signal", shape));
    return new Signal(engine, this.#group, allocation, this.#parts.book);
  }

  /** Resolves when everything this rank has sent to the peer so far has been applied there. @throws {ERR_PEER_RANGE | ERR_WAIT_TIMEOUT | ERR_GROUP_ENDED} */
  async fence(peer: number): Promise<void> {
    const index = checkPeer("fence", this.#group, peer);
    await fence(this.#parts.engine, handContext(this.#group, "fence"), this.#group.world(index));
  }

  /** Resolves when everything this rank has sent to anybody so far has been applied there. @throws {ERR_WAIT_TIMEOUT | ERR_GROUP_ENDED} */
  async quiet(): Promise<void> {
    await quiet(this.#parts.engine, handContext(this.#group, "quiet"));
  }

  /**
   * No rank leaves before every rank of the group has entered. One credit round on `signal` [P, S], which may be used
   * for any number of builtin calls.
   *
   * @throws {ERR_NOT_A_SIGNAL | ERR_SHAPE_MISMATCH | ERR_FOREIGN_GROUP | ERR_SIGNAL_NOT_CLEAN | ERR_MISMATCH | ERR_WAIT_TIMEOUT | ERR_GROUP_ENDED}
   */
  barrier(signal: Signal, options: BarrierOptions = {}): Task {
    return this.#start(() => barrier(this.#parts.engine, this.#group, signal, options));
  }

  /**
   * Every rank sends row d of `x` to rank d; row s of `data` becomes the chunk that rank s meant for this rank. The
   * window is the result. `x` is unchanged and must stay so until completion.
   *
   * @param x tensor [P, …] of the window's dtype and shape, sharing no memory with it
   * @param data window [P, …]
   * @param signal signal [P, S], clean
   * @throws {ERR_NOT_A_WINDOW | ERR_NOT_A_SIGNAL | ERR_SHAPE_MISMATCH | ERR_DTYPE_MISMATCH | ERR_ALIASED_BUFFERS | ERR_FOREIGN_GROUP | ERR_SIGNAL_NOT_CLEAN | ERR_BUFFER_CONFLICT | ERR_MISMATCH | ERR_WAIT_TIMEOUT | ERR_GROUP_ENDED}
   */
  allToAll<D extends DType>(
    x: Tensor<D> | Window<D>,
    data: Window<D>,
    signal: Signal,
    options: ExchangeOptions = {},
  ): Task {
    return this.#start(() => allToAll(this.#parts.engine, this.#group, { x, data, signal, options }));
  }

  /**
   * Every rank gets the chunk of every rank: row s of `data` becomes rank s's `x`. `x` is unchanged and must stay so
   * until completion.
   *
   * @param x tensor of the shape of one row of `data`, sharing no memory with it
   * @param data window [P, …]
   * @param signal signal [P, S], clean
   * @throws as `allToAll` does.
   */
  allGather<D extends DType>(x: Tensor<D>, data: Window<D>, signal: Signal, options: ExchangeOptions = {}): Task {
    return this.#start(() => allGather(this.#parts.engine, this.#group, { x, data, signal, options }));
  }

  /**
   * Every rank's `data` becomes root's; what the others had staged never shows.
   *
   * @throws {ERR_PEER_RANGE} for a root outside the group, and as `allToAll` does.
   */
  broadcast(data: Window, signal: Signal, options: BroadcastOptions = {}): Task {
    return this.#start(() => broadcast(this.#group, data, signal, options));
  }

  /**
   * In place: row `rank` of this rank's `data` [P, …] becomes the reduction of everybody's row `rank`; the other rows
   * keep what they held. Operands are taken in the order of ranks; float16 and bfloat16 accumulate in float32 and are
   * rounded once; integers wrap.
   *
   * @throws as `allToAll` does.
   */
  reduceScatter(data: Window, signal: Signal, options: ReduceOptions = {}): Task {
    return this.#start(() => reduceScatter(this.#group, data, signal, options));
  }

  /**
   * In place: `data` becomes the reduction of everybody's `data`, the same bits on every rank and in every run.
   *
   * `algo: "mesh"` (default) reads everybody's data and adds in the order of ranks; `coreNum` lanes share the work, on
   * a signal [P, S] with S ≥ coreNum. `algo: "ring"` moves 2 (P − 1) / P of the data in 2 (P − 1) steps, on a signal
   * [2 (P − 1) + 1, P]; there float16 and bfloat16 partial sums are rounded at each step. The other algorithms take a
   * signal [P, 1].
   *
   * @throws {ERR_LIMIT} for more lanes than the platform has, and as `allToAll` does.
   */
  allReduce(data: Window, signal: Signal, options: AllReduceOptions = {}): Task {
    return this.#start(() => allReduce(this.#parts.engine, this.#group, data, signal, options, this.lanesMax));
  }

  /**
   * The first `sendCounts[d]` rows of partition d of `input` go to rank d, into partition `rank` of its `target`, and
   * `recvCounts[s]` says how many came from rank s. Counts are clamped to [0, M]; the tails of partitions keep what
   * they held.
   *
   * @param input tensor [P·M, H] of the target's dtype, sharing no memory with it
   * @param target window [P·M, H]
   * @param signal signal [P, S], S ≥ lanes launched
   * @throws {ERR_LIMIT} for more lanes than the platform has; {ERR_MISMATCH} for an unexpected count; and as `allToAll` does.
   */
  allToAllV<D extends DType>(input: Tensor<D>, target: Window<D>, signal: Signal, options: AllToAllVOptions): Task {
    return this.#start(() => allToAllV(this.#group, input, target, signal, options, this.lanesMax));
  }

  /**
   * The exchange of expert dispatch: rows are sent from where they lie, chosen by an index. Source s writes
   * `input[index[d][j]]` into row s·C + j of destination d's target, for j below `sendCounts[d]`, and `recvCounts[s]`
   * says how many came from rank s. A repeated index fills each of its slots; rows past a count keep what they held.
   *
   * A count outside [0, C], or an index in use outside [0, Nmax), ends the group, naming destination, slot and value.
   *
   * @param input tensor [Nmax, H], float32 or int8; Nmax may differ from rank to rank
   * @param target window [P·C, H], sharing no memory with the input
   * @param signal signal [P, S], S ≥ coreNum
   * @throws {ERR_UNSUPPORTED} off platform a5sim, or for another dtype; {ERR_QUEUE_DEPTH} when a transfer does not fit
   * its queue; {ERR_QUEUE_CONFLICT} for a second call in flight; {ERR_LIMIT} for more lanes than the platform has; and as
   * `allToAll` does.
   */
  indexedAllToAllV<D extends "float32" | "int8">(
    input: Tensor<D>,
    target: Window<D>,
    signal: Signal,
    options: IndexedAllToAllVOptions,
  ): Task {
    const { platform, lanesMax } = this;
    const { indexed, sqDepth } = platforms[platform];
    const limits = { platform, lanesMax, indexed, sqDepth: this.#parts.settings.sqDepth ?? sqDepth };
    return this.#start(() => indexedAllToAllV(this.#group, input, target, signal, options, limits));
  }

  /**
   * Compares a tensor with its golden: an array of all its elements, or a function of their index. To be called by
   * every rank of the group.
   *
   * On failure it looks again when every peer has come to its own check or has left, so that data that arrived after
   * it was read is told from data that is wrong. `decode` says what a wrong value is.
   *
   * @throws {ERR_WRONG_DATA} naming rank, row, element, what was got and what was expected.
   */
  async check(tensor: Tensor | Window, golden: Golden, options: { readonly decode?: Decode } = {}): Promise<void> {
    const checked = checkTensor("check", "tensor", tensor instanceof Window ? tensor.local : tensor);
    const isGolden =
      typeof golden === "function" ||
      (typeof golden === "object" && (golden as unknown) !== null && "length" in golden);
    if (!isGolden) {
      throw new RankwiseError(
        "ERR_INVALID_ARGUMENT",
        `check: golden must be an array or a function of the index, got ${describe(golden)}`,
        { argument: "golden" },
      );
    }
    await checkTensorData(this.#parts.engine, this.#group, checked, golden, options.decode);
  }

  /**
   * A group of some ranks of this one, renumbered in list order, with its own windows, signals and sequence numbers.
   * Needs no communication; called by the members only. Each further call with the same list makes a further group.
   *
   * @throws {ERR_PEER_RANGE | ERR_INVALID_ARGUMENT | ERR_NOT_MEMBER}
   */
  group(ranks: readonly number[]): Comm {
    const members = checkRanks(this.#group, ranks).map((index) => this.#group.world(index));
    return new Comm(this.#parts, this.#parts.engine.makeGroup(members));
  }

  /**
   * Runs `fn(lane)` for lanes 0 … B − 1 as concurrent workers of this rank, and resolves when all have joined. The
   * first lane that rejects rejects the launch.
   *
   * @param lanes B, at most the platform's lane limit
   * @throws {ERR_INVALID_ARGUMENT | ERR_LIMIT}
   */
  async launch(lanes: number, fn: (lane: number) => unknown): Promise<void> {
    checkLanes("launch", lanes, this.lanesMax);
    await Promise.all(
      Array.from({ length: lanes }, async (_, lane) => {
        await fn(lane);
      }),
    );
  }

  /**
   * Runs `fn` once the tasks of `after` have completed, never before the caller's own code goes on; the task completes
   * with it. One that fails and is awaited by nobody ends the group, like any rejection; one that is still open when
   * `main` resolves is not waited for.
   *
   * @throws {ERR_INVALID_ARGUMENT | ERR_GROUP_ENDED}
   */
  task(fn: () => unknown, options: CallOptions = {}): Task {
    return refusable(() => this.#parts.book.defer("comm.task", options, fn));
  }

  #start(spec: () => CollectiveSpec): Task {
    return refusable(() => this.#parts.book.start(this.#group, spec()));
  }
}
