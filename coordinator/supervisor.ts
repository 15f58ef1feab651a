/**
 * The supervisor of the ranks of one host: joins the coordinator, starts the ranks that it is assigned, tells how they
 * end, ends them when it is told to, and leaves no process, socket or file behind.
 *
 * It decides nothing about the group, except when it has lost its coordinator: then it ends its ranks by itself.
 */
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { WebSocket } from "ws";
import { readTls, type TlsFiles } from "../shared/auth.ts";
import { type Deferred, deferred } from "../shared/async.ts";
import { decodeMessage, encodeMessage } from "../shared/codec.ts";
import { DEPARTURE_MS, DEPARTURE_TIMEOUT_MS, PROTOCOL_VERSION, STALL_NEWS_MS } from "../shared/constants.ts";
import { isErrorCode, RankwiseError } from "../shared/errors.ts";
import { type LivenessCheck, watchLiveness } from "../shared/liveness.ts";
import type { Message, MessageOf } from "../shared/messages.ts";
import { bytesOf } from "./connection.ts";
import { Crew, type CrewMessage } from "./crew.ts";
import { type Dialled, dialCoordinator } from "./dial.ts";
import type { Interrupt } from "./monitor-events.ts";
import type { LineSink } from "./line-sink.ts";
import { StallWatch } from "./stall-watch.ts";

export interface SupervisorOptions {
  /** `ws://host:port` of the coordinator. */
  readonly url: string;
  readonly token: string;
  /** With it, ranks link by wss, and the coordinator is trusted by it. */
  readonly tls?: TlsFiles | undefined;
  /** Most ranks to start here. */
  readonly slots: number;
  /** How long to try to reach the coordinator. */
  readonly joinTimeoutMs: number;
  /** Address for ranks to listen on; by default the one by which this host reaches the coordinator. */
  readonly bind?: string | undefined;
  /** Name under which other hosts reach it; by default `bind`, or this host's name where that is a wildcard. */
  readonly advertise?: string | undefined;
  /** Working directory of the ranks. */
  readonly cwd: string;
  readonly tagOutput: boolean;
  readonly logDir?: string | undefined;
  /** Where the ranks' output goes. */
  readonly sink: LineSink;
  /** Script that a rank runs, where it is not the installation's own. */
  readonly rankEntry?: string | undefined;
}

/** What a supervisor is told. */
const expected = ["assign", "ask_state", "terminate", "finished"] as const;

/** A supervisor that has joined. */
export class Supervisor {
  /**
   * Resolves with the job's exit code once the coordinator has left; the ranks are gone by then.
   * Rejects with `ERR_COORDINATOR_LOST`, `ERR_INTERRUPTED` or the error by which the coordinator refused it.
   */
  readonly done: Promise<number>;
  readonly #options: SupervisorOptions;
  readonly #done: Deferred<number> = deferred();
  readonly #socket: WebSocket;
  readonly #localAddress: string;
  /** The ranks of the latest epoch. */
  #crew: Crew | undefined;
  #liveness: LivenessCheck | undefined;
  #stalls: StallWatch | undefined;
  /** The latest stall of this process, and until when what is heard may follow from it. */
  #latestStall: { readonly stallMs: number; readonly untilMs: number } | undefined;
  #finished: number | undefined;
  #interrupt: Interrupt | undefined;

  private constructor(options: SupervisorOptions, { socket, localAddress }: Dialled) {
    this.#options = options;
    this.#socket = socket;
    this.#localAddress = localAddress;
    this.done = this.#done.promise;
    let reason = "";
    socket.on("error", (error) => {
      reason = error.message; // the close event follows
    });
    socket.on("message", (data) => {
      this.#message(bytesOf(data));
    });
    socket.on("close", (code, text) => {
      void this.#closed(text.toString() || reason || `its connection closed (${code})`);
    });
  }

  /**
   * Reaches the coordinator and joins.
   *
   * @throws {ERR_COORDINATOR_UNREACHABLE}
   * @throws {ERR_UNAUTHORIZED}
   */
  static async join(options: SupervisorOptions): Promise<Supervisor> {
    const dialled = await dialCoordinator(
      options.url,
      options.token,
      options.joinTimeoutMs,
      options.tls === undefined ? undefined : readTls(options.tls),
    );
    const supervisor = new Supervisor(options, dialled);
    const { slots } = options;
    const version = PROTOCOL_VERSION;
    supervisor.#send({ type: "join_supervisor", version, slots, host: hostname(), pid: process.pid });
    return supervisor;
  }

  /** A signal has come: the job is told and the ranks end; a second one kills them at once. */
  interrupt(signal: Interrupt): void {
    const crew = this.#crew;
    if (this.#interrupt !== undefined) {
      crew?.hurry();
      return;
    }
    this.#interrupt = signal;
    const error = new RankwiseError("ERR_INTERRUPTED", `the supervisor of host ${hostname()} got ${signal}`);
    if (crew === undefined) {
      void this.#leave(error);
      return;
    }
    crew.fail(error);
    void crew.clear(crew.graceMs).then(() => {
      if (crew.hurried) this.#done.reject(error);
    });
  }

