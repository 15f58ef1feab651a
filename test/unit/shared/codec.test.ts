import { Packr } from "msgpackr";
import { describe, expect, it } from "vitest";
import {
  decodeHello,
  decodeMessage,
  decodePublication,
  encodeHello,
  encodeMessage,
  encodePublication,
} from "../../../shared/codec.ts";
import { ALLOCATIONS_MAX, DIMENSIONS_MAX, NAME_LENGTH_MAX, RANKS_MAX } from "../../../shared/constants.ts";
import { RankwiseError, toWireError } from "../../../shared/errors.ts";
import type { LinkHello, Message, MessageType, Publication } from "../../../shared/messages.ts";
import { messageSchemas } from "../../../shared/messages.ts";
import { sampleMessages } from "../../helpers/messages.ts";

const types = Object.keys(messageSchemas) as MessageType[];

/** Packs what the schema forbids. */
const packr = new Packr({ useRecords: false, useBigIntExtension: true });
const pack = (value: unknown): Uint8Array => packr.pack(value);

const badMessage = (message: unknown): unknown => expect.objectContaining({ code: "ERR_BAD_MESSAGE", message });

/** A value of another type than `value`'s; a nullable field takes it as little as the others. */
function ofAnotherType(value: unknown): unknown {
  return typeof value === "object" && value !== null ? 7 : { no: "such thing" };
}

