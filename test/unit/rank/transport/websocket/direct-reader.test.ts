import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DirectReader } from "../../../../../rank/transport/websocket/direct-reader.ts";
import { frameHead } from "../../../../../rank/transport/websocket/wire.ts";
import { RankwiseError } from "../../../../../shared/errors.ts";
import { frameHeader, type FrameHeader, FrameKind } from "../../../../../shared/frame.ts";

/** Feeds bytes as a socket does: into what the reader asks for, in pieces of the given sizes. */
function feed(reader: DirectReader, bytes: Uint8Array, sizes: readonly number[]): void {
  let at = 0;
  for (let turn = 0; at < bytes.byteLength; turn++) {
    const room = reader.buffer();
    const size = Math.min(sizes[turn % sizes.length] ?? 1, room.byteLength, bytes.byteLength - at);
    room.set(bytes.subarray(at, at + size));
    at += size;
    reader.read(size);
  }
}

interface Seen {
  readonly serial: number;
  readonly payload: string;
}

/** A reader that notes what it finds; every other large payload is placed in memory of the test's. */
function recorder(): { reader: DirectReader; seen: Seen[]; controls: string[]; placed: Uint8Array[] } {
  const seen: Seen[] = [];
  const controls: string[] = [];
  const placed: Uint8Array[] = [];
  const reader = new DirectReader({
    frame: (header, payload) => {
      const memory = placed.find((place) => place === payload);
      seen.push({ serial: header.serial, payload: Buffer.from(memory ?? payload).toString("hex") });
    },
    place: (header) => {
      if (header.serial % 2 === 0) return undefined;
      const memory = new Uint8Array(header.rowBytes);
      placed.push(memory);
      return memory;
    },
    control: (frame) => controls.push(Buffer.from(frame).toString("hex")),
  });
  return { reader, seen, controls, placed };
}

function put(serial: number, payload: Uint8Array): Buffer {
  const header = frameHeader({ kind: FrameKind.Put, serial, rows: 1, rowBytes: payload.byteLength });
  return frameHead(header, payload.byteLength, payload);
}

describe("DirectReader", () => {
  it("finds the same frames however the bytes are cut, with control frames between them", () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.constantFrom(0, 1, 61, 62, 8192, 70_000), fc.nat(300)), { maxLength: 8 }),
        fc.array(fc.integer({ min: 1, max: 20_000 }), { minLength: 1, maxLength: 5 }),
        (lengths, sizes) => {
          const payloads = lengths.map((length, index) => new Uint8Array(length).map((_, i) => i * 7 + index));
          const ping = Buffer.of(0x89, 2, 1, 2);
          const stream = Buffer.concat(payloads.flatMap((payload, index) => [put(index + 1, payload), ping]));
          const { reader, seen, controls } = recorder();
          feed(reader, stream, sizes);
          expect(seen).toEqual(
            payloads.map((payload, index) => ({ serial: index + 1, payload: Buffer.from(payload).toString("hex") })),
          );
          expect(controls).toEqual(payloads.map(() => ping.toString("hex")));
        },
      ),
      { numRuns: 200 },
    );
  });

  it("reads the rest of a large payload straight into the memory it was given", () => {
    const { reader, placed } = recorder();
    const bytes = put(1, new Uint8Array(50_000).fill(9));
    feed(reader, bytes.subarray(0, 1000), [1000]);
    const [memory] = placed;
    expect(reader.buffer().buffer).toBe(memory?.buffer);
    expect(reader.buffer().byteLength).toBe(bytes.byteLength - 1000);
  });

  it.each([
    ["a masked frame", [0x82, 0xff], "ERR_BAD_FRAME"],
    ["reserved bits", [0xc2, 0x40], "ERR_BAD_FRAME"],
    ["a text message", [0x81, 0x05], "ERR_BAD_FRAME"],
    ["a first fragment", [0x02, 0x40], "ERR_BAD_FRAME"],
    ["a continuation", [0x80, 0x40], "ERR_BAD_FRAME"],
    ["an unknown opcode", [0x83, 0x40], "ERR_BAD_FRAME"],
    ["a long control frame", [0x89, 126], "ERR_BAD_FRAME"],
    ["a message shorter than a header", [0x82, 63], "ERR_BAD_FRAME"],
    ["a frame above the limit", [0x82, 127, 0, 0, 0, 0, 0x10, 0, 0, 0], "ERR_FRAME_TOO_LARGE"],
    ["an absurd length", [0x82, 127, 255, 255, 255, 255, 255, 255, 255, 255], "ERR_FRAME_TOO_LARGE"],
  ])("refuses %s as soon as its first bytes are there", (_, bytes, code) => {
    const { reader } = recorder();
    expect(() => {
      feed(reader, Uint8Array.from(bytes), [bytes.length]);
    }).toThrow(expect.objectContaining({ code }));
  });

  it("meets arbitrary bytes with frames or a coded error, and nothing else", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.integer({ min: 1, max: 64 }), (bytes, size) => {
        const headers: FrameHeader[] = [];
        const reader = new DirectReader({
          frame: (header) => headers.push(header),
          place: () => undefined,
          control: () => undefined,
        });
        try {
          feed(reader, bytes, [size]);
        } catch (error) {
          expect(error).toBeInstanceOf(RankwiseError);
        }
      }),
      { numRuns: 1000 },
    );
  });
});
