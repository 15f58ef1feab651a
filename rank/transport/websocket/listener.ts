/**
 * The serving end of a rank's links: peers dial it and receive here, foreign clients dial it and write here.
 *
 * A connection passes four gates: the token at the upgrade (401), the number of handshakes under way, a hello within
 * HELLO_TIMEOUT_MS, and the hello's version, job, epoch and rank. Nothing is sent before the hello has passed.
 */
import type { IncomingMessage, Server } from "node:http";
import type { Duplex } from "node:stream";
import { type RawData, type WebSocket, WebSocketServer } from "ws";
import { authorized, makeServer, refusalText, type Tls, tooMany } from "../../../shared/auth.ts";
import { decodeHello } from "../../../shared/codec.ts";
import {
  CLIENTS_MAX,
  CLOSE_CODES,
  FRAME_HEADER_BYTES,
  FRAME_PAYLOAD_BYTES_MAX,
  HANDSHAKES_MAX,
  HELLO_BYTES_MAX,
  HELLO_TIMEOUT_MS,
  PROTOCOL_VERSION,
} from "../../../shared/constants.ts";
import { RankwiseError } from "../../../shared/errors.ts";
import { decodeHeader } from "../../../shared/frame.ts";
import type { LinkHello } from "../../../shared/messages.ts";
import type { FrameSink } from "../transport.ts";
import { bytesOf, closeReason, linkFault } from "./fault.ts";
import { frameHead } from "./wire.ts";

/** Who may connect. */
export interface LinkIdentity {
  readonly rank: number;
  readonly nranks: number;
  readonly job: string;
  readonly epoch: number;
  readonly token: string;
  readonly tls?: Tls | undefined;
}

/** Where to listen: a host and port, or the path of a Unix socket. */
export type ListenAt = { readonly host: string; readonly port: number } | { readonly path: string };

export interface ListenerEvents {
  /** A peer's hello has passed; frames to it go through this socket. */
  peerJoined(rank: number, socket: Duplex, link: WebSocket): void;
}