describe("control messages", () => {
  it.each(types)("%s crosses whole", (type) => {
    expect(decodeMessage(encodeMessage(sampleMessages[type]), types)).toEqual(sampleMessages[type]);
  });

  it.each(types)("%s with a field missing, or of a wrong type, is refused by the field's name", (type) => {
    const sample: Record<string, unknown> = { ...sampleMessages[type] };
    for (const field of Object.keys(sample).filter((name) => name !== "type")) {
      const { [field]: value, ...without } = sample;
      const named = badMessage(expect.stringMatching(new RegExp(`^control message ${type}: ${field}`, "u")));
      expect(() => decodeMessage(pack(without), [type]), `${field} missing`).toThrow(named);
      expect(() => decodeMessage(pack({ ...sample, [field]: ofAnotherType(value) }), [type]), field).toThrow(named);
    }
  });

  it("of a type that is not due are refused by both names", () => {
    expect(() => decodeMessage(encodeMessage(sampleMessages.go), ["start", "abort"])).toThrow(
      badMessage("control message: expected type start or abort, got go"),
    );
  });

  it.each([
    ["no map", 7, "undefined"],
    ["nothing", null, "undefined"],
    ["a map without type", { rank: 1 }, "undefined"],
    ["a list", ["go"], "undefined"],
    ["an inherited name", { type: "toString" }, "toString"],
    ["a number as type", { type: 5 }, "5"],
  ])("that are %s are refused", (_, value, got) => {
    expect(() => decodeMessage(pack(value), types)).toThrow(badMessage(expect.stringContaining(`got ${got}`)));
  });

  it("that are not one msgpack value are refused with their length", () => {
    const whole = encodeMessage(sampleMessages.start);
    for (const bytes of [new Uint8Array(), whole.subarray(0, -1), Buffer.concat([whole, whole])]) {
      expect(() => decodeMessage(bytes, types)).toThrow(
        badMessage(`${bytes.byteLength} bytes are not one msgpack value`),
      );
    }
  });

  // values that unpack but that JSON cannot show: the refusal must not fail itself
  it("with a type that cannot be shown are refused all the same", () => {
    expect(() => decodeMessage(pack({ type: 2n ** 70n }), types)).toThrow(badMessage(expect.any(String)));
    expect(() => decodeMessage(pack({ type: { toString: 1, valueOf: 1 } }), types)).toThrow(
      badMessage(expect.any(String)),
    );
    for (let depth = 1000; depth <= 6000; depth += 250) {
      const start = pack({ type: null }).subarray(0, -1);
      const nested = Buffer.concat([start, Buffer.alloc(depth, 0x91), Buffer.of(0xc0)]);
      expect(() => decodeMessage(nested, types)).toThrow(badMessage(expect.any(String)));
    }
  });

  it("drop fields that they do not know", () => {
    expect(decodeMessage(pack({ ...sampleMessages.go, later: 1 }), ["go"])).toEqual(sampleMessages.go);
  });

  /** One value too large, too small or malformed, and the path by which it is refused. */
  const outside: [MessageType, string, object][] = [
    ["join_supervisor", "slots", { slots: 0 }],
    ["join_supervisor", "slots", { slots: RANKS_MAX + 1 }],
    ["join_supervisor", "version", { version: -1 }],
    ["join_supervisor", "version", { version: 0.5 }],
    ["join_supervisor", "host", { host: "h".repeat(1025) }],
    ["join_rank", "rank", { rank: RANKS_MAX }],
    ["join_rank", "rank", { rank: -1 }],
    ["join_rank", "rank", { rank: Number.NaN }],
    ["join_rank", "epoch", { epoch: 2 ** 53 }],
    ["join_rank", "address", { address: "http://127.0.0.1:1" }],
    ["join_rank", "address", { address: `ws://${"h".repeat(300)}` }],
    ["assign", "ranks", { ranks: new Array<number>(RANKS_MAX + 1).fill(0) }],
    ["assign", "ranks.1", { ranks: [0, "1"] }],
    ["assign", "program.kind", { program: { kind: "url", path: "x" } }],
    ["assign", "program.path", { program: { kind: "file", path: "p".repeat(4097) } }],
    ["assign", "program.name", { program: { kind: "builtin" } }],
    ["assign", "env.A", { env: { A: 1 } }],
    ["assign", "settings.mode", { settings: { ...sampleMessages.assign.settings, mode: "foot" } }],
    ["assign", "settings.platform", { settings: { ...sampleMessages.assign.settings, platform: "a9" } }],
    ["assign", "settings.nranks", { settings: { ...sampleMessages.assign.settings, nranks: 0 } }],
    ["assign", "settings.args.0", { settings: { ...sampleMessages.assign.settings, args: ["a".repeat(65_537)] } }],
    ["exited", "exitCode", { exitCode: "0" }],
    ["failed", "error.code", { error: { ...sampleMessages.failed.error, code: "ERR_NO_SUCH" } }],
    ["failed", "error.code", { error: { ...sampleMessages.failed.error, code: "toString" } }],
    ["failed", "error.message", { error: { ...sampleMessages.failed.error, message: "m".repeat(65_537) } }],
    ["failed", "error.context.seq", { error: { ...sampleMessages.failed.error, context: { seq: "7" } } }],
    ["failed", "error.context.group.0", { error: { ...sampleMessages.failed.error, context: { group: [{}] } } }],
    ["failed", "suspect", { suspect: RANKS_MAX }],
    ["abort", "cause.code", { cause: { ...sampleMessages.abort.cause, code: 3 } }],
    ["start", "addresses.0", { addresses: ["/run/0"] }],
    ["goodbye", "state.counters.puts", { state: { ...sampleMessages.goodbye.state, counters: { puts: -1 } } }],
    ["last_words", "state.waits", { state: { ...sampleMessages.last_words.state, waits: {} } }],
    ["finished", "exitCode", { exitCode: -1 }],
  ];

  it.each(outside)("%s is refused for %s: %o", (type, path, fields) => {
    const escaped = path.replaceAll(".", "\\.");
    expect(() => decodeMessage(pack({ ...sampleMessages[type], ...fields }), [type])).toThrow(
      badMessage(expect.stringMatching(new RegExp(`^control message ${type}: ${escaped}: `, "u"))),
    );
  });

  it("take the largest and smallest values that are allowed", () => {
    const largest: Message[] = [
      { ...sampleMessages.join_supervisor, slots: RANKS_MAX },
      { ...sampleMessages.join_rank, rank: RANKS_MAX - 1, epoch: Number.MAX_SAFE_INTEGER },
      { ...sampleMessages.failed, error: { code: "ERR_TIMEOUT", message: "m".repeat(65_536), context: {} } },
      { ...sampleMessages.failed, call: null, suspect: null },
      { ...sampleMessages.exited, exitCode: -1, signal: null },
    ];
    for (const message of largest) expect(decodeMessage(encodeMessage(message), types)).toEqual(message);
  });

  // an error that the coordinator refuses to read would make its reporter the culprit
  describe("carry every error that a program can throw", () => {
    const crosses = (thrown: unknown): void => {
      const error = toWireError(thrown);
      const bytes = encodeMessage({ ...sampleMessages.failed, error });
      expect(decodeMessage(bytes, ["failed"]).error.code).toBe(error.code);
    };

    it("however long its message is", () => {
      crosses(new Error("m".repeat(100_000)));
      crosses(new RankwiseError("ERR_WRONG_DATA", "m".repeat(100_000)));
    });

    it("whatever number it names", () => {
      crosses(new RankwiseError("ERR_PEER_RANGE", "peer NaN", { peer: Number.NaN }));
      crosses(new RankwiseError("ERR_PEER_RANGE", "peer Infinity", { peer: Number.POSITIVE_INFINITY }));
      crosses(new RankwiseError("ERR_PEER_RANGE", "peer -1", { peer: -1 }));
    });
  });
});

