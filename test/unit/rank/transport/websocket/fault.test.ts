import { describe, expect, it } from "vitest";
import { bytesOf, closeReason, linkFault } from "../../../../../rank/transport/websocket/fault.ts";
import { RankwiseError } from "../../../../../shared/errors.ts";

const coded = (code: string): Error => Object.assign(new Error(`text of ${code}`), { code });

describe("linkFault", () => {
  it.each([
    ["WS_ERR_UNSUPPORTED_MESSAGE_LENGTH", "ERR_FRAME_TOO_LARGE"],
    ["WS_ERR_EXPECTED_MASK", "ERR_BAD_FRAME"],
    ["WS_ERR_INVALID_OPCODE", "ERR_BAD_FRAME"],
    ["ECONNRESET", "ERR_PEER_LOST"],
    ["", "ERR_PEER_LOST"],
  ])("takes %o as %s and keeps it as the cause", (code, expected) => {
    const error = coded(code);
    expect(linkFault(error)).toMatchObject({ code: expected, cause: error });
  });

  it("leaves our own errors, and takes whatever is thrown", () => {
    const own = new RankwiseError("ERR_FRAME_BOUNDS", "outside");
    expect(linkFault(own)).toBe(own);
    expect(linkFault("text")).toMatchObject({ code: "ERR_PEER_LOST", message: expect.stringContaining("'text'") });
  });
});

describe("closeReason", () => {
  it("is code and message", () => {
    expect(closeReason(new RankwiseError("ERR_BAD_HELLO", "no hello"))).toBe("ERR_BAD_HELLO: no hello");
  });

  // RFC 6455, section 5.5: a control frame has at most 125 bytes, two of them the close code
  it("is cut to 123 bytes", () => {
    for (const letter of ["a", "é", "→", "😀"]) {
      for (const lead of ["", "x", "xx", "xxx"]) {
        const reason = closeReason(new RankwiseError("ERR_BAD_HELLO", lead + letter.repeat(200)));
        expect(Buffer.byteLength(reason)).toBeLessThanOrEqual(123);
        expect(Buffer.byteLength(reason)).toBeGreaterThan(119);
      }
    }
  });
});

describe("bytesOf", () => {
  it("makes one piece of every form in which ws hands over a message", () => {
    for (const data of [
      Buffer.from([1, 2, 3]),
      Uint8Array.of(1, 2, 3).buffer,
      [Buffer.from([1]), Buffer.from([2, 3])],
    ]) {
      expect([...bytesOf(data)]).toEqual([1, 2, 3]);
    }
  });
});
