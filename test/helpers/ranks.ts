/** All ranks of a job in this process, on any transport: what every test of the memory model runs on. */
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Comm, JobSettings } from "../../rank/comm.ts";
import type { Engine } from "../../rank/engine.ts";
import type { Limits } from "../../rank/limits.ts";
import { FrameServer } from "../../rank/serve.ts";
import { simulate, type SimulationResult } from "../../rank/simulate.ts";
import { InprocNetwork } from "../../rank/transport/inproc.ts";
import type { FrameSink, Transport } from "../../rank/transport/transport.ts";
import { WebSocketTransport } from "../../rank/transport/websocket/transport.ts";
import { readTls, type Tls } from "../../shared/auth.ts";
import { makeCertificate } from "./certificate.ts";
import { sharedArena } from "./sim.ts";

/**
 * Over sockets, `direct` reads frames straight into window memory, which lies in an arena, as in a rank process;
 * without it they come through stock `ws`, into windows with memory of their own.
 */
export const rankTransports = ["inproc", "tcp", "unix", "tcp direct", "unix direct"] as const;
export type RankTransport = (typeof rankTransports)[number] | "tls direct";

/** A certificate for this host, made once. */
let certificate: Promise<Tls> | undefined;

async function makeTls(): Promise<Tls> {
  const folder = await mkdtemp(join(tmpdir(), "tls-"));
  try {
    const path = join(folder, "here");
    await makeCertificate(path, "IP:127.0.0.1");
    return readTls({ cert: `${path}.pem`, key: `${path}.key`, ca: `${path}.pem` });
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** What stands between a rank and its transport, for one job. */
export interface Interposed {
  readonly sink?: (inner: FrameSink, engine: Engine) => FrameSink;
  readonly transport?: (inner: Transport, engine: Engine) => Transport;
}

export interface RankRun {
  readonly transport?: RankTransport;
  readonly nranks: number;
  readonly main: (comm: Comm) => unknown;
  /** Order of deliveries on the in-process transport. */
  readonly seed?: number;
  readonly waitTimeoutMs?: number;
  readonly limits?: Partial<Limits>;
  readonly settings?: Partial<JobSettings>;
  readonly interposed?: Interposed;
}

/** Runs a program on every rank; resolves when all have ended, well or not. */
export async function runRanks(options: RankRun): Promise<SimulationResult> {
  const { transport = "inproc", nranks, seed = 0, interposed = {}, main, settings, limits } = options;
  const network = new InprocNetwork(nranks, seed);
  const tls = transport === "tls direct" ? await (certificate ??= makeTls()) : undefined;
  const identity = { job: randomUUID(), epoch: 0, token: randomUUID(), nranks, tls };
  const unix = transport.startsWith("unix");
  const receive = transport.endsWith("direct") ? "direct" : "reference";
  const directory = unix ? await mkdtemp(join(tmpdir(), "t-")) : "";
  const listen = unix ? { directory } : { bind: "127.0.0.1", advertise: "127.0.0.1" };
  const openBare = async (engine: Engine, sink: FrameSink): Promise<Transport> => {
    const { rank, counters } = engine;
    if (transport === "inproc") return network.attach(rank, sink, counters, engine.limits);
    const own = { identity: { ...identity, rank }, listen, joinTimeoutMs: 10_000, counters, limits: engine.limits };
    return await WebSocketTransport.open({ ...own, receive }, sink);
  };
  try {
    return await simulate({
      nranks,
      seed,
      main,
      waitTimeoutMs: options.waitTimeoutMs ?? 5000,
      ...(settings === undefined ? {} : { settings }),
      ...(limits === undefined ? {} : { limits }),
      ...(receive === "direct" ? { arena: sharedArena } : {}),
      open: async (engine, sink) => {
        const bare = await openBare(engine, sink);
        return interposed.transport?.(bare, engine) ?? bare;
      },
      serve: (engine) => {
        const server = new FrameServer(engine);
        return interposed.sink?.(server, engine) ?? server;
      },
    });
  } finally {
    if (directory !== "") await rm(directory, { recursive: true, force: true });
  }
}

/** Like `runRanks`, and throws the first failure. */
export async function runRanksWell(options: RankRun): Promise<SimulationResult> {
  const result = await runRanks(options);
  if (result.failure !== undefined) throw result.failure.error;
  return result;
}

/** A gate that one rank of a test opens for others of the same process. */
export class Gate {
  readonly opened: Promise<void>;
  #open!: () => void;

  constructor() {
    this.opened = new Promise((resolve) => (this.#open = resolve));
  }

  open(): void {
    this.#open();
  }
}

/** The numbers from 0 to n − 1. */
export function range(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i);
}
