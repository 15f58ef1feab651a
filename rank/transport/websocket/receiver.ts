/**
 * The receiving end of one link: this rank dials the peer, says hello, and then reads frames, on one of two paths.
 *
 * On the reference path stock `ws` reads whole messages. On the direct path `ws` does the handshake, and then the
 * kernel reads payloads straight into window memory.
 */
import { type RawData, WebSocket } from "ws";
import { delay } from "../../../shared/async.ts";
import { bearer } from "../../../shared/auth.ts";
import { encodeHello } from "../../../shared/codec.ts";
import { FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES_MAX, PROTOCOL_VERSION } from "../../../shared/constants.ts";
import { RankwiseError } from "../../../shared/errors.ts";
import { decodeHeader, type FrameHeader, FrameKind } from "../../../shared/frame.ts";
import type { FrameSink } from "../transport.ts";
import { openDirect } from "./direct-socket.ts";
import { bytesOf, linkFault } from "./fault.ts";
import type { LinkIdentity } from "./listener.ts";

/** How a link's frames are read. */
export type ReceivePath = "reference" | "direct";

/** Pause before a peer that could not be reached is dialled again. */
const REDIAL_MS = 100;

/**
 * Dials a peer until it answers or the deadline passes; resolves with the open link once the peer has welcomed us.
 *
 * @throws {ERR_PEER_LOST} when the deadline passes, or the peer refuses with its reason.
 */
export async function dial(
  peer: number,
  address: string,
  identity: LinkIdentity,
  sink: FrameSink,
  deadline: number,
  path: ReceivePath,
): Promise<WebSocket> {
  for (;;) {
    try {
      return await dialOnce(peer, address, identity, sink, path);
    } catch (error) {
      const retry = error instanceof Error && isUnreachable(error) && performance.now() < deadline;
      if (!retry) throw error;
      await delay(REDIAL_MS);
    }
  }
}

function dialOnce(
  peer: number,
  address: string,
  identity: LinkIdentity,
  sink: FrameSink,
  path: ReceivePath,
): Promise<WebSocket> {
  const { rank, job, epoch, token, tls } = identity;
  let welcomed: ((link: WebSocket) => void) | undefined;
  let fault: RankwiseError | undefined;
  const receive = (header: FrameHeader, payload: Uint8Array): void => {
    if (welcomed === undefined) {
      sink.receive(peer, header, payload);
      return;
    }
    if (header.kind !== FrameKind.Welcome) {
      throw new RankwiseError("ERR_BAD_FRAME", "the first frame of a link must be its welcome");
    }
    welcomed(link);
    welcomed = undefined;
  };
  /** A frame that cannot be decoded is its sender's fault; anything else that is thrown here is ours. */
  const guarded = (read: () => void): void => {
    if (fault !== undefined) return;
    try {
      read();
    } catch (error) {
      fault =
        error instanceof RankwiseError ? error : new RankwiseError("ERR_INTERNAL", String(error), { peer }, error);
      link.terminate();
    }
  };
  const direct = path === "direct" ? openDirect(address, tls?.ca, peer, sink, receive, guarded) : undefined;
  const link = new WebSocket(linkUrl(address), {
    headers: { authorization: bearer(token) },
    perMessageDeflate: false,
    ...(tls === undefined ? {} : { ca: tls.ca }),
    maxPayload: FRAME_HEADER_BYTES + FRAME_PAYLOAD_BYTES_MAX,
    ...(direct === undefined ? {} : { createConnection: direct.connect }),
  });
  link.on("open", () => {
    guarded(() => direct?.takeOver());
    link.send(encodeHello({ version: PROTOCOL_VERSION, role: "peer", job, epoch, rank }));
  });
  link.on("message", (data: RawData, isBinary: boolean) => {
    guarded(() => {
      if (!isBinary) throw new RankwiseError("ERR_BAD_FRAME", "text message where a frame was due");
      const bytes = bytesOf(data);
      receive(decodeHeader(bytes), bytes.subarray(FRAME_HEADER_BYTES));
    });
  });
  link.on("error", (error) => {
    fault ??= linkFault(error);
  });
  return new Promise((resolve, reject) => {
    welcomed = resolve;
    link.on("close", (code, reason) => {
      const text = reason.byteLength > 0 ? reason.toString() : `close code ${code}`;
      const error =
        fault ??
        new RankwiseError("ERR_PEER_LOST", `the link from rank ${peer} closed without a goodbye (${text})`, { peer });
      if (welcomed === undefined) sink.lost(peer, nameLink(error, peer));
      else reject(nameLink(error, peer));
    });
  });
}

function nameLink(error: RankwiseError, peer: number): RankwiseError {
  if (error.context.peer === peer) return error;
  return new RankwiseError(
    error.code,
    `link from rank ${peer}: ${error.message}`,
    { ...error.context, peer },
    error.cause,
  );
}

function linkUrl(address: string): string {
  return address.startsWith("unix:") ? `ws+unix:${address.slice("unix:".length)}:/link` : `${address}/link`;
}

function isUnreachable(error: Error): boolean {
  const cause = error.cause instanceof Error ? error.cause : error;
  const code = "code" in cause ? String(cause.code) : "";
  return ["ECONNREFUSED", "ENOENT", "ENOTFOUND", "EAI_AGAIN", "ECONNRESET", "EHOSTUNREACH", "ETIMEDOUT"].includes(code);
}
