/** Who may speak to a listener of a job: its token, its certificate, its limits. */
import { createHash, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { CONNECTIONS_MAX, HELLO_TIMEOUT_MS } from "./constants.ts";
import { RankwiseError } from "./errors.ts";

/** Files in PEM: what a listener shows, its key, and whom a dialler trusts. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
}

/** Their contents. */
export interface Tls {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly ca: Buffer;
}

/** @throws {ERR_USAGE} naming the file that cannot be read. */
export function readTls({ cert, key, ca }: TlsFiles): Tls {
  const read = (option: string, file: string): Buffer => {
    try {
      return readFileSync(file);
    } catch (error) {
      throw new RankwiseError("ERR_USAGE", `${option}: cannot read ${file}: ${(error as Error).message}`, {}, error);
    }
  };
  return { cert: read("--tls-cert", cert), key: read("--tls-key", key), ca: read("--tls-ca", ca) };
}

/**
 * A listener that takes a bounded number of connections, and for a bounded time what is no request yet.
 *
 * @throws {ERR_USAGE} for a certificate and a key that do not fit
 */
export function makeServer(tls: Tls | undefined, connectionsMax = CONNECTIONS_MAX): Server {
  const times = {
    connectionsCheckingInterval: 1000,
    headersTimeout: HELLO_TIMEOUT_MS,
    requestTimeout: HELLO_TIMEOUT_MS,
  };
  const server = tls === undefined ? createServer(times) : makeTlsServer(tls, times);
  let open = 0;
  server.on("connection", (socket) => {
    open += 1;
    socket.once("close", () => (open -= 1));
    if (open <= connectionsMax) return;
    socket.on("error", () => socket.destroy());
    if (tls === undefined)
      socket.end(refusalText("503 Service Unavailable", tooMany("CONNECTIONS_MAX", connectionsMax)));
    else socket.destroy();
  });
  return server;
}

/** The refusal of what exceeds a limit. */
export function tooMany(limit: string, most: number): string {
  return `ERR_LIMIT: ${limit} ${most} are open already`;
}

/** An HTTP answer that ends a connection, with its reason as text. */
export function refusalText(status: string, reason: string, headers = ""): string {
  const length = Buffer.byteLength(reason) + 1;
  return `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: ${length}\r\n${headers}\r\n${reason}\n`;
}

function makeTlsServer({ cert, key }: Tls, times: Parameters<typeof createTlsServer>[0]): Server {
  try {
    return createTlsServer({ ...times, cert, key, handshakeTimeout: HELLO_TIMEOUT_MS });
  } catch (error) {
    throw new RankwiseError("ERR_USAGE", `--tls-cert, --tls-key: ${(error as Error).message}`, {}, error);
  }
}

/** Whether an error of a dialler is about TLS: another attempt would end alike. */
export function isTlsFault(error: unknown): boolean {
  const { code = "" } = error as { code?: string };
  return code === "EPROTO" || /^(?:ERR_TLS|ERR_SSL)|CERT|SELF_SIGNED|^UNABLE_TO_/u.test(code);
}

/** The `Authorization` header that carries a job's token. */
export function bearer(token: string): string {
  return `Bearer ${token}`;
}

/** Whether an `Authorization` header carries the token, compared in constant time. */
export function authorized(header: string | undefined, token: string): boolean {
  return timingSafeEqual(digest(header ?? ""), digest(bearer(token)));
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
