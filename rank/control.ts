/** A rank's link to the coordinator: it joins, is started, reports, and is told when to end. */
import { availableParallelism } from "node:os";
import { type RawData, WebSocket } from "ws";
import { deferred } from "../shared/async.ts";
import { bearer, isTlsFault, type Tls } from "../shared/auth.ts";
import { decodeMessage, encodeMessage } from "../shared/codec.ts";
import { CONTROL_MESSAGE_BYTES_MAX, PROTOCOL_VERSION } from "../shared/constants.ts";
import { RankwiseError, toWireError } from "../shared/errors.ts";
import { type LivenessCheck, watchLiveness } from "../shared/liveness.ts";
import type { Cause, MessageOf, RankState } from "../shared/messages.ts";
import type { RankFailure } from "./engine.ts";

/** Address of a rank that does not listen. */
const NO_ADDRESS = "unix:/none";

/** How this rank finds its job. */
export interface ControlOptions {
  readonly coordinator: string;
  readonly token: string;
  readonly job: string;
  readonly epoch: number;
  readonly rank: number;
  readonly host: string;
  readonly tls?: Tls | undefined;
}

/** What the coordinator tells a rank after its start. */
export interface ControlEvents {
  /** The group has failed, for this first cause. */
  abort(cause: Cause): void;
  /** The coordinator asks what this rank is doing. */
  asked(): void;
  /** Every rank has said goodbye. */
  end(): void;
  /** The control link broke. */
  lost(error: RankwiseError): void;
}

const expected = ["start", "go", "ask_state", "abort", "end"] as const;

export class Control {
  readonly #options: ControlOptions;
  readonly #socket: WebSocket;
  #hasJoined = false;
  readonly #started = deferred<MessageOf<"start">>();
  readonly #released = deferred<void>();
  #liveness: LivenessCheck | undefined;
  #closing = false;

  private constructor(options: ControlOptions, socket: WebSocket, events: ControlEvents) {
    this.#options = options;
    this.#socket = socket;
    const lose = (error: RankwiseError): void => {
      if (this.#closing) return;
      this.#closing = true;
      this.#liveness?.stop();
      this.#started.reject(error);
      this.#released.reject(error);
      events.lost(error);
    };
    socket.on("message", (data: RawData) => {
      this.#liveness?.heard();
      try {
        const message = decodeMessage(toBytes(data), expected);
        if (message.type === "start") {
          this.#watch(message.settings.livenessMs, lose);
          this.#started.resolve(message);
        } else if (message.type === "go") this.#released.resolve();
        else if (message.type === "ask_state") events.asked();
        else if (message.type === "abort") {
          const error = new RankwiseError(
            "ERR_GROUP_ENDED",
            `the group ended while rank ${options.rank} was starting: ${message.cause.message}`,
          );
          this.#started.reject(error);
          this.#released.reject(error);
          events.abort(message.cause);
        } else events.end();
      } catch (error) {
        lose(
          new RankwiseError(
            "ERR_COORDINATOR_LOST",
            `the coordinator sent what is no message: ${toWireError(error).message}`,
          ),
        );
        socket.terminate();
      }
    });
    socket.on("close", (code, reason) => {
      lose(
        new RankwiseError(
          "ERR_COORDINATOR_LOST",
          `the control link closed (${reason.toString() || `close code ${code}`})`,
        ),
      );
    });
    socket.on("error", () => {
      // "close" follows and carries the reason
    });
  }

  /**
   * Connects; the returned function makes the link with its listener.
   *
   * @throws {ERR_COORDINATOR_UNREACHABLE | ERR_UNAUTHORIZED}
   */
  static async connect(options: ControlOptions): Promise<(events: ControlEvents) => Control> {
    const socket = new WebSocket(options.coordinator, {
      headers: { authorization: bearer(options.token) },
      perMessageDeflate: false,
      ...(options.tls === undefined ? {} : { ca: options.tls.ca }),
      maxPayload: CONTROL_MESSAGE_BYTES_MAX,
    });
    await new Promise<void>((resolve, reject) => {
      socket.once("open", resolve);
      socket.once("error", (error) => {
        const refused = error.message.includes("401");
        reject(
          new RankwiseError(
            refused ? "ERR_UNAUTHORIZED" : isTlsFault(error) ? "ERR_TLS" : "ERR_COORDINATOR_UNREACHABLE",
            `rank ${options.rank}: coordinator ${options.coordinator}: ${error.message}`,
            { rank: options.rank },
            error,
          ),
        );
      });
    });
    return (events) => new Control(options, socket, events);
  }

  /** Joins with the address where this rank listens; resolves with everybody's address and the job's settings. */
  async join(address: string): Promise<MessageOf<"start">> {
    this.#sendJoin(address);
    return await this.#started.promise;
  }

  #sendJoin(address: string): void {
    const { host, rank } = this.#options;
    this.#hasJoined = true;
    this.#send({
      type: "join_rank",
      version: PROTOCOL_VERSION,
      ...this.#job,
      rank,
      host,
      pid: process.pid,
      address,
      processors: availableParallelism(),
    });
  }

  /** Says that all links stand; resolves when that is so on every rank. */
  async ready(): Promise<void> {
    this.#send({ type: "ready", ...this.#job });
    await this.#released.promise;
  }

  state(state: RankState): void {
    this.#send({ type: "state", ...this.#job, state });
  }

  linkSilent(peer: number, silentMs: number): void {
    this.#send({ type: "link_silent", ...this.#job, peer, silentMs });
  }

  failed({ error, call, suspect }: RankFailure): void {
    // one that fails before it can listen joins to say so: nobody will get to dial it
    if (!this.#hasJoined) this.#sendJoin(NO_ADDRESS);
    this.#send({ type: "failed", ...this.#job, error: toWireError(error), call, suspect });
  }

  lastWords(state: RankState): void {
    this.#send({ type: "last_words", ...this.#job, state });
  }

  goodbye(state: RankState): void {
    this.#send({ type: "goodbye", ...this.#job, state });
  }

  /** Closes the link; nothing is reported any more. Resolves when what was sent is on its way. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#liveness?.stop();
    if (this.#socket.readyState === WebSocket.CLOSED) return;
    const closed = deferred<void>();
    this.#socket.once("close", () => {
      closed.resolve();
    });
    this.#socket.close(1000);
    await closed.promise;
  }

  /** A coordinator that does not answer pings is lost: stopped, or beyond a link that is cut. */
  #watch(livenessMs: number, lose: (error: RankwiseError) => void): void {
    const socket = this.#socket;
    const check = watchLiveness(
      livenessMs,
      () => {
        if (socket.readyState === WebSocket.OPEN) socket.ping();
      },
      () => {
        lose(
          new RankwiseError(
            "ERR_COORDINATOR_LOST",
            `the coordinator did not answer for ${livenessMs / 1000} s (--liveness)`,
          ),
        );
        socket.terminate();
      },
    );
    socket.on("pong", check.heard);
    this.#liveness = check;
  }

  get #job(): { job: string; epoch: number } {
    return { job: this.#options.job, epoch: this.#options.epoch };
  }

  #send(message: Parameters<typeof encodeMessage>[0]): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(encodeMessage(message));
  }
}

function toBytes(data: RawData): Uint8Array {
  if (Array.isArray(data)) return Buffer.concat(data);
  return data instanceof ArrayBuffer ? new Uint8Array(data) : data;
}
