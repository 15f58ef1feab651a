/** How a supervisor reaches the coordinator. */
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import { bearer, isTlsFault, type Tls } from "../shared/auth.ts";
import { CONTROL_MESSAGE_BYTES_MAX, HELLO_TIMEOUT_MS } from "../shared/constants.ts";
import { RankwiseError } from "../shared/errors.ts";

/** First and longest pause between two attempts. */
const RETRY_MS = 100;
const RETRY_MS_MAX = 1000;

/** An open control connection. */
export interface Dialled {
  readonly socket: WebSocket;
  /** Address by which this host reaches the coordinator. */
  readonly localAddress: string;
}

/**
 * Connects to the coordinator. A name that does not resolve yet and a port where nobody listens yet are tried again
 * until `timeoutMs` have passed: the coordinator may start last.
 *
 * @throws {ERR_UNAUTHORIZED} at once when the token is refused
 * @throws {ERR_TLS} at once when its certificate is not accepted
 * @throws {ERR_COORDINATOR_UNREACHABLE}
 */
export async function dialCoordinator(
  url: string,
  token: string,
  timeoutMs: number,
  tls?: Pick<Tls, "ca">,
): Promise<Dialled> {
  const untilMs = performance.now() + timeoutMs;
  for (let pauseMs = RETRY_MS; ; pauseMs = Math.min(2 * pauseMs, RETRY_MS_MAX)) {
    try {
      const leftMs = Math.max(untilMs - performance.now(), 1);
      return await attempt(url, token, Math.min(HELLO_TIMEOUT_MS, leftMs), tls);
    } catch (error) {
      if (error instanceof RankwiseError) throw error;
      if (isTlsFault(error)) throw tlsError(url, error);
      if (performance.now() + pauseMs > untilMs) {
        const message = error instanceof Error ? error.message : String(error);
        throw new RankwiseError(
          "ERR_COORDINATOR_UNREACHABLE",
          `no coordinator answered at ${url} within ${timeoutMs / 1000} s (--join-timeout): ${message}; does it run, and does --coordinator name its host and port?`,
          {},
          error,
        );
      }
    }
    await sleep(pauseMs);
  }
}

/** One attempt. Rejects with a RankwiseError only when another would end alike. */
function attempt(url: string, token: string, timeoutMs: number, tls: Pick<Tls, "ca"> | undefined): Promise<Dialled> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, {
      headers: { authorization: bearer(token) },
      perMessageDeflate: false,
      ...(tls === undefined ? {} : { ca: tls.ca }),
      maxPayload: CONTROL_MESSAGE_BYTES_MAX,
      handshakeTimeout: Math.ceil(timeoutMs),
    });
    let localAddress = "";
    socket.on("upgrade", (response) => {
      localAddress = plainAddress(response.socket);
    });
    socket.on("unexpected-response", (request, response) => {
      request.destroy();
      reject(refusal(url, response.statusCode ?? 0));
    });
    socket.once("error", reject);
    socket.once("open", () => {
      socket.off("error", reject);
      resolve({ socket, localAddress });
    });
  });
}

function tlsError(url: string, error: unknown): RankwiseError {
  const message = error instanceof Error ? error.message : String(error);
  return new RankwiseError(
    "ERR_TLS",
    `the coordinator at ${url}: ${message}; the certificate must name the host of the address, and --tls-ca must have signed it`,
    {},
    error,
  );
}

function refusal(url: string, status: number): Error {
  if (status === 401) {
    return new RankwiseError(
      "ERR_UNAUTHORIZED",
      `the coordinator at ${url} refused the token (HTTP 401); set RANKWISE_TOKEN or --token-file to the job's`,
    );
  }
  return new Error(`HTTP ${status}`);
}

/** The local address of a socket, without the prefix of an IPv4 address in IPv6 form. */
function plainAddress(socket: Socket): string {
  return (socket.localAddress ?? "127.0.0.1").replace(/^::ffff:/u, "");
}
