/** The life of a rank: join, open links, run the program, say goodbye, end. A process hosts one rank, or all of them. */
import { AsyncLocalStorage } from "node:async_hooks";
import { hostname } from "node:os";
import type { Tls } from "../shared/auth.ts";
import { deferred, delay, ignore, withDeadline } from "../shared/async.ts";
import { ORPHAN_MS } from "../shared/constants.ts";
import { RankwiseError, toWireError } from "../shared/errors.ts";
import { frameHeader, FrameKind } from "../shared/frame.ts";
import type { Cause, Settings } from "../shared/messages.ts";
import { pollWhileWaiting } from "./poller.ts";
import { CallBook } from "./collectives/call-book.ts";
import { Comm } from "./comm.ts";
import { Control } from "./control.ts";
import { Engine } from "./engine.ts";
import { Faults } from "./faults.ts";
import { handContext } from "./group.ts";
import { probeLinks } from "./link-probe.ts";
import { quiet } from "./waits.ts";
import { Arena } from "./memory/arena.ts";
import { loadProgram, type Main } from "./program.ts";
import { FrameServer } from "./serve.ts";
import { InprocNetwork } from "./transport/inproc.ts";
import type { FrameSink, Transport } from "./transport/transport.ts";
import { WebSocketTransport } from "./transport/websocket/transport.ts";

/** Everything a rank process is told by its environment. */
export interface RankProcessOptions {
  readonly coordinator: string;
  readonly token: string;
  readonly job: string;
  readonly epoch: number;
  /** The ranks that this process hosts: one, or with the in-process transport all of them. */
  readonly ranks: readonly number[];
  readonly nranks: number;
  readonly program: string;
  readonly listen:
    { readonly bind: string; readonly advertise: string } | { readonly directory: string } | { readonly inproc: true };
  readonly joinTimeoutMs: number;
  readonly tls: Tls | undefined;
  readonly testFault: string | undefined;
  /** Ends this process, for a fault that does. */
  readonly exit: (code: number) => void;
}

/** How a rank gets its transport: it listens before it joins, and connects when it knows the others. */
interface Links {
  readonly address: string;
  connect(addresses: readonly string[], settings: Settings): Promise<Transport>;
  /** Everybody has found this rank. */
  joined(): void;
}

const endings: Promise<void>[] = [];
let groupEnded = false;

/** The ranks of this process, once their program may run. */
let hosted: readonly HostedRank[] = [];

/** Whose program runs, where a process hosts several. */
const running = new AsyncLocalStorage<HostedRank>();

/** Whether the group of this process has ended, well or not. */
export function groupHasEnded(): boolean {
  return groupEnded;
}

/**
 * An error that nobody caught: the rank whose program threw it fails by it as if its `main` had, and does not wait for
 * its `main` any more. False when no program runs here, or when its group had ended before: the error is then untold.
 */
export function failUncaught(thrown: unknown, origin: string): boolean {
  if (thrown instanceof RankwiseError && thrown.code === "ERR_GROUP_ENDED" && hosted.length > 0) return true; // an echo
  const rank = running.getStore();
  const told = hosted.length > 0 && !groupEnded;
  const error =
    thrown instanceof RankwiseError
      ? thrown
      : new RankwiseError("ERR_PROGRAM_THREW", `${origin}: ${toWireError(thrown).message}`, {}, thrown);
  for (const each of rank === undefined ? hosted : [rank]) each.crash(error);
  return told;
}