describe("hello", () => {
  const peer: LinkHello = { version: 1, role: "peer", job: "job-1", epoch: 0, rank: 3 };
  const client: LinkHello = { version: 1, role: "client", job: "job-1" };

  it.each([peer, client])("of a $role crosses whole", (hello) => {
    expect(decodeHello(encodeHello(hello))).toEqual(hello);
  });

  it.each([
    ["rank", { ...peer, rank: RANKS_MAX }],
    ["rank", { ...peer, rank: undefined }],
    ["epoch", { ...peer, epoch: -1 }],
    ["job", { ...peer, job: 5 }],
    ["job", { ...client, job: "j".repeat(1025) }],
    ["version", { ...client, version: "1" }],
    ["role", { ...client, role: "spy" }],
  ])("is refused for its %s", (field, hello) => {
    expect(() => decodeHello(pack(hello))).toThrow(
      expect.objectContaining({ code: "ERR_BAD_HELLO", message: expect.stringMatching(`^hello: ${field}: `) }),
    );
  });

  it("is refused when it is no msgpack, or no map", () => {
    for (const bytes of [Uint8Array.of(0xc1), new Uint8Array(), pack("hello"), pack(null), pack([peer])]) {
      expect(() => decodeHello(bytes)).toThrow(expect.objectContaining({ code: "ERR_BAD_HELLO" }));
    }
  });
});

describe("publication", () => {
  const sample: Publication = {
    members: [0, 2, 1],
    groupOrdinal: 1,
    kind: "window",
    name: "data",
    ordinal: 5,
    dtype: "bfloat16",
    shape: [4, 0, 64],
  };

  it("crosses whole, in its group's order", () => {
    expect(decodePublication(encodePublication(sample))).toEqual(sample);
    const largest = { ...sample, name: "n".repeat(NAME_LENGTH_MAX), ordinal: ALLOCATIONS_MAX - 1 };
    expect(decodePublication(encodePublication(largest))).toEqual(largest);
  });

  it.each([
    ["name", { name: "" }],
    ["name", { name: "n".repeat(NAME_LENGTH_MAX + 1) }],
    ["ordinal", { ordinal: ALLOCATIONS_MAX }],
    ["dtype", { dtype: "FP32" }],
    ["dtype", { dtype: "toString" }],
    ["kind", { kind: "tensor" }],
    ["shape", { shape: new Array<number>(DIMENSIONS_MAX + 1).fill(1) }],
    ["shape.0", { shape: [-1] }],
    ["members.0", { members: ["0"] }],
  ])("is refused for its %s", (field, fields) => {
    expect(() => decodePublication(pack({ ...sample, ...fields }))).toThrow(
      expect.objectContaining({ code: "ERR_BAD_FRAME", message: expect.stringMatching(`^publication: ${field}: `) }),
    );
  });
});
