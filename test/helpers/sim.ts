/** Ranks without processes: whole programs on the in-process transport, and one rank alone with a recorded link. */
import { expect } from "vitest";
import { encodePublication } from "../../shared/codec.ts";
import type { DType } from "../../shared/dtype.ts";
import { type ErrorCode, RankwiseError } from "../../shared/errors.ts";
import { type FrameHeader, frameHeader, FrameKind } from "../../shared/frame.ts";
import type { Cause } from "../../shared/messages.ts";
import { CallBook } from "../../rank/collectives/call-book.ts";
import { Comm } from "../../rank/comm.ts";
import { Engine, type RankFailure } from "../../rank/engine.ts";
import { Faults } from "../../rank/faults.ts";
import type { Limits } from "../../rank/limits.ts";
import { Arena } from "../../rank/memory/arena.ts";
import { FrameServer } from "../../rank/serve.ts";
import { simulate, type Simulation, type SimulationResult } from "../../rank/simulate.ts";
import { copyPayload, type Transport } from "../../rank/transport/transport.ts";
import { internalsOf, type Signal, type Window } from "../../rank/window.ts";

/** One for all jobs of this process that want one: each memory reserves gigabytes of address space. */
export const sharedArena = new Arena();

/** Runs a program on all ranks; a failure of any rank is thrown. */
export async function run(
  nranks: number,
  main: (comm: Comm) => unknown,
  options: Partial<Simulation> = {},
): Promise<SimulationResult> {
  const result = await simulate({ nranks, seed: 1, ...options, main });
  if (result.failure !== undefined) throw result.failure.error;
  return result;
}

/** Runs a program whose group must end, and returns how it did. */
export async function fails(
  nranks: number,
  main: (comm: Comm) => unknown,
  options: Partial<Simulation> = {},
): Promise<RankFailure> {
  const { failure } = await simulate({ nranks, seed: 1, ...options, main });
  if (failure === undefined) throw new Error("the group should have failed");
  return failure;
}

/** The `RankwiseError` that a call rejects with or throws; anything else is a failure of the test. */
export async function errorOf(call: () => unknown): Promise<RankwiseError> {
  try {
    await call();
  } catch (error) {
    if (error instanceof RankwiseError) return error;
    throw new Error(`not a RankwiseError: ${String(error)}`, { cause: error });
  }
  throw new Error("nothing was thrown");
}

/** Asserts an error's code and the argument that it names. */
export async function expectRefusal(call: () => unknown, code: ErrorCode, argument?: string): Promise<RankwiseError> {
  const error = await errorOf(call);
  expect(`${error.code}: ${error.message}`).toMatch(new RegExp(`^${code}: `, "u"));
  if (argument !== undefined) expect(error.context.argument).toBe(argument);
  return error;
}

/** A frame that a rank has sent. */
export interface SentFrame {
  readonly peer: number;
  readonly header: FrameHeader;
  /** As the transport got it: the caller's own memory, as it is when this is read. */
  readonly payload: Uint8Array;
  readonly exempt: boolean;
  /** Makes the frame locally complete, where `holds` asked for that. */
  readonly complete: () => void;
}

/** One rank of a group whose peers are played by the test. */
export class Rig {
  readonly engine: Engine;
  readonly server: FrameServer;
  readonly comm: Comm;
  readonly sent: SentFrame[] = [];
  readonly failures: RankFailure[] = [];
  /** Which frames reach local completion only when the test says so. */
  holds: (header: FrameHeader) => boolean = () => false;
  readonly #serials = new Map<number, number>();

  constructor({
    rank = 0,
    nranks = 3,
    waitTimeoutMs = 10_000,
    testFault = "",
    limits = {},
  }: { rank?: number; nranks?: number; waitTimeoutMs?: number; testFault?: string; limits?: Partial<Limits> } = {}) {
    this.engine = new Engine({ rank, nranks, waitTimeoutMs, limits, faults: new Faults(testFault, rank) });
    this.server = new FrameServer(this.engine);
    const transport: Transport = {
      address: "recorded",
      connect: () => Promise.resolve(),
      close: () => Promise.resolve(),
      send: (peer, header, payload, exempt) => {
        let complete = (): void => {};
        const done = this.holds(header) ? new Promise<void>((resolve) => (complete = resolve)) : undefined;
        this.sent.push({
          peer,
          header: { ...header },
          exempt,
          complete,
          get payload() {
            return payload instanceof Uint8Array ? payload : copyPayload(payload ?? []);
          },
        });
        return done;
      },
    };
    this.engine.attach(transport);
    this.engine.onFailure((failure) => {
      this.failures.push(failure);
    });
    const settings = { mode: "hand", platform: "a5sim", args: [] } as const;
    this.comm = new Comm({ engine: this.engine, book: new CallBook(this.engine), settings }, this.engine.world);
  }

  /** Delivers a frame of a peer, with the serial that is due. */
  feed(from: number, fields: Partial<FrameHeader> & { kind: FrameKind }, payload: Uint8Array = new Uint8Array()): void {
    const serial = (this.#serials.get(from) ?? 0) + 1;
    this.#serials.set(from, serial);
    this.server.receive(from, frameHeader({ serial, ...fields }), payload);
  }

  /** A window that every peer has published too. What was sent for it is not recorded. */
  async window<D extends DType>(name: string, dtype: D, shape: readonly number[]): Promise<Window<D>> {
    const made = this.comm.window(name, dtype, shape);
    this.#publish("window", name, dtype, shape);
    return await made;
  }

  async signal(name: string, shape: readonly number[]): Promise<Signal> {
    const made = this.comm.signal(name, shape);
    this.#publish("signal", name, "int32", shape);
    return await made;
  }

  /** The one failure that has been reported. */
  get failure(): RankFailure {
    expect(this.failures).toHaveLength(1);
    return this.failures[0]!;
  }

  /** Ends the group, as the coordinator's abort does. */
  end(code: ErrorCode = "ERR_PEER_LOST", rank = 1): void {
    const cause: Cause = { rank, pid: null, host: null, code, message: "gone", call: null };
    this.engine.end(cause);
  }

  #publish(kind: "window" | "signal", name: string, dtype: DType, shape: readonly number[]): void {
    const ordinal = this.sent.findLast(({ header }) => header.kind === FrameKind.Publish)?.header.window ?? 0;
    for (const from of this.comm.peers) {
      const publication = {
        members: [...this.engine.world.members],
        groupOrdinal: 0,
        kind,
        name,
        ordinal,
        dtype,
        shape: [...shape],
      };
      this.feed(from, { kind: FrameKind.Publish, window: ordinal }, encodePublication(publication));
    }
    this.sent.length = 0;
  }
}

/** Ordinal by which frames name a window. */
export function ordinalOf(window: Window | Signal): number {
  return internalsOf(window)!.allocation.ordinal;
}

/** Lets everything run that is ready to. */
export async function turn(): Promise<void> {
  await new Promise(setImmediate);
}

/** Whether a promise has settled by now. */
export async function settled(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  const note = (): void => {
    done = true;
  };
  promise.then(note, note);
  await turn();
  return done;
}