/** Runs the ranks of this process from their join to their end; resolves with the exit code: 0 after a good run, else 1. */
export async function runRanks(options: RankProcessOptions): Promise<number> {
  const network = deferred<InprocNetwork>();
  const arena = new Arena();
  const ranks = await Promise.all(options.ranks.map((rank) => HostedRank.connect(options, rank, arena)));
  void Promise.all(endings).then(() => (groupEnded = true));
  const open = (engine: Engine, sink: FrameSink): Promise<Links> =>
    "inproc" in options.listen
      ? Promise.resolve(inprocLinks(engine, sink, network))
      : webSocketLinks(options, engine, sink);
  // every rank has been released before the first one runs, so that the order of a simulation is its seed's alone
  await Promise.all(ranks.map((rank) => rank.prepare(open)));
  hosted = ranks;
  const mode = ranks[0]?.settings?.mode;
  let main: Main | undefined;
  try {
    if (mode !== undefined) main = await loadProgram(options.program, mode);
  } catch (error) {
    for (const rank of ranks) rank.fail(error);
  }
  await Promise.all(ranks.map((rank) => rank.run(main)));
  const codes = await Promise.all(ranks.map((rank) => rank.leave()));
  return Math.max(...codes);
}

/** One rank of this process. */
class HostedRank {
  settings: Settings | undefined;
  readonly #engine: Engine;
  readonly #control: Control;
  readonly #ended = deferred<void>();
  readonly #crashed = deferred<never>();
  #hasCrashed = false;
  #transport: Transport | undefined;
  #firstCause: Cause | undefined;

  private constructor(options: RankProcessOptions, rank: number, arena: Arena, connect: (rank: HostedRank) => Control) {
    const faults = options.testFault === undefined ? undefined : new Faults(options.testFault, rank, options.exit);
    this.#engine = new Engine({ rank, nranks: options.nranks, arena, ...(faults === undefined ? {} : { faults }) });
    this.#control = connect(this);
    this.#engine.onFailure((failure) => {
      this.#control.failed(failure);
    });
    endings.push(this.#ended.promise);
  }

  /** @throws {ERR_COORDINATOR_UNREACHABLE | ERR_UNAUTHORIZED} */
  static async connect(options: RankProcessOptions, rank: number, arena: Arena): Promise<HostedRank> {
    const open = await Control.connect({ ...options, rank, host: hostname() });
    return new HostedRank(options, rank, arena, (hosted) =>
      open({
        abort: (cause) => {
          hosted.#abort(cause);
        },
        asked: () => {
          hosted.#control.state(hosted.#engine.state());
        },
        end: () => {
          // peers that went on after this rank's goodbye have been served, and that counts
          hosted.#control.lastWords(hosted.#engine.state());
          hosted.#engine.leave();
          hosted.#ended.resolve();
        },
        lost: (error) => {
          hosted.#orphaned(error);
        },
      }),
    );
  }

  /** Joins, opens the links, and is ready; resolves when all ranks are, or when this one has failed. */
  async prepare(open: (engine: Engine, sink: FrameSink) => Promise<Links>): Promise<void> {
    try {
      const links = await open(this.#engine, new FrameServer(this.#engine));
      const { addresses, placement, settings } = await this.#control.join(links.address);
      this.#engine.waitTimeoutMs = settings.waitTimeoutMs;
      this.#engine.placement = placement;
      if (placement.hosts === 1 && settings.nranks <= placement.processors) {
        this.#engine.onFrame = pollWhileWaiting(this.#engine.pending);
      }
      this.#transport = await links.connect(addresses, settings);
      this.#engine.attach(this.#transport);
      await this.#control.ready();
      this.#watchLinks(settings.livenessMs);
      links.joined();
      this.settings = settings;
    } catch (error) {
      this.fail(error);
    }
  }

  /** Runs the program to its end, and this rank to the group's. */
  async run(main: Main | undefined): Promise<void> {
    const { settings } = this;
    try {
      if (main !== undefined && settings !== undefined) {
        await Promise.race([this.#runMain(main, settings), this.#crashed.promise]);
      }
    } catch (error) {
      this.fail(error);
    }
    await this.#ended.promise;
  }

  async #runMain(main: Main, settings: Settings): Promise<void> {
    const engine = this.#engine;
    const book = new CallBook(engine);
    const comm = new Comm({ engine, book, settings }, engine.world);
    // to follow each call costs time, and is needed only where it is not plain whose program runs
    await (hosted.length > 1 ? running.run(this, () => main(comm)) : main(comm));
    // what nobody has awaited is part of the program, and the goodbye says that no more will come
    await book.idle();
    await this.#sayGoodbye();
  }

  /** Closes everything; resolves with this rank's exit code. */
  async leave(): Promise<number> {
    this.#engine.leave();
    await this.#transport?.close();
    await withDeadline(this.#control.close(), CLOSE_MS, () => new Error("the control link does not close")).catch(
      ignore,
    );
    return this.#firstCause === undefined && !this.#hasCrashed ? 0 : 1;
  }

  /** An error that nobody caught has left the program. */
  crash(error: RankwiseError): void {
    this.#hasCrashed = true;
    this.fail(error);
    this.#crashed.reject(error);
  }

  /** An error that left the program, or kept it from starting: the group ends, unless this is only its echo. */
  fail(thrown: unknown): void {
    const { rank } = this.#engine;
    const error =
      thrown instanceof RankwiseError
        ? thrown
        : new RankwiseError("ERR_PROGRAM_THREW", toWireError(thrown).message, { rank }, thrown);
    this.#engine.fail({ error, call: this.#engine.currentCall(), suspect: null });
  }

  #watchLinks(livenessMs: number): void {
    const transport = this.#transport;
    if (transport?.moved === undefined) return;
    const moved = transport.moved.bind(transport);
    const probe = probeLinks(this.#engine, livenessMs, moved, (peer, silentMs) => {
      this.#control.linkSilent(peer, silentMs);
    });
    void this.#ended.promise.then(() => probe.stop());
  }

  /** Everything sent has been applied, and every peer knows that no more will come. */
  async #sayGoodbye(): Promise<void> {
    const engine = this.#engine;
    await quiet(engine, handContext(engine.world, "goodbye"));
    for (const peer of engine.world.peers()) {
      engine.post(engine.peer(peer), frameHeader({ kind: FrameKind.Goodbye }));
    }
    this.#control.goodbye(engine.state());
  }

  #abort(cause: Cause): void {
    this.#firstCause ??= cause;
    this.#control.lastWords(this.#engine.state());
    this.#engine.end(cause);
    this.#ended.resolve();
  }

  #orphaned(error: RankwiseError): void {
    const { rank } = this.#engine;
    const { code, message } = error;
    this.#firstCause ??= { rank, pid: process.pid, host: hostname(), code, message, call: null };
    this.#engine.end(this.#firstCause);
    this.#ended.resolve();
    // a program that does not come to its end is ended
    void delay(ORPHAN_MS).then(() => process.kill(process.pid, "SIGKILL"));
  }
}