  #message(bytes: Uint8Array): void {
    this.#liveness?.heard();
    let message: MessageOf<(typeof expected)[number]>;
    try {
      message = decodeMessage(bytes, expected);
    } catch (error) {
      void this.#leave(error as RankwiseError);
      return;
    }
    const crew = this.#crew;
    switch (message.type) {
      case "assign":
        this.#assign(message);
        break;
      case "ask_state":
        if (crew?.epoch === message.epoch) this.#tellStates(crew, message);
        break;
      case "terminate":
        if (crew?.epoch === message.epoch) this.#terminate(crew, message);
        break;
      case "finished":
        this.#finished = message.exitCode;
        setTimeout(() => this.#socket.terminate(), DEPARTURE_TIMEOUT_MS).unref();
        break;
    }
  }

  #assign(assign: MessageOf<"assign">): void {
    const { job, epoch, settings } = assign;
    if (this.#interrupt !== undefined) {
      void this.#leave(this.#lost("")); // a group that starts again does so without this host
      return;
    }
    if (this.#liveness === undefined) this.#watchCoordinator(settings.livenessMs);
    const { url, token, tls, cwd, tagOutput, logDir, sink, rankEntry } = this.#options;
    const report = (message: CrewMessage): void => this.#send({ ...message, job, epoch });
    const listen = listenAddress(this.#options, this.#localAddress);
    this.#crew = new Crew({ assign, url, token, tls, listen, cwd, tagOutput, logDir, sink, rankEntry, report });
  }

  #terminate(crew: Crew, { job, epoch, graceMs }: MessageOf<"terminate">): void {
    this.#tellStates(crew, { job, epoch }); // as long as there are any
    if (graceMs === 0) crew.hurry();
    void crew.clear(graceMs).then((cleared) => {
      if (cleared) this.#send({ type: "cleared", job, epoch });
    });
  }

  #tellStates(crew: Crew, { job, epoch }: { readonly job: string; readonly epoch: number }): void {
    this.#send({ type: "rank_states", job, epoch, states: crew.states() });
  }

  #watchCoordinator(livenessMs: number): void {
    const socket = this.#socket;
    const check = watchLiveness(
      livenessMs,
      () => {
        if (socket.readyState === socket.OPEN) socket.ping();
      },
      () => socket.terminate(),
    );
    socket.on("pong", check.heard);
    this.#liveness = check;
    const onStall = (stallMs: number): void => {
      this.#latestStall = { stallMs, untilMs: performance.now() + STALL_NEWS_MS };
    };
    this.#stalls = new StallWatch({ livenessMs, onStall });
  }

  async #closed(reason: string): Promise<void> {
    this.#stalls?.look();
    if (this.#finished !== undefined) {
      this.#liveness?.stop();
      await sleep(DEPARTURE_MS);
      this.#done.resolve(this.#finished);
      return;
    }
    await this.#leave(refusalIn(reason) ?? this.#lost(reason));
  }

  /** Ends the ranks without being told to, and then itself. */
  async #leave(error: RankwiseError): Promise<void> {
    this.#liveness?.stop();
    this.#stalls?.stop();
    await this.#crew?.clear(this.#crew.graceMs);
    this.#socket.terminate();
    this.#done.reject(error);
  }

  #lost(reason: string): RankwiseError {
    if (this.#interrupt !== undefined) return new RankwiseError("ERR_INTERRUPTED", `got ${this.#interrupt}`);
    return new RankwiseError(
      "ERR_COORDINATOR_LOST",
      `the coordinator at ${this.#options.url} is lost: ${this.#ownStall() ?? reason}`,
    );
  }

  /** A supervisor that was stopped itself has lost its coordinator by that. */
  #ownStall(): string | undefined {
    const stall = this.#latestStall;
    if (stall === undefined || performance.now() > stall.untilMs) return undefined;
    return `this supervisor was stopped for ${(stall.stallMs / 1000).toFixed(1)} s (--liveness)`;
  }

  #send(message: Message): void {
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.send(encodeMessage(message));
  }
}

/** The address for ranks to bind and the name to advertise. A wildcard is never advertised. */
export function listenAddress(
  { bind, advertise }: Pick<SupervisorOptions, "bind" | "advertise">,
  localAddress: string,
): { bind: string; advertise: string } {
  const bound = bind ?? localAddress;
  const isWildcard = bound === "0.0.0.0" || bound === "::";
  return { bind: bound, advertise: advertise ?? (isWildcard ? hostname() : bound) };
}

/** The error that a close reason `ERR_…: message` carries. */
function refusalIn(reason: string): RankwiseError | undefined {
  const match = /^(ERR_[A-Z_]+): (.*)$/su.exec(reason);
  const [, code = "", message = ""] = match ?? [];
  return isErrorCode(code) ? new RankwiseError(code, message) : undefined;
}
