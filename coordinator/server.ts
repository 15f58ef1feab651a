/**
 * The coordinator's listener: one port for control connections (WebSocket) and for `GET /job`.
 *
 * Nothing is answered without the job's token. It knows connections and their hello, and no job.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { authorized, makeServer, refusalText, type Tls, tooMany } from "../shared/auth.ts";
import { decodeMessage } from "../shared/codec.ts";
import { CONTROL_MESSAGE_BYTES_MAX, HANDSHAKES_MAX, HELLO_TIMEOUT_MS } from "../shared/constants.ts";
import { RankwiseError } from "../shared/errors.ts";
import type { MessageOf } from "../shared/messages.ts";
import { bytesOf, ControlConnection } from "./connection.ts";

/** The first message of a control connection. */
export type ControlHello = MessageOf<"join_supervisor" | "join_rank">;

export interface ControlServerOptions {
  /** Address to bind. */
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly token: string;
  /** With it, everything is wss and https. */
  readonly tls?: Tls | undefined;
  /** A connection said hello; the receiver admits or refuses it, and sets its role. */
  readonly onHello: (connection: ControlConnection, hello: ControlHello) => void;
  /** An admitted connection sent a message. */
  readonly onMessage: (connection: ControlConnection, bytes: Uint8Array) => void;
  /** An admitted connection was closed, by either side. */
  readonly onClose: (connection: ControlConnection, reason: string) => void;
  /** What `GET /job` answers, as JSON. */
  readonly describeJob: () => unknown;
}

/** The listener of a coordinator, until it is closed. */
export class ControlServer {
  /** The port that it listens on. */
  readonly port: number;
  readonly #options: ControlServerOptions;
  readonly #http: Server;
  readonly #sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: CONTROL_MESSAGE_BYTES_MAX,
  });
  #connections = 0;
  #handshakes = 0;

  private constructor(options: ControlServerOptions, http: Server) {
    this.#options = options;
    this.#http = http;
    this.port = (http.address() as AddressInfo).port;
    http.on("request", (request, response) => {
      this.#answer(request, response);
    });
    http.on("upgrade", (request, socket, head) => {
      this.#upgrade(request, socket, head);
    });
  }

  /**
   * Listens.
   *
   * @throws {ERR_PORT_IN_USE}
   * @throws {ERR_USAGE} when the host cannot be bound or the port not be had for another reason
   */
  static async listen(options: ControlServerOptions): Promise<ControlServer> {
    const http = makeServer(options.tls);
    await new Promise<void>((resolve, reject) => {
      http.once("error", (error: NodeJS.ErrnoException) => {
        reject(listenError(error, options));
      });
      http.listen(options.port, options.host, resolve);
    });
    return new ControlServer(options, http);
  }

  /** Ends every connection and stops listening. */
  async close(): Promise<void> {
    for (const socket of this.#sockets.clients) socket.terminate();
    this.#http.closeAllConnections();
    await new Promise((resolve) => this.#http.close(resolve));
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const send = (status: number, body: unknown): void => {
      response.writeHead(status, { "content-type": "application/json", ...challenge(status), connection: "close" });
      response.end(`${JSON.stringify(body)}\n`);
    };
    if (!this.#isAuthorized(request)) send(401, { error: "ERR_UNAUTHORIZED" });
    else if (request.url !== "/job") send(404, { error: "there is only /job" });
    else if (request.method !== "GET") send(405, { error: "only GET" });
    else send(200, this.#options.describeJob());
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const refuse = (status: string, reason: string, headers = ""): void => {
      socket.on("error", () => socket.destroy());
      socket.end(refusalText(status, reason, headers));
    };
    if (!this.#isAuthorized(request)) refuse("401 Unauthorized", "ERR_UNAUTHORIZED", "WWW-Authenticate: Bearer\r\n");
    else if (this.#handshakes >= HANDSHAKES_MAX)
      refuse("503 Service Unavailable", tooMany("HANDSHAKES_MAX", HANDSHAKES_MAX));
    else this.#sockets.handleUpgrade(request, socket, head, (webSocket) => this.#greet(webSocket));
  }

  /** Waits for the hello of a fresh connection, for a bounded time. */
  #greet(socket: WebSocket): void {
    const connection = new ControlConnection(this.#connections++, socket);
    this.#handshakes++;
    const timer = setTimeout(() => {
      connection.refuse(new RankwiseError("ERR_HELLO_TIMEOUT", `no hello within ${HELLO_TIMEOUT_MS / 1000} s`));
    }, HELLO_TIMEOUT_MS);
    let greeted = false;
    const settle = (): void => {
      clearTimeout(timer);
      if (!greeted) this.#handshakes--;
      greeted = true;
    };
    let failure = "";
    socket.on("error", (error) => {
      failure = error.message; // the close event follows
    });
    socket.on("message", (data) => {
      const bytes = bytesOf(data);
      if (connection.role !== undefined) this.#options.onMessage(connection, bytes);
      else if (!greeted) {
        settle();
        this.#hello(connection, bytes);
      }
    });
    socket.on("close", (code, reason) => {
      settle();
      const reasons = [connection.refusal?.message, failure, reason.toString(), `its connection closed (${code})`];
      if (connection.role !== undefined) {
        this.#options.onClose(connection, reasons.find((text) => text !== undefined && text !== "") ?? "");
      }
    });
  }

  #hello(connection: ControlConnection, bytes: Uint8Array): void {
    let hello: ControlHello;
    try {
      hello = decodeMessage(bytes, ["join_supervisor", "join_rank"]);
    } catch (error) {
      connection.refuse(new RankwiseError("ERR_BAD_HELLO", error instanceof Error ? error.message : String(error)));
      return;
    }
    this.#options.onHello(connection, hello);
  }

  #isAuthorized(request: IncomingMessage): boolean {
    return authorized(request.headers.authorization, this.#options.token);
  }
}

function challenge(status: number): Record<string, string> {
  return status === 401 ? { "www-authenticate": "Bearer" } : {};
}

function listenError(error: NodeJS.ErrnoException, { host, port }: ControlServerOptions): RankwiseError {
  if (error.code === "EADDRINUSE") {
    return new RankwiseError(
      "ERR_PORT_IN_USE",
      `port ${port} of ${host} is taken by another process; choose another --port, or 0 for any free one`,
      {},
      error,
    );
  }
  return new RankwiseError("ERR_USAGE", `cannot listen on ${host} port ${port}: ${error.message}`, {}, error);
}