/** Longest time for the control link's closing handshake. */
const CLOSE_MS = 500;

async function webSocketLinks(options: RankProcessOptions, engine: Engine, sink: FrameSink): Promise<Links> {
  const { listen, joinTimeoutMs } = options;
  if ("inproc" in listen) throw new RankwiseError("ERR_INTERNAL", "no sockets for the in-process transport");
  const identity = { ...options, rank: engine.rank };
  const { counters, faults } = engine;
  const onLink = faults === undefined ? {} : { onLink: faults.linkOpened.bind(faults) };
  const transport = await WebSocketTransport.open({ identity, listen, joinTimeoutMs, counters, ...onLink }, sink);
  return {
    address: transport.address,
    connect: async (addresses) => {
      await transport.connect(addresses);
      return transport;
    },
    joined: () => {
      transport.unlink();
    },
  };
}

/** The network of this process is made by the first rank that learns the seed. */
function inprocLinks(engine: Engine, sink: FrameSink, network: ReturnType<typeof deferred<InprocNetwork>>): Links {
  return {
    address: `inproc:${engine.rank}`,
    connect: async (_, { nranks, seed }) => {
      if (engine.rank === 0) network.resolve(new InprocNetwork(nranks, seed));
      return (await network.promise).attach(engine.rank, sink, engine.counters, engine.limits);
    },
    joined: ignore,
  };
}
