import fc from "fast-check";
import { expect, test } from "vitest";
import { FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES_MAX } from "../../shared/constants.ts";
import { RankwiseError } from "../../shared/errors.ts";
import { decodeHeader, encodeHeader, FrameFlag, type FrameHeader, FrameKind } from "../../shared/frame.ts";

/** Every flag at once. */
const FLAGS_MAX = Object.values(FrameFlag).reduce<number>((all, flag) => all | flag, 0);

const u8 = fc.nat(2 ** 8 - 1);
const u16 = fc.nat(2 ** 16 - 1);
const u32 = fc.integer({ min: 0, max: 2 ** 32 - 1 });

const header: fc.Arbitrary<FrameHeader> = fc.record({
  kind: fc.constantFrom(...Object.values(FrameKind)),
  flags: fc.nat(FLAGS_MAX),
  lane: u16,
  serial: u32,
  ack: u32,
  group: u32,
  seq: u32,
  round: u16,
  dtype: u8,
  fingerprint: u32,
  window: u32,
  signal: u32,
  offset: fc.maxSafeNat(),
  rowBytes: fc.nat(64),
  rows: fc.nat(64),
  strideBytes: u32,
  cell: u32,
  value: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
});

function encode(fields: FrameHeader, payloadBytes: number): Uint8Array {
  const bytes = new Uint8Array(FRAME_HEADER_BYTES + payloadBytes);
  encodeHeader(fields, new DataView(bytes.buffer), 0);
  return bytes;
}

const carriesRegion = (kind: number): boolean =>
  kind === FrameKind.Put || kind === FrameKind.GetReply || kind === FrameKind.Stage;

test("every header comes back as it was, field by field", () => {
  fc.assert(
    fc.property(header, (fields) => {
      const payloadBytes = carriesRegion(fields.kind) ? fields.rows * fields.rowBytes : 0;
      expect(decodeHeader(encode(fields, payloadBytes))).toEqual(fields);
    }),
    { numRuns: 1000 },
  );
});

test("a payload that differs in length from its region is refused", () => {
  fc.assert(
    fc.property(header, fc.nat(5000), (fields, payloadBytes) => {
      const due = carriesRegion(fields.kind) ? fields.rows * fields.rowBytes : 0;
      fc.pre(fields.kind !== FrameKind.Publish && payloadBytes !== due);
      expect(() => decodeHeader(encode(fields, payloadBytes))).toThrow(
        expect.objectContaining({
          code: "ERR_BAD_FRAME",
          message: `frame: ${payloadBytes} bytes of payload where the header announces ${due}`,
        }),
      );
    }),
  );
});

/** Bytes of a frame: at random, or a good header with some of its bytes changed. */
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 200 }),
  fc
    .record({ fields: header, changes: fc.array(fc.tuple(fc.nat(FRAME_HEADER_BYTES - 1), u8), { maxLength: 4 }) })
    .map(({ fields, changes }) => {
      const frame = encode(fields, carriesRegion(fields.kind) ? fields.rows * fields.rowBytes : 0);
      for (const [at, value] of changes) frame[at] = value;
      return frame;
    }),
);

test("arbitrary bytes decode to something sane or are refused as ERR_BAD_FRAME", () => {
  let decoded = 0;
  fc.assert(
    fc.property(bytes, (frame) => {
      let fields: FrameHeader;
      try {
        fields = decodeHeader(frame);
      } catch (error) {
        expect(error).toBeInstanceOf(RankwiseError);
        expect((error as RankwiseError).code).toBe("ERR_BAD_FRAME");
        return;
      }
      decoded += 1;
      expect(Object.values(FrameKind)).toContain(fields.kind);
      expect(fields.flags).toBeLessThanOrEqual(FLAGS_MAX);
      expect(Number.isSafeInteger(fields.offset) && fields.offset >= 0).toBe(true);
      expect(fields.rows * fields.rowBytes).toBeLessThanOrEqual(FRAME_PAYLOAD_BYTES_MAX);
    }),
    { numRuns: 2000 },
  );
  // the generator is worth nothing if it only makes rubbish
  expect(decoded).toBeGreaterThan(100);
});
