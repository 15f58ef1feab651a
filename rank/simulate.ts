/** All ranks of a job in one process, on the in-process transport: the same programs, with a seed for the order. */
import { deferred } from "../shared/async.ts";
import { RankwiseError, toWireError } from "../shared/errors.ts";
import { frameHeader, FrameKind } from "../shared/frame.ts";
import type { Cause, Counters, RankState } from "../shared/messages.ts";
import { CallBook } from "./collectives/call.ts";
import { Comm, type JobSettings } from "./comm.ts";
import { Engine, type RankFailure } from "./engine.ts";
import { Faults } from "./faults.ts";
import { handContext } from "./group.ts";
import { quiet } from "./issue.ts";
import { FrameServer } from "./serve.ts";
import { InprocNetwork } from "./transport/inproc.ts";

/** What to simulate. */
export interface Simulation {
  readonly nranks: number;
  readonly seed: number;
  readonly main: (comm: Comm) => unknown;
  readonly settings?: Partial<JobSettings>;
  readonly waitTimeoutMs?: number;
  readonly testFault?: string;
}

/** How it went. */
export interface SimulationResult {
  /** The first failure, or undefined after a good run. */
  readonly failure: RankFailure | undefined;
  /** Counters, calls and waits of each rank, taken at its goodbye or when the group failed. */
  readonly states: readonly RankState[];
  readonly counters: readonly Counters[];
}

/** Runs a program on every rank; resolves when all have ended. */
export async function simulate(options: Simulation): Promise<SimulationResult> {
  const { nranks, seed, main } = options;
  const network = new InprocNetwork(nranks, seed);
  const settings: JobSettings = { mode: "hand", platform: "a5sim", args: [], ...options.settings };
  const engines: Engine[] = [];
  const states: RankState[] = [];
  let failure: RankFailure | undefined;
  const failed = (rank: number, found: RankFailure): void => {
    if (failure !== undefined) return;
    failure = found;
    for (const engine of engines) states[engine.rank] ??= engine.state();
    const cause: Cause = { rank, pid: null, host: null, ...toWireError(found.error), call: found.call };
    // the other ranks hear of it a turn later, as they would over a control link
    setImmediate(() => {
      for (const engine of engines) engine.end(cause);
    });
  };
  for (let rank = 0; rank < nranks; rank++) {
    const { waitTimeoutMs, testFault } = options;
    const engine = new Engine({
      rank,
      nranks,
      ...(waitTimeoutMs === undefined ? {} : { waitTimeoutMs }),
      ...(testFault === undefined ? {} : { faults: new Faults(testFault, rank) }),
    });
    engine.attach(network.attach(rank, new FrameServer(engine), engine.counters), (found) => {
      failed(rank, found);
    });
    engines.push(engine);
  }
  const everybody = engines.map(async (engine) => {
    try {
      await main(new Comm({ engine, book: new CallBook(engine), settings }, engine.world));
      await quiet(engine, handContext(engine.world, "goodbye"));
      for (const peer of engine.world.peers()) {
        engine.post(engine.peer(peer), frameHeader({ kind: FrameKind.Goodbye }));
      }
      states[engine.rank] ??= engine.state();
    } catch (error) {
      const known =
        error instanceof RankwiseError
          ? error
          : new RankwiseError("ERR_PROGRAM_THREW", toWireError(error).message, {}, error);
      engine.fail({ error: known, call: engine.currentCall(), suspect: null });
      await gone(engine);
    }
  });
  await Promise.all(everybody);
  return { failure, states, counters: engines.map((engine) => engine.counters) };
}

async function gone(engine: Engine): Promise<void> {
  const turn = deferred<void>();
  setImmediate(turn.resolve);
  await turn.promise;
  if (!engine.ended) await gone(engine);
}
