/** The socket of a link on the direct path: `ws` speaks the handshake over it, then the link reads it by itself. */
import { connect, isIP, type OnReadOpts, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { RankwiseError } from "../../../shared/errors.ts";
import type { FrameHeader } from "../../../shared/frame.ts";
import type { FrameSink } from "../transport.ts";
import { DirectReader } from "./direct-reader.ts";

/** Room for one read of the handshake. */
const HANDSHAKE_BYTES = 16_384;

/** A socket whose reading can be taken over. */
export interface DirectSocket {
  /** `createConnection` for `ws`. */
  readonly connect: () => Socket;
  /** From here on, bytes are frames. @throws {ERR_BAD_FRAME} when bytes came along with the upgrade response. */
  readonly takeOver: () => void;
}

/**
 * Opens the socket of a link to `address`, with the read buffer in our hands (`onread`).
 *
 * Over TLS what is given to `onread` has been decrypted. Until `takeOver`, what is read is pushed to the stream, where `ws` finds it. Memory that `onread` was given belongs
 * to the kernel until the read returns.
 */
export function openDirect(
  address: string,
  ca: Buffer | undefined,
  peer: number,
  sink: FrameSink,
  receive: (header: FrameHeader, payload: Uint8Array) => void,
  guarded: (read: () => void) => void,
): DirectSocket {
  let socket: Socket | undefined;
  let ours = false;
  const handshake = Buffer.allocUnsafe(HANDSHAKE_BYTES);
  const reader = new DirectReader({
    frame: receive,
    place: (header) => sink.place?.(peer, header),
    control: (frame) => socket?.push(frame),
  });
  const onread = {
    buffer: () => (ours ? reader.buffer() : handshake),
    callback: (bytes: number): boolean => {
      if (ours) {
        guarded(() => {
          reader.read(bytes);
        });
      } else socket?.push(Buffer.from(handshake.subarray(0, bytes)));
      return true;
    },
  };
  return {
    connect: () => {
      socket = open(address, ca, onread);
      return socket;
    },
    takeOver: () => {
      // the server sends nothing before our hello, which is sent after this
      if (socket !== undefined && socket.readableLength > 0) {
        throw new RankwiseError("ERR_BAD_FRAME", "bytes came along with the upgrade response");
      }
      ours = true;
    },
  };
}

function open(address: string, ca: Buffer | undefined, onread: OnReadOpts): Socket {
  if (address.startsWith("unix:")) return connect({ path: address.slice("unix:".length), onread });
  const { protocol, hostname, port } = new URL(address);
  const host = hostname.replace(/^\[(.*)\]$/u, "$1");
  const to = { host, port: Number(port), onread };
  if (protocol !== "wss:") return connect(to);
  // an address is checked against the certificate's, a name also asked for (RFC 6066 takes no addresses there)
  return connectTls({ ...to, ...(ca === undefined ? {} : { ca }), ...(isIP(host) === 0 ? { servername: host } : {}) });
}
