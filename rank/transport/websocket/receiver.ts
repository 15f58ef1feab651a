/**
 * The receiving end of one link, on the reference path: this rank dials the peer, says hello, and then reads whole
 * frames through stock `ws`.
 */
import { type RawData, WebSocket } from "ws";
import { delay } from "../../../shared/async.ts";
import { bearer } from "../../../shared/auth.ts";
import { encodeHello } from "../../../shared/codec.ts";
import { FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES_MAX, PROTOCOL_VERSION } from "../../../shared/constants.ts";
import { RankwiseError } from "../../../shared/errors.ts";
import { decodeHeader, FrameKind } from "../../../shared/frame.ts";
import type { FrameSink } from "../transport.ts";
import { bytesOf, linkFault } from "./fault.ts";
import type { LinkIdentity } from "./listener.ts";

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
): Promise<WebSocket> {
  for (;;) {
    try {
      return await dialOnce(peer, address, identity, sink);
    } catch (error) {
      const retry = error instanceof Error && isUnreachable(error) && performance.now() < deadline;
      if (!retry) throw error;
      await delay(REDIAL_MS);
    }
  }
}

function dialOnce(peer: number, address: string, identity: LinkIdentity, sink: FrameSink): Promise<WebSocket> {
  const { rank, job, epoch, token } = identity;
  const link = new WebSocket(linkUrl(address), {
    headers: { authorization: bearer(token) },
    perMessageDeflate: false,
    maxPayload: FRAME_HEADER_BYTES + FRAME_PAYLOAD_BYTES_MAX,
  });
  let welcomed = false;
  let fault: RankwiseError | undefined;
  link.on("open", () => {
    link.send(encodeHello({ version: PROTOCOL_VERSION, role: "peer", job, epoch, rank }));
  });
  return new Promise((resolve, reject) => {
    link.on("message", (data: RawData, isBinary: boolean) => {
      if (fault !== undefined) return;
      try {
        if (!isBinary) throw new RankwiseError("ERR_BAD_FRAME", "text message where a frame was due");
        const bytes = bytesOf(data);
        const header = decodeHeader(bytes);
        if (welcomed) {
          sink.receive(peer, header, bytes.subarray(FRAME_HEADER_BYTES));
        } else {
          if (header.kind !== FrameKind.Welcome)
            throw new RankwiseError("ERR_BAD_FRAME", "the first frame of a link must be its welcome");
          welcomed = true;
          resolve(link);
        }
      } catch (error) {
        fault = linkFault(error);
        link.terminate();
      }
    });
    link.on("error", (error) => {
      fault ??= linkFault(error);
    });
    link.on("close", (code, reason) => {
      const text = reason.byteLength > 0 ? reason.toString() : `close code ${code}`;
      const error =
        fault ??
        new RankwiseError("ERR_PEER_LOST", `the link from rank ${peer} closed without a goodbye (${text})`, { peer });
      if (welcomed) sink.lost(peer, nameLink(error, peer));
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
