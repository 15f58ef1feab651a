import { describe, expect, it } from "vitest";
import { FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES_MAX } from "../../../shared/constants.ts";
import {
  decodeHeader,
  encodeHeader,
  fingerprint,
  FrameFlag,
  type FrameHeader,
  frameHeader,
  FrameKind,
  frameKindName,
} from "../../../shared/frame.ts";

/** A frame as bytes, with as much payload as the header announces, or with `payloadBytes`. */
function frame(fields: Partial<FrameHeader> & { kind: FrameKind }, payloadBytes?: number): Uint8Array {
  const header = frameHeader(fields);
  const carries = ([FrameKind.Put, FrameKind.GetReply, FrameKind.Stage] as FrameKind[]).includes(header.kind);
  const bytes = new Uint8Array(FRAME_HEADER_BYTES + (payloadBytes ?? (carries ? header.rows * header.rowBytes : 0)));
  encodeHeader(header, new DataView(bytes.buffer), 0);
  return bytes;
}

const full: FrameHeader = {
  kind: FrameKind.Notify,
  flags: FrameFlag.Signal | FrameFlag.SignalAdd,
  lane: 0x0102,
  serial: 0x03040506,
  ack: 0x0708090a,
  group: 0x0b0c0d0e,
  seq: 0x0f101112,
  round: 0x1314,
  dtype: 0x15,
  fingerprint: 0x17181920,
  window: 0x21222324,
  signal: 0x25262728,
  offset: 4096,
  rowBytes: 3,
  rows: 2,
  strideBytes: 0x292a2b2c,
  cell: 0x2d2e2f30,
  value: -2,
};

describe("layout", () => {
  // golden bytes: the layout is the protocol, and other implementations read it
  it("is the documented one, little-endian", () => {
    expect(Buffer.from(frame(full)).toString("hex").match(/.{8}/gu)).toEqual([
      "05030201", // kind, flags, lane
      "06050403", // serial
      "0a090807", // ack
      "0e0d0c0b", // group
      "1211100f", // seq
      "14131500", // round, dtype, 0
      "20191817", // fingerprint
      "24232221", // window
      "28272625", // signal
      "00000000", // offset, float64
      "0000b040",
      "03000000", // rowBytes
      "02000000", // rows
      "2c2b2a29", // strideBytes
      "302f2e2d", // cell
      "feffffff", // value
    ]);
  });

  it("is read back from any place of a buffer", () => {
    const inside = new Uint8Array(FRAME_HEADER_BYTES + 7);
    inside.set(frame(full), 7);
    expect(decodeHeader(inside.subarray(7))).toEqual(full);
  });

  it("is written where it is asked to be, over what stood there", () => {
    const bytes = new Uint8Array(FRAME_HEADER_BYTES + 2).fill(0xff);
    encodeHeader(full, new DataView(bytes.buffer), 1);
    expect([bytes[0], bytes.at(-1)]).toEqual([0xff, 0xff]);
    expect(decodeHeader(bytes.subarray(1, -1))).toEqual(full);
  });
});

describe("frameHeader", () => {
  it("fills every other field with 0", () => {
    const { kind, ...rest } = frameHeader({ kind: FrameKind.Fence });
    expect(kind).toBe(FrameKind.Fence);
    expect(Object.keys(rest)).toHaveLength(Object.keys(full).length - 1);
    expect(new Set(Object.values(rest))).toEqual(new Set([0]));
  });
});

