/** Control messages and handshakes as bytes: msgpack, checked against their schema on the way in. */
import { Packr } from "msgpackr";
import * as v from "valibot";
import { RankwiseError } from "./errors.ts";
import {
  type LinkHello,
  linkHelloSchema,
  type Message,
  messageSchemas,
  type MessageOf,
  type MessageType,
  type Publication,
  publicationSchema,
} from "./messages.ts";

const packr = new Packr({ useRecords: false, int64AsType: "number" });

/** A control message as bytes. */
export function encodeMessage(message: Message): Uint8Array {
  return packr.pack(message);
}

/**
 * The control message that bytes hold.
 *
 * @throws {ERR_BAD_MESSAGE} naming the first thing that is wrong with it, unless its type is one of `expected` and
 * its form that of the type.
 */
export function decodeMessage<T extends MessageType>(bytes: Uint8Array, expected: readonly T[]): MessageOf<T> {
  const value = unpack(bytes, "ERR_BAD_MESSAGE");
  const type = typeof value === "object" && value !== null && "type" in value ? value.type : undefined;
  const known = expected.find((name) => name === type);
  if (known === undefined) {
    throw new RankwiseError(
      "ERR_BAD_MESSAGE",
      `control message: expected type ${expected.join(" or ")}, got ${typeof type === "string" || typeof type === "number" ? String(type).slice(0, 100) : typeof type}`,
    );
  }
  return check(messageSchemas[known], value, "ERR_BAD_MESSAGE", `control message ${known}`);
}

/** A link's hello as bytes. */
export function encodeHello(hello: LinkHello): Uint8Array {
  return packr.pack(hello);
}

/** @throws {ERR_BAD_HELLO} */
export function decodeHello(bytes: Uint8Array): LinkHello {
  return check(linkHelloSchema, unpack(bytes, "ERR_BAD_HELLO"), "ERR_BAD_HELLO", "hello");
}

/** A publication as bytes. */
export function encodePublication(publication: Publication): Uint8Array {
  return packr.pack(publication);
}

/** @throws {ERR_BAD_FRAME} */
export function decodePublication(bytes: Uint8Array): Publication {
  return check(publicationSchema, unpack(bytes, "ERR_BAD_FRAME"), "ERR_BAD_FRAME", "publication");
}

type DecodeCode = "ERR_BAD_MESSAGE" | "ERR_BAD_HELLO" | "ERR_BAD_FRAME";

function unpack(bytes: Uint8Array, code: DecodeCode): unknown {
  try {
    return packr.unpack(bytes) as unknown;
  } catch (error) {
    throw new RankwiseError(code, `${bytes.byteLength} bytes are not one msgpack value`, {}, error);
  }
}

function check<S extends v.GenericSchema>(schema: S, value: unknown, code: DecodeCode, what: string): v.InferOutput<S> {
  const result = v.safeParse(schema, value, { abortEarly: true });
  if (result.success) return result.output;
  const [issue] = result.issues;
  const path = v.getDotPath(issue);
  throw new RankwiseError(code, `${what}: ${path === null ? "" : `${path}: `}${issue.message}`);
}
