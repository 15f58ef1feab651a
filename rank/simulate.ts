/**
 * All ranks of a job in one process. On the in-process transport, which is the default, a seed decides the order of
 * everything that the memory model leaves open, and the same seed repeats it.
 */
import { setImmediate as turn } from "node:timers/promises";
import { RankwiseError, toWireError } from "../shared/errors.ts";
import { frameHeader, FrameKind } from "../shared/frame.ts";
import type { Cause, RankState } from "../shared/messages.ts";
import { CallBook } from "./collectives/call-book.ts";
import { Comm, type JobSettings } from "./comm.ts";
import { Engine, type RankFailure } from "./engine.ts";
import { Faults } from "./faults.ts";
import { handContext } from "./group.ts";
import { quiet } from "./waits.ts";
import type { Limits } from "./limits.ts";
import type { Arena } from "./memory/arena.ts";
import { FrameServer } from "./serve.ts";
import { InprocNetwork } from "./transport/inproc.ts";
import type { FrameSink, Transport } from "./transport/transport.ts";

/** What to simulate. */
export interface Simulation {
  readonly nranks: number;
  readonly seed: number;
  readonly main: (comm: Comm) => unknown;
  readonly settings?: Partial<JobSettings>;
  readonly waitTimeoutMs?: number;
  /** Smaller limits than the usual ones. */
  readonly limits?: Partial<Limits>;
  /** Memory of all ranks together; default: windows have memory of their own. */
  readonly arena?: Arena;
  /** See `faults.ts`. */
  readonly testFault?: string;
  /** Opens a rank's transport; default: the in-process one, with the seed. */
  readonly open?: (engine: Engine, sink: FrameSink) => Promise<Transport>;
  /** Serves a rank's memory; default: `FrameServer`. */
  readonly serve?: (engine: Engine) => FrameSink;
}

/** How it went. */
export interface SimulationResult {
  /** The first failure, or undefined after a good run. */
  readonly failure: RankFailure | undefined;
  /** Counters, calls and waits of each rank, taken at its goodbye or when the group failed. */
  readonly states: readonly RankState[];
}

/** Runs a program on every rank; resolves when all have ended. */
export async function simulate(options: Simulation): Promise<SimulationResult> {
  const {
    nranks,
    seed,
    main,
    waitTimeoutMs,
    testFault,
    limits,
    arena,
    serve = (engine: Engine): FrameSink => new FrameServer(engine),
  } = options;
  const settings: JobSettings = { mode: "hand", platform: "a5sim", args: [], ...options.settings };
  const network = new InprocNetwork(nranks, seed);
  const open =
    options.open ??
    ((engine: Engine, sink: FrameSink): Promise<Transport> =>
      Promise.resolve(network.attach(engine.rank, sink, engine.counters, engine.limits)));
  const engines = Array.from({ length: nranks }, (_, rank) => {
    const faults = testFault === undefined ? undefined : new Faults(testFault, rank);
    return new Engine({
      rank,
      nranks,
      ...(waitTimeoutMs === undefined ? {} : { waitTimeoutMs }),
      ...(faults === undefined ? {} : { faults }),
      ...(limits === undefined ? {} : { limits }),
      ...(arena === undefined ? {} : { arena }),
    });
  });
  const states: RankState[] = [];
  let failure: RankFailure | undefined;
  const fail = async (rank: number, found: RankFailure): Promise<void> => {
    if (failure !== undefined) return;
    failure = found;
    for (const engine of engines) states[engine.rank] ??= engine.state();
    // the ranks hear of it a turn later, as they would over a control link
    await turn();
    const cause: Cause = { rank, pid: null, host: null, ...toWireError(found.error), call: found.call };
    for (const engine of engines) engine.end(cause);
  };
  const transports = await Promise.all(engines.map((engine) => open(engine, serve(engine))));
  for (const [rank, engine] of engines.entries()) {
    const transport = transports[rank];
    if (transport !== undefined) engine.attach(transport);
    engine.onFailure((found) => void fail(rank, found));
  }
  const addresses = transports.map(({ address }) => address);
  await Promise.all(transports.map((transport) => transport.connect(addresses)));
  await Promise.all(
    engines.map(async (engine) => {
      try {
        const book = new CallBook(engine);
        await main(new Comm({ engine, book, settings }, engine.world));
        await book.idle();
        await quiet(engine, handContext(engine.world, "goodbye"));
        for (const peer of engine.world.peers()) {
          engine.post(engine.peer(peer), frameHeader({ kind: FrameKind.Goodbye }));
        }
        states[engine.rank] ??= engine.state();
      } catch (error) {
        engine.fail({ error: asRankwiseError(error), call: engine.currentCall(), suspect: null });
        while (!engine.ended) await turn();
      }
    }),
  );
  for (const engine of engines) engine.leave();
  await Promise.all(transports.map((transport) => transport.close()));
  if (arena !== undefined) for (const engine of engines) engine.registry.releaseAll();
  return { failure, states };
}

function asRankwiseError(error: unknown): RankwiseError {
  if (error instanceof RankwiseError) return error;
  return new RankwiseError("ERR_PROGRAM_THREW", toWireError(error).message, {}, error);
}
