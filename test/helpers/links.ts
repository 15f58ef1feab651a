/** WebSocket links in one process: what arrives is recorded, and every listener is closed at the end. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bearer } from "../../shared/auth.ts";
import { PROTOCOL_VERSION } from "../../shared/constants.ts";
import { type RankwiseError } from "../../shared/errors.ts";
import type { FrameHeader } from "../../shared/frame.ts";
import { type Counters, type LinkHello, zeroCounters } from "../../shared/messages.ts";
import { defaultLimits, type Limits } from "../../rank/limits.ts";
import type { ClientConnection, FrameSink } from "../../rank/transport/transport.ts";
import type { LinkIdentity } from "../../rank/transport/websocket/listener.ts";
import { WebSocketTransport } from "../../rank/transport/websocket/transport.ts";
import { WebSocket } from "ws";

/** A frame that has arrived; the payload is a copy. */
export interface Arrival {
  readonly peer: number;
  readonly header: FrameHeader;
  readonly payload: Uint8Array;
}

/** Records what a rank receives. */
export class RecordingSink implements FrameSink {
  readonly arrivals: Arrival[] = [];
  readonly losses: { readonly peer: number; readonly error: RankwiseError }[] = [];
  readonly clients: ClientConnection[] = [];
  readonly fromClients: FrameHeader[] = [];

  receive(peer: number, header: FrameHeader, payload: Uint8Array): void {
    this.arrivals.push({ peer, header, payload: payload.slice() });
  }

  lost(peer: number, error: RankwiseError): void {
    this.losses.push({ peer, error });
  }

  client(connection: ClientConnection): { receive(header: FrameHeader): void } {
    this.clients.push(connection);
    return {
      receive: (header) => {
        this.fromClients.push(header);
      },
    };
  }
}

export const identity: LinkIdentity = { rank: 0, nranks: 2, job: "job-1", epoch: 3, token: "s3cret" };

/** One rank's end of its links. */
export interface LinkEnd {
  readonly transport: WebSocketTransport;
  readonly sink: RecordingSink;
  readonly counters: Counters;
}

/** Opens listeners, and closes them all when disposed. */
export class Links implements AsyncDisposable {
  readonly ends: LinkEnd[] = [];
  readonly sockets: WebSocket[] = [];
  #directory: string | undefined;

  /** A rank that listens and has not connected. */
  async open(
    who: Partial<LinkIdentity> = {},
    kind: "tcp" | "unix" = "tcp",
    { joinTimeoutMs = 10_000, limits = {} }: { joinTimeoutMs?: number; limits?: Partial<Limits> } = {},
  ): Promise<LinkEnd> {
    const [sink, counters] = [new RecordingSink(), zeroCounters()];
    const listen =
      kind === "tcp" ? { bind: "127.0.0.1", advertise: "127.0.0.1" } : { directory: await this.directory() };
    const options = {
      identity: { ...identity, ...who },
      listen,
      joinTimeoutMs,
      counters,
      limits: { ...defaultLimits, ...limits },
    };
    const end = { transport: await WebSocketTransport.open(options, sink), sink, counters };
    this.ends.push(end);
    return end;
  }

  /** So many ranks, all connected. */
  async connect(nranks: number, kind: "tcp" | "unix", limits: Partial<Limits> = {}): Promise<LinkEnd[]> {
    const opened: LinkEnd[] = [];
    for (let rank = 0; rank < nranks; rank++) opened.push(await this.open({ rank, nranks }, kind, { limits }));
    const addresses = opened.map(({ transport }) => transport.address);
    await Promise.all(opened.map(({ transport }) => transport.connect(addresses)));
    return opened;
  }

  /** A raw WebSocket to a rank; null for no token. */
  dial(end: LinkEnd, token: string | null = identity.token): WebSocket {
    const headers = token === null ? {} : { authorization: bearer(token) };
    const socket = new WebSocket(`${end.transport.address}/link`, { headers, perMessageDeflate: false });
    this.sockets.push(socket);
    return socket;
  }

  /** A private directory for sockets. */
  async directory(): Promise<string> {
    this.#directory ??= await mkdtemp(join(tmpdir(), "rw-"));
    return this.#directory;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.sockets) socket.terminate();
    await Promise.all(this.ends.map(({ transport }) => transport.close()));
    if (this.#directory !== undefined) await rm(this.#directory, { recursive: true, force: true });
  }
}

/** The hello of a peer. */
export function peerHello(fields: object = {}): LinkHello {
  return { version: PROTOCOL_VERSION, role: "peer", job: identity.job, epoch: identity.epoch, rank: 1, ...fields };
}

/** The close code and reason of a socket, once it is closed. */
export async function closeOf(socket: WebSocket): Promise<{ code: number; reason: string }> {
  return await new Promise((resolve) => {
    socket.on("error", () => {});
    socket.once("close", (code, reason) => {
      resolve({ code, reason: reason.toString() });
    });
  });
}
