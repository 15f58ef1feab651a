import * as ws from "ws";
import { describe, expect, it } from "vitest";
import { frameHead } from "../../../../../rank/transport/websocket/wire.ts";
import { FRAME_HEADER_BYTES } from "../../../../../shared/constants.ts";
import { decodeHeader, frameHeader, FrameKind } from "../../../../../shared/frame.ts";

interface ReceiverLike {
  on(event: "message", listener: (data: Buffer, isBinary: boolean) => void): void;
  on(event: "error", listener: (error: Error) => void): void;
  write(bytes: Uint8Array): void;
}

/** The messages that ws's own parser, as a client, finds in bytes. */
function parse(bytes: Uint8Array): Buffer[] {
  // exported by ws, missing in its types
  const { Receiver } = ws as unknown as { Receiver: new (options: object) => ReceiverLike };
  const receiver = new Receiver({ isServer: false, binaryType: "nodebuffer", allowSynchronousEvents: true });
  const messages: Buffer[] = [];
  receiver.on("message", (data, isBinary) => {
    expect(isBinary).toBe(true);
    messages.push(Buffer.from(data));
  });
  receiver.on("error", (error) => {
    throw error;
  });
  receiver.write(bytes);
  return messages;
}

/** A put of so many bytes, with its payload behind the head or inside of it. */
function frame(payloadBytes: number, inline: boolean): { bytes: Buffer; payload: Buffer } {
  const payload = Buffer.alloc(payloadBytes, 0xab);
  const header = frameHeader({ kind: FrameKind.Put, rows: 1, rowBytes: payloadBytes, serial: 77 });
  const head = frameHead(header, payloadBytes, inline ? payload : undefined);
  return { bytes: inline ? head : Buffer.concat([head, payload]), payload };
}

describe("frameHead", () => {
  // WebSocket lengths change their form at 126 and at 65536 bytes of message: header and payload together
  const borders = [125, 126, 127, 65_535, 65_536, 65_537].map((message) => message - FRAME_HEADER_BYTES);

  it.each([0, 1, ...borders, 1_000_000])("of %i bytes of payload is one message to ws", (payloadBytes) => {
    for (const inline of [true, false]) {
      const { bytes, payload } = frame(payloadBytes, inline);
      const messages = parse(bytes);
      expect(messages).toHaveLength(1);
      const [message] = messages;
      expect(decodeHeader(message!)).toMatchObject({ kind: FrameKind.Put, rowBytes: payloadBytes, serial: 77 });
      expect(message!.subarray(FRAME_HEADER_BYTES).equals(payload)).toBe(true);
    }
  });

  it("frames behind each other stay apart", () => {
    const bytes = Buffer.concat([10, 70, 70_000, 0].map((length) => frame(length, true).bytes));
    expect(parse(bytes).map((message) => decodeHeader(message).rowBytes)).toEqual([10, 70, 70_000, 0]);
  });

  // RFC 6455, section 5.1: a server must not mask
  it("is final, binary and unmasked", () => {
    for (const payloadBytes of [0, 100, 70_000]) {
      const { bytes } = frame(payloadBytes, true);
      expect(bytes[0]).toBe(0x82);
      expect(bytes[1]! & 0x80).toBe(0);
    }
  });

  it("without payload holds the header alone", () => {
    expect(frameHead(frameHeader({ kind: FrameKind.Ack }), 0, undefined)).toHaveLength(2 + FRAME_HEADER_BYTES);
  });
});