export class Listener {
  readonly #identity: LinkIdentity;
  readonly #sink: FrameSink;
  readonly #events: ListenerEvents;
  readonly #http: Server;
  readonly #wss = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: FRAME_HEADER_BYTES + FRAME_PAYLOAD_BYTES_MAX,
  });
  readonly #joined = new Set<number>();
  #handshakes = 0;
  #clients = 0;

  constructor(identity: LinkIdentity, sink: FrameSink, events: ListenerEvents) {
    this.#identity = identity;
    this.#sink = sink;
    this.#events = events;
    this.#http = makeServer(identity.tls);
    this.#http.on("request", (_, response) => {
      response.writeHead(426, { connection: "close" }).end();
    });
    this.#http.on("upgrade", (request, socket, head) => {
      this.#upgrade(request, socket, head);
    });
  }

  /** Starts listening; resolves with the port, or 0 for a Unix socket. @throws {ERR_PORT_IN_USE} */
  async listen(at: ListenAt): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#http.once("error", (error: NodeJS.ErrnoException) => {
        const taken = error.code === "EADDRINUSE";
        const [where, code, hint] =
          "path" in at
            ? ([at.path, "ERR_TEMP_DIR", "; name another folder by RANKWISE_SOCKET_DIR or TMPDIR"] as const)
            : ([`${at.host}:${at.port}`, "ERR_INVALID_ARGUMENT", ""] as const);
        const message = `cannot listen at ${where}: ${error.message}${taken ? "" : hint}`;
        reject(new RankwiseError(taken ? "ERR_PORT_IN_USE" : code, message, {}, error));
      });
      this.#http.listen(at, resolve);
    });
    const address = this.#http.address();
    return typeof address === "object" && address !== null ? address.port : 0;
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => {
      this.#http.close(() => {
        resolve();
      });
    });
    for (const connection of this.#wss.clients) connection.terminate();
    this.#http.closeAllConnections();
    await closed;
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on("error", () => {
      socket.destroy();
    });
    if (!authorized(request.headers.authorization, this.#identity.token)) {
      socket.end(refusalText("401 Unauthorized", "ERR_UNAUTHORIZED", "WWW-Authenticate: Bearer\r\n"));
      return;
    }
    if (this.#handshakes >= HANDSHAKES_MAX) {
      socket.end(refusalText("503 Service Unavailable", tooMany("HANDSHAKES_MAX", HANDSHAKES_MAX)));
      return;
    }
    this.#handshakes += 1;
    // counted until the hello has come, or the socket has gone: also one whose upgrade is no WebSocket's
    const over = (): void => {
      socket.off("close", over);
      this.#handshakes -= 1;
    };
    socket.once("close", over);
    this.#wss.handleUpgrade(request, socket, head, (connection) => {
      this.#awaitHello(connection, socket, over);
    });
  }

  #awaitHello(connection: WebSocket, socket: Duplex, over: () => void): void {
    const timer = setTimeout(() => {
      refuse(
        connection,
        new RankwiseError("ERR_HELLO_TIMEOUT", `no hello within HELLO_TIMEOUT_MS ${HELLO_TIMEOUT_MS}`),
      );
    }, HELLO_TIMEOUT_MS);
    connection.on("error", () => {
      // `ws` closes the connection with the code of what it could not read, and reads on until that has left
    });
    connection.once("close", () => {
      clearTimeout(timer);
    });
    connection.once("message", (data: RawData, isBinary: boolean) => {
      clearTimeout(timer);
      over();
      try {
        const hello = bytesOf(data);
        if (!isBinary) throw new RankwiseError("ERR_BAD_HELLO", "the hello must be a binary message");
        if (hello.byteLength > HELLO_BYTES_MAX) {
          throw new RankwiseError("ERR_BAD_HELLO", `a hello has at most HELLO_BYTES_MAX ${HELLO_BYTES_MAX} bytes`);
        }
        this.#accept(decodeHello(hello), connection, socket);
      } catch (error) {
        refuse(connection, error);
      }
    });
  }

  #accept(hello: LinkHello, connection: WebSocket, socket: Duplex): void {
    const { job, epoch, nranks, rank } = this.#identity;
    if (hello.version !== PROTOCOL_VERSION) {
      throw new RankwiseError("ERR_PROTOCOL_VERSION", `protocol ${hello.version} where ${PROTOCOL_VERSION} is spoken`);
    }
    if (hello.job !== job)
      throw new RankwiseError("ERR_FOREIGN_JOB", `hello of job ${hello.job} at a rank of another job`);
    if (hello.role === "client") {
      this.#acceptClient(connection, socket);
      return;
    }
    if (hello.epoch !== epoch)
      throw new RankwiseError("ERR_STALE_EPOCH", `hello of epoch ${hello.epoch} in epoch ${epoch}`);
    if (hello.rank >= nranks || hello.rank === rank || this.#joined.has(hello.rank)) {
      throw new RankwiseError(
        "ERR_DUPLICATE_RANK",
        `rank ${hello.rank} cannot dial rank ${rank}: it is ${this.#joined.has(hello.rank) ? "already connected" : "no peer of this group"}`,
      );
    }
    this.#joined.add(hello.rank);
    // a dialler that receives has nothing more to say
    connection.on("message", () => {
      refuse(connection, new RankwiseError("ERR_BAD_FRAME", "a receiving peer must not send"));
    });
    this.#events.peerJoined(hello.rank, socket, connection);
  }

  #acceptClient(connection: WebSocket, socket: Duplex): void {
    if (this.#clients >= CLIENTS_MAX)
      throw new RankwiseError("ERR_LIMIT", `CLIENTS_MAX ${CLIENTS_MAX} clients are connected already`);
    this.#clients += 1;
    connection.once("close", () => {
      this.#clients -= 1;
    });
    const sink = this.#sink.client({
      send: (header, payload) => {
        socket.write(frameHead(header, payload?.byteLength ?? 0, payload));
      },
      close: (error) => {
        refuse(connection, error);
      },
    });
    connection.on("message", (data: RawData, isBinary: boolean) => {
      try {
        if (!isBinary) throw new RankwiseError("ERR_BAD_FRAME", "text message where a frame was due");
        const bytes = bytesOf(data);
        sink.receive(decodeHeader(bytes), bytes.subarray(FRAME_HEADER_BYTES));
      } catch (error) {
        refuse(connection, error);
      }
    });
  }
}

/** Closes a connection with the code and reason of its error. */
function refuse(connection: WebSocket, error: unknown): void {
  const fault = linkFault(error);
  const codes: Readonly<Record<string, number>> = CLOSE_CODES;
  connection.removeAllListeners("message");
  connection.close(codes[fault.code] ?? CLOSE_CODES.ERR_BAD_FRAME, closeReason(fault));
}
