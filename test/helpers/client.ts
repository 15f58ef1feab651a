/** An ordinary WebSocket client of a rank: stock `ws`, masked frames, no part in the group. */
import { type RawData, WebSocket } from "ws";
import { encodeHello } from "../../shared/codec.ts";
import { FRAME_HEADER_BYTES, PROTOCOL_VERSION } from "../../shared/constants.ts";
import { decodeHeader, encodeHeader, type FrameHeader, FrameKind, frameHeader } from "../../shared/frame.ts";

/** How a connection was closed, and why. */
export interface Closing {
  readonly code: number;
  readonly reason: string;
}

/** A connected client. */
export class ForeignClient {
  /** Resolves when the connection has been closed, by either side. */
  readonly closed: Promise<Closing>;
  readonly #socket: WebSocket;
  readonly #acks: ((ack: number) => void)[] = [];

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    this.closed = new Promise((resolve) => {
      socket.on("close", (code, reason) => {
        resolve({ code, reason: reason.toString() });
      });
    });
    socket.on("message", (data: RawData) => {
      const header = decodeHeader(data as Buffer);
      if (header.kind === FrameKind.Ack) this.#acks.shift()?.(header.ack);
    });
  }

  /** Connects to a rank's address and says hello as a client of the job. */
  static async open(
    address: string,
    options: { token: string; job: string; version?: number },
  ): Promise<ForeignClient> {
    const { token, job, version = PROTOCOL_VERSION } = options;
    const socket = new WebSocket(`${address}/link`, { headers: { authorization: `Bearer ${token}` } });
    const client = new ForeignClient(socket);
    await new Promise<void>((resolve, reject) => {
      socket.once("open", resolve);
      socket.once("error", reject);
    });
    socket.on("error", () => undefined); // the close event follows
    socket.send(encodeHello({ version, job, role: "client" }));
    return client;
  }

  /** Sends one frame: header and payload in one message. */
  send(fields: Partial<FrameHeader> & { kind: FrameKind }, payload: Uint8Array = new Uint8Array(0)): void {
    const bytes = new Uint8Array(FRAME_HEADER_BYTES + payload.byteLength);
    encodeHeader(frameHeader(fields), new DataView(bytes.buffer), 0);
    bytes.set(payload, FRAME_HEADER_BYTES);
    this.#socket.send(bytes);
  }

  /** Sends a message as it is. */
  sendRaw(message: string | Uint8Array): void {
    this.#socket.send(message);
  }

  /** Asks for an acknowledgement; resolves with the number of frames that have been applied. */
  fence(): Promise<number> {
    this.send({ kind: FrameKind.Fence });
    return new Promise((resolve, reject) => {
      this.#acks.push(resolve);
      void this.closed.then(({ code, reason }) => {
        reject(new Error(`closed before its acknowledgement: ${code} ${reason}`));
      });
    });
  }

  /** Breaks off without a word. */
  terminate(): void {
    this.#socket.terminate();
  }

  /** Closes properly. */
  async close(): Promise<void> {
    this.#socket.close();
    await this.closed;
  }
}

/** The HTTP status by which an upgrade is refused; fails when it is not. */
export function refusedUpgrade(address: string, headers: Readonly<Record<string, string>>): Promise<number> {
  const socket = new WebSocket(address, { headers });
  return new Promise((resolve, reject) => {
    socket.on("error", reject);
    socket.on("open", () => {
      socket.terminate();
      reject(new Error(`${address} accepted an upgrade that it had to refuse`));
    });
    socket.on("unexpected-response", (request, response) => {
      request.destroy();
      resolve(response.statusCode ?? Number.NaN);
    });
  });
}