describe("decodeHeader", () => {
  const region = { rows: 3, rowBytes: 5, strideBytes: 8 };

  it.each(Object.entries(FrameKind))("takes a %s", (_, kind) => {
    expect(decodeHeader(frame({ kind, ...region }))).toMatchObject({ kind, ...region });
  });

  it("takes a publish with a payload of any length", () => {
    expect(decodeHeader(frame({ kind: FrameKind.Publish }, 33)).kind).toBe(FrameKind.Publish);
  });

  it("takes a put of exactly FRAME_PAYLOAD_BYTES_MAX, and a get of as much without carrying it", () => {
    const rowBytes = FRAME_PAYLOAD_BYTES_MAX / 2;
    expect(decodeHeader(frame({ kind: FrameKind.Put, rows: 2, rowBytes })).rows).toBe(2);
    expect(decodeHeader(frame({ kind: FrameKind.Get, rows: 2, rowBytes })).rows).toBe(2);
  });

  it.each([
    ["kind 0", { kind: 0 as FrameKind }, 0, "frame: kind 0 is unknown"],
    ["kind 255", { kind: 255 as FrameKind }, 0, "frame: kind 255 is unknown"],
    ["a flag that does not exist", { kind: FrameKind.Put, flags: 128 }, 0, "frame: flags 128 are unknown"],
    ["a negative offset", { kind: FrameKind.Put, offset: -1 }, 0, "frame: offset -1 is no byte offset"],
    ["half an offset", { kind: FrameKind.Put, offset: 0.5 }, 0, "frame: offset 0.5 is no byte offset"],
    ["offset NaN", { kind: FrameKind.Put, offset: Number.NaN }, 0, "frame: offset NaN is no byte offset"],
    ["offset 2^53", { kind: FrameKind.Put, offset: 2 ** 53 }, 0, `frame: offset ${2 ** 53} is no byte offset`],
    [
      "a put with too little",
      { kind: FrameKind.Put, ...region },
      14,
      "frame: 14 bytes of payload where the header announces 15",
    ],
    [
      "a put with too much",
      { kind: FrameKind.Put, ...region },
      16,
      "frame: 16 bytes of payload where the header announces 15",
    ],
    [
      "a reply with nothing",
      { kind: FrameKind.GetReply, ...region },
      0,
      "frame: 0 bytes of payload where the header announces 15",
    ],
    [
      "a get with payload",
      { kind: FrameKind.Get, ...region },
      15,
      "frame: 15 bytes of payload where the header announces 0",
    ],
    ["a notify with payload", { kind: FrameKind.Notify }, 1, "frame: 1 bytes of payload where the header announces 0"],
    [
      "a region above the limit",
      { kind: FrameKind.Get, rows: 1, rowBytes: FRAME_PAYLOAD_BYTES_MAX + 1 },
      0,
      `frame: 1 rows of ${FRAME_PAYLOAD_BYTES_MAX + 1} bytes exceed FRAME_PAYLOAD_BYTES_MAX`,
    ],
    [
      "a region whose size wraps at 2^64",
      { kind: FrameKind.Get, rows: 2 ** 32 - 1, rowBytes: 2 ** 32 - 1 },
      0,
      `frame: ${2 ** 32 - 1} rows of ${2 ** 32 - 1} bytes exceed FRAME_PAYLOAD_BYTES_MAX`,
    ],
  ])("refuses %s", (_, fields, payloadBytes, message) => {
    expect(() => decodeHeader(frame(fields, payloadBytes))).toThrow(
      expect.objectContaining({ code: "ERR_BAD_FRAME", message }),
    );
  });

  it("refuses everything shorter than a header", () => {
    for (const bytes of [0, 1, FRAME_HEADER_BYTES - 1]) {
      expect(() => decodeHeader(frame({ kind: FrameKind.Ack }).subarray(0, bytes))).toThrow(
        expect.objectContaining({
          code: "ERR_BAD_FRAME",
          message: `frame: ${bytes} bytes are shorter than the header of 64`,
        }),
      );
    }
  });
});

describe("frameKindName", () => {
  it("is the canonical name", () => {
    expect(Object.values(FrameKind).map(frameKindName)).toEqual(
      "welcome put get get_reply notify fence ack publish free checked goodbye stage".split(" "),
    );
    expect(frameKindName(99 as FrameKind)).toBe("kind 99");
  });
});

describe("fingerprint", () => {
  // published FNV-1a test vectors: ranks of different builds must agree on the hash
  it.each([
    ["", 0x811c9dc5],
    ["a", 0xe40c292c],
    ["foobar", 0xbf9cf968],
  ])("of %o is FNV-1a's, its highest bit folded into its lowest", (text, hash) => {
    expect(fingerprint(text)).toBe((hash & 0x7fffffff) ^ (hash >>> 31));
  });

  it("hashes UTF-8, and tells lists from each other", () => {
    expect(fingerprint("é")).not.toBe(fingerprint("e"));
    expect(fingerprint("0,1#1")).not.toBe(fingerprint("0,1#2"));
  });
});
