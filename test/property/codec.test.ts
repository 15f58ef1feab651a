import fc from "fast-check";
import { Packr } from "msgpackr";
import { expect, test } from "vitest";
import {
  decodeHello,
  decodeMessage,
  decodePublication,
  encodeHello,
  encodeMessage,
  encodePublication,
} from "../../shared/codec.ts";
import { ALLOCATIONS_MAX, DIMENSIONS_MAX, NAME_LENGTH_MAX, RANKS_MAX } from "../../shared/constants.ts";
import { modes, transports } from "../../shared/config.ts";
import { type DType, dtypes } from "../../shared/dtype.ts";
import { type ErrorCode, errorTable, RankwiseError } from "../../shared/errors.ts";
import {
  type Counters,
  type LinkHello,
  type Message,
  messageSchemas,
  type MessageType,
  type Publication,
  type RankState,
  type Settings,
  zeroCounters,
} from "../../shared/messages.ts";
import { sampleMessages } from "../helpers/messages.ts";

const types = Object.keys(messageSchemas) as MessageType[];

const count = fc.maxSafeNat();
const rank = fc.nat(RANKS_MAX - 1);
const nranks = fc.integer({ min: 1, max: RANKS_MAX });
const ranks = fc.array(rank, { maxLength: 8 });
const text = fc.string({ maxLength: 40, unit: "grapheme" });
const orNull = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(value, { nil: null });
// msgpack keeps neither the sign of 0 nor, in our schemas, NaN
const number = fc.oneof(
  fc.integer(),
  fc.double({ noNaN: true }).filter((value) => !Object.is(value, -0)),
);
const code = fc.constantFrom(...(Object.keys(errorTable) as ErrorCode[]));
const address = fc.oneof(
  fc.nat(65_535).map((port) => `ws://127.0.0.1:${port}`),
  text.map((path) => `unix:/run/${path}`),
);
const job = { job: text, epoch: count };
const state: fc.Arbitrary<RankState> = fc.record({
  queues: fc.array(
    fc.record({
      peer: rank,
      lane: count,
      sqes: count,
      wqebbs: count,
      doorbells: count,
      cqes: count,
      submittedWqeCount: count,
    }),
    { maxLength: 2 },
  ),
  counters: fc.record(
    Object.fromEntries(Object.keys(zeroCounters()).map((name) => [name, count])) as Record<
      keyof Counters,
      typeof count
    >,
  ),
  calls: fc.array(fc.record({ op: text, group: ranks, groupOrdinal: count, seq: count, arguments: text }), {
    maxLength: 3,
  }),
  waits: fc.array(
    fc.record({
      call: text,
      group: ranks,
      seq: count,
      lane: count,
      signal: text,
      cell: fc.array(number, { maxLength: 3 }),
      compare: text,
      expected: number,
      current: number,
      lastWriter: orNull(rank),
      missing: ranks,
      ageMs: number,
    }),
    { maxLength: 3 },
  ),
});
const placement = fc.record({ hosts: fc.integer({ min: 1 }), processors: fc.integer({ min: 1 }) });
const settings: fc.Arbitrary<Settings> = fc.record({
  nranks,
  mode: fc.constantFrom(...modes),
  platform: fc.constantFrom("a2a3sim" as const, "a5sim" as const),
  transport: fc.constantFrom(...transports),
  args: fc.array(text, { maxLength: 4 }),
  seed: count,
  lanesMax: orNull(count),
  sqDepth: orNull(count),
  waitTimeoutMs: count,
  joinTimeoutMs: count,
  graceMs: count,
  livenessMs: count,
});
const error = fc.record({
  code,
  message: text,
  context: fc.record(
    {
      rank: number,
      peer: number,
      window: text,
      offset: fc.oneof(number, fc.array(number, { maxLength: 3 })),
      collective: text,
      group: fc.array(number, { maxLength: 3 }),
      seq: number,
      missing: fc.array(number, { maxLength: 3 }),
      argument: text,
    },
    { requiredKeys: [] },
  ),
});
const program = fc.oneof(
  fc.record({ kind: fc.constant("builtin"), name: text }),
  fc.record({ kind: fc.constant("file"), path: text }),
);
const hello = { version: count };

