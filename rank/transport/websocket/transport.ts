/** WebSocket links between real processes, over TCP or Unix-domain sockets. */
import { rmSync } from "node:fs";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { deferred, ignore, withDeadline } from "../../../shared/async.ts";
import { SOCKET_PATH_BYTES_MAX } from "../../../shared/constants.ts";
import { RankwiseError } from "../../../shared/errors.ts";
import { fingerprint, type FrameHeader, frameHeader, FrameKind } from "../../../shared/frame.ts";
import type { Counters } from "../../../shared/messages.ts";
import type { WebSocket } from "ws";
import { defaultLimits, type Limits } from "../../limits.ts";
import type { FrameSink, Payload, Transport } from "../transport.ts";
import { type LinkIdentity, type ListenAt, Listener } from "./listener.ts";
import { dial, type ReceivePath } from "./receiver.ts";
import { LinkSender, Turn } from "./sender.ts";

/** Where a rank listens, and under which name others reach it. */
export interface WebSocketOptions {
  readonly identity: LinkIdentity;
  /** TCP: the address to bind and the one to advertise. Unix: the private directory that holds the sockets. */
  readonly listen: { readonly bind: string; readonly advertise: string } | { readonly directory: string };
  readonly joinTimeoutMs: number;
  readonly counters: Counters;
  readonly limits?: Limits;
  /** Told of each link to a peer, for faults. */
  readonly onLink?: (peer: number, socket: Duplex) => void;
  /** Default: direct. */
  readonly receive?: ReceivePath;
}

export class WebSocketTransport implements Transport {
  readonly #options: WebSocketOptions;
  readonly #sink: FrameSink;
  readonly #listener: Listener;
  readonly #turn = new Turn();
  readonly #senders = new Map<number, LinkSender>();
  readonly #receivers = new Map<number, WebSocket>();
  readonly #allDialled = deferred<void>();
  #address = "";
  #socketPath: string | undefined;
  #closed = false;

  private constructor(options: WebSocketOptions, sink: FrameSink) {
    this.#options = options;
    this.#sink = {
      receive: (peer, header, payload) => {
        sink.receive(peer, header, payload);
      },
      place: (peer, header) => sink.place?.(peer, header),
      lost: (peer, error) => {
        if (!this.#closed) sink.lost(peer, error);
      },
      client: (connection) => sink.client(connection),
    };
    // a Unix socket in a private folder needs no TLS
    const { tls, ...plain } = options.identity;
    const identity = "directory" in options.listen ? plain : { ...plain, tls };
    this.#listener = new Listener(identity, this.#sink, {
      peerJoined: (rank, socket, link) => {
        options.onLink?.(rank, socket);
        link.once("close", () => {
          this.#sink.lost(
            rank,
            new RankwiseError("ERR_PEER_LOST", `the link to rank ${rank} closed without a goodbye`, { peer: rank }),
          );
        });
        const sender = new LinkSender(socket, rank, options.counters, options.limits ?? defaultLimits, this.#turn);
        // the welcome is the link's own, outside of the serials
        void sender.send(frameHeader({ kind: FrameKind.Welcome }), undefined, true);
        this.#senders.set(rank, sender);
        this.#noteDialled();
      },
    });
    this.#noteDialled();
  }

  /** Listens; the address is known when it resolves. @throws {ERR_PORT_IN_USE | ERR_INVALID_ARGUMENT} */
  static async open(options: WebSocketOptions, sink: FrameSink): Promise<WebSocketTransport> {
    const transport = new WebSocketTransport(options, sink);
    await transport.#listen();
    return transport;
  }

  get address(): string {
    return this.#address;
  }

  async connect(addresses: readonly string[]): Promise<void> {
    const { identity, joinTimeoutMs, receive = "direct" } = this.#options;
    const deadline = performance.now() + joinTimeoutMs;
    const dials = addresses.map(async (address, peer) => {
      if (peer !== identity.rank)
        this.#receivers.set(peer, await dial(peer, address, identity, this.#sink, deadline, receive));
    });
    await withDeadline(Promise.all([...dials, this.#allDialled.promise]), joinTimeoutMs, () => {
      const missing = addresses
        .map((_, peer) => peer)
        .filter((peer) => peer !== identity.rank && !this.#senders.has(peer));
      return new RankwiseError(
        "ERR_JOIN_TIMEOUT",
        `rank ${identity.rank}: links still missing after ${joinTimeoutMs} ms: ranks ${missing.join(", ") || "that did not answer"}`,
        { rank: identity.rank, missing },
      );
    });
  }

  send(peer: number, header: FrameHeader, payload: Payload | undefined, exempt: boolean): Promise<void> | undefined {
    const sender = this.#senders.get(peer);
    if (sender === undefined) throw new RankwiseError("ERR_INTERNAL", `no link to rank ${peer}`);
    return sender.send(header, payload, exempt);
  }

  moved(peer: number): number {
    // `ws` has no word for it
    const link = this.#receivers.get(peer) as { readonly _socket?: Socket | null } | undefined;
    return (link?._socket?.bytesRead ?? 0) + (this.#senders.get(peer)?.moved ?? 0);
  }

  /** Removes the socket's file: everybody who has to find it has. */
  unlink(): void {
    if (this.#socketPath !== undefined) rmSync(this.#socketPath, { force: true });
    this.#socketPath = undefined;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const link of this.#receivers.values()) link.terminate();
    this.unlink();
    await this.#listener.close().catch(ignore);
  }

  async #listen(): Promise<void> {
    const { listen, identity } = this.#options;
    const at: ListenAt =
      "directory" in listen ? { path: socketPath(listen.directory, identity) } : { host: listen.bind, port: 0 };
    const port = await this.#listener.listen(at);
    if ("path" in at) {
      this.#socketPath = at.path;
      this.#address = `unix:${at.path}`;
    } else if ("advertise" in listen) {
      const host = listen.advertise.includes(":") ? `[${listen.advertise}]` : listen.advertise;
      this.#address = `${identity.tls === undefined ? "ws" : "wss"}://${host}:${port}`;
    }
  }

  #noteDialled(): void {
    if (this.#senders.size === this.#options.identity.nranks - 1) this.#allDialled.resolve();
  }
}

function socketPath(directory: string, { job, rank, epoch }: LinkIdentity): string {
  const path = `${directory}/${fingerprint(job).toString(36)}-${epoch}-${rank}`;
  if (Buffer.byteLength(path) > SOCKET_PATH_BYTES_MAX) {
    throw new RankwiseError(
      "ERR_LIMIT",
      `socket path ${path} has ${Buffer.byteLength(path)} bytes, above SOCKET_PATH_BYTES_MAX ${SOCKET_PATH_BYTES_MAX}; set RANKWISE_SOCKET_DIR or TMPDIR to a shorter folder`,
    );
  }
  return path;
}