const messages: Record<MessageType, fc.Arbitrary<unknown>> = {
  join_supervisor: fc.record({ ...hello, slots: nranks, host: text, pid: count }),
  join_rank: fc.record({ ...hello, ...job, rank, host: text, pid: count, address, processors: fc.integer({ min: 1 }) }),
  assign: fc.record({
    ...job,
    ranks,
    program,
    env: fc.dictionary(fc.stringMatching(/^[A-Z][A-Z_]{0,9}$/u), text, { maxKeys: 4, noNullPrototype: true }),
    settings,
  }),
  spawned: fc.record({ ...job, rank, pid: count }),
  exited: fc.record({ ...job, rank, pid: count, exitCode: orNull(number), signal: orNull(text) }),
  rank_stopped: fc.record({ ...job, rank, pid: count, stoppedMs: count }),
  rank_states: fc.record({
    ...job,
    states: fc.array(fc.record({ rank, state: fc.constantFrom("busy", "sleeping", "stopped", "unknown") }), {
      maxLength: 4,
    }),
  }),
  supervisor_failed: fc.record({ ...job, error }),
  terminate: fc.record({ ...job, graceMs: count }),
  cleared: fc.record(job),
  finished: fc.record({ exitCode: count }),
  start: fc.record({ ...job, addresses: fc.array(address, { maxLength: 5 }), placement, settings }),
  ready: fc.record(job),
  ask_state: fc.record(job),
  state: fc.record({ ...job, state }),
  link_silent: fc.record({ ...job, peer: rank, silentMs: count }),
  go: fc.record(job),
  failed: fc.record({ ...job, error, call: orNull(text), suspect: orNull(rank) }),
  abort: fc.record({
    ...job,
    cause: fc.record({
      rank: orNull(rank),
      pid: orNull(count),
      host: orNull(text),
      code,
      message: text,
      call: orNull(text),
    }),
  }),
  last_words: fc.record({ ...job, state }),
  goodbye: fc.record({ ...job, state }),
  end: fc.record(job),
};

test.each(types)("every %s comes back as it was", (type) => {
  fc.assert(
    fc.property(messages[type], (fields) => {
      const message = { type, ...(fields as object) } as Message;
      expect(decodeMessage(encodeMessage(message), types)).toEqual(message);
    }),
  );
});

test("every hello comes back as it was", () => {
  const arbitrary = fc.oneof(
    fc.record({ ...hello, ...job, role: fc.constant("peer" as const), rank }),
    fc.record({ ...hello, job: text, role: fc.constant("client" as const) }),
  );
  fc.assert(
    fc.property(arbitrary, (sample: LinkHello) => {
      expect(decodeHello(encodeHello(sample))).toEqual(sample);
    }),
  );
});

test("every publication comes back as it was", () => {
  const arbitrary = fc.record({
    members: ranks,
    groupOrdinal: count,
    kind: fc.constantFrom("window" as const, "signal" as const),
    name: fc.string({ minLength: 1, maxLength: NAME_LENGTH_MAX }),
    ordinal: fc.nat(ALLOCATIONS_MAX - 1),
    dtype: fc.constantFrom(...(Object.keys(dtypes) as DType[])),
    shape: fc.array(count, { maxLength: DIMENSIONS_MAX }),
  });
  fc.assert(
    fc.property(arbitrary, (sample: Publication) => {
      expect(decodePublication(encodePublication(sample))).toEqual(sample);
    }),
  );
});

const packr = new Packr({ useRecords: false, useBigIntExtension: true });
const anything = fc.anything({ withBigInt: true, withDate: true, withMap: true, withSet: true, withTypedArray: true });

/** Bytes that somebody may send: at random, any value, or a good message with one part replaced by any value. */
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  anything.map((value) => packOr(value)),
  fc
    .record({ type: fc.oneof(fc.constantFrom(...types), anything), at: fc.nat(), value: anything, from: fc.nat() })
    .map(({ type, at, value, from }) => {
      const sample: object = sampleMessages[types[from % types.length]!];
      const keys = Object.keys(sample);
      return packOr({ ...sample, ...(from % 2 === 0 ? { type } : {}), [keys[at % keys.length]!]: value });
    }),
  fc.record({ from: fc.constantFrom(...types), at: fc.nat(), byte: fc.nat(255) }).map(({ from, at, byte }) => {
    const changed = Uint8Array.from(encodeMessage(sampleMessages[from]));
    changed[at % changed.length] = byte;
    return changed;
  }),
);

/** The value as msgpack; some values have none, and stand for no bytes. */
function packOr(value: unknown): Uint8Array {
  try {
    return Uint8Array.from(packr.pack(value));
  } catch {
    return new Uint8Array();
  }
}

test("arbitrary bytes decode, or are refused with the code of their kind and nothing else", () => {
  const decoders = [
    ["ERR_BAD_MESSAGE", (input: Uint8Array) => decodeMessage(input, types)],
    ["ERR_BAD_HELLO", decodeHello],
    ["ERR_BAD_FRAME", decodePublication],
  ] as const;
  fc.assert(
    fc.property(bytes, (input) => {
      for (const [expected, decode] of decoders) {
        try {
          decode(input);
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(RankwiseError);
          expect((thrown as RankwiseError).code).toBe(expected);
        }
      }
    }),
    { numRuns: 2000 },
  );
});
