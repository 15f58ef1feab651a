/**
 * Expert dispatch and combine: the two exchanges of a mixture-of-experts layer.
 *
 * Every rank has tokens, each of which wants its top k experts; every rank hosts some experts. Dispatch sends token
 * rows from where they lie to the ranks of their experts, with a weight and a place for the way back. The experts
 * work. Combine sends their rows home, where each token adds up what its experts made of it.
 *
 * By hand every row is a put; builtin, each exchange is one indexed_all_to_all_v.
 *
 *   -- --pattern uniform|skewed|single-hot|one-expert|zero-tokens|random --seed 1
 *      --tokens 128 --topk 6 --dim 4096 --experts 16 --capacity (rows from one rank to another; default: what is needed)
 */
import {
  type Comm,
  fromBfloat16,
  NotifyOp,
  RankwiseError,
  toBfloat16,
  type Tensor,
  WaitCmp,
  type Window,
} from "rankwise";

export const modes = ["hand", "builtin"];

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks } = comm;
  const settings = parse(comm.args);
  const { dim, topk, experts } = settings;
  const routing = route(settings, nranks);
  const { tokens, capacity } = routing;
  const ranks = Array.from({ length: nranks }, (_, index) => index);
  /** Which of a rank's choices (token · topk + k) lead to another rank, in the order of its slots there. */
  const choicesFor = (src: number, dest: number): number[] =>
    [...routing.experts[src]!.entries()].filter(([, e]) => Math.floor(e / experts) === dest).map(([choice]) => choice);
  const exchange = await makeExchange(comm, capacity);

  // dispatch: the token's row as bytes, and beside it what the expert's rank must know
  const x = comm.tensor("bfloat16", [tokens[rank]!, dim]);
  for (let i = 0; i < x.array.length; i++) x.array[i] = tokenBits(rank, Math.floor(i / dim), i % dim);
  const notes = comm.tensor("float32", [tokens[rank]! * topk, 3]);
  for (const [choice, expert] of routing.experts[rank]!.entries()) {
    notes.array.set([expert % experts, weight(settings, choice), choice], choice * 3);
  }
  const sent = ranks.map((dest) => choicesFor(rank, dest));
  const tokenRows = sent.map((choices) => choices.map((choice) => Math.floor(choice / topk)));
  const arrivedTokens = await comm.window("tokens", "int8", [nranks * capacity, 2 * dim]);
  const arrivedNotes = await comm.window("notes", "float32", [nranks * capacity, 3]);
  const counts = await exchange(x.view("int8", [tokens[rank]!, 2 * dim]), arrivedTokens, tokenRows);
  await exchange(notes, arrivedNotes, sent);

  const received = arrivedTokens.local.view("bfloat16", [nranks * capacity, dim]);
  await comm.check(counts, (src) => choicesFor(src, rank).length);
  await checkArrived(comm, received, arrivedNotes, (src) => choicesFor(src, rank), routing, settings);

  // experts: each takes its rows in the order of source, token and k, and scales them by their weight
  const batches = Array.from({ length: experts }, (): number[] => []);
  for (const src of ranks) {
    for (let slot = 0; slot < counts.array[src]!; slot++) {
      const row = src * capacity + slot;
      batches[arrivedNotes.local.array[row * 3]!]!.push(row);
    }
  }
  const loads = comm.tensor(
    "int32",
    [experts],
    Int32Array.from(batches, (batch) => batch.length),
  );
  await comm.check(
    loads,
    (expert) => routing.experts.flatMap((list) => [...list]).filter((e) => e === rank * experts + expert).length,
  );
  const order = batches.flat();
  const y = comm.tensor("bfloat16", [order.length, dim]);
  for (const [at, row] of order.entries()) {
    const w = arrivedNotes.local.array[row * 3 + 1]!;
    for (let j = 0; j < dim; j++) y.array[at * dim + j] = scaled(w, received.array[row * dim + j]!);
  }

  // combine: every row goes home, from where its expert left it, into the slot that its token has for it
  const place = new Map(order.map((row, at) => [row, at]));
  const homeRows = ranks.map((src) =>
    Array.from({ length: counts.array[src]! }, (_, j) => place.get(src * capacity + j)!),
  );
  const home = await comm.window("home", "int8", [nranks * capacity, 2 * dim]);
  const returned = await exchange(y.view("int8", [order.length, 2 * dim]), home, homeRows);
  await comm.check(returned, (dest) => sent[dest]!.length);

  const parts = home.local.view("bfloat16", [nranks * capacity, dim]);
  const slotOf = new Map(sent.flatMap((choices, dest) => choices.map((choice, j) => [choice, dest * capacity + j])));
  const combined = comm.tensor("float32", [tokens[rank]!, dim]);
  for (let choice = 0; choice < tokens[rank]! * topk; choice++) {
    const [from, to] = [slotOf.get(choice)! * dim, Math.floor(choice / topk) * dim];
    for (let j = 0; j < dim; j++) combined.array[to + j]! += fromBfloat16(parts.array[from + j]!);
  }
  await comm.check(combined, expected(rank, tokens[rank]!, settings));
}

interface Settings {
  readonly tokens: number;
  readonly topk: number;
  readonly dim: number;
  /** Of one rank. */
  readonly experts: number;
  readonly seed: number;
  /** 0: as many rows as the pattern needs. */
  readonly capacity: number;
  readonly pattern: string;
}

interface Routing {
  /** Tokens of each rank. */
  readonly tokens: readonly number[];
  /** By rank: the expert of each choice, token · topk + k. */
  readonly experts: readonly Int32Array[];
  /** Rows that one rank may send another. */
  readonly capacity: number;
}

/** Sends input row `rows[dest][j]` to slot j of each destination, and tells how many rows came from each rank. */
type Exchange = <D extends "float32" | "int8">(
  input: Tensor<D>,
  target: Window<D>,
  rows: readonly (readonly number[])[],
) => Promise<Tensor<"int32">>;

async function makeExchange(comm: Comm, capacity: number): Promise<Exchange> {
  return comm.mode === "builtin" ? await builtin(comm, capacity) : await byHand(comm, capacity);
}

async function builtin(comm: Comm, capacity: number): Promise<Exchange> {
  const { nranks } = comm;
  const coreNum = Math.min(4, nranks);
  const sendCounts = await comm.window("counts", "int32", [nranks, 1]);
  const credits = await comm.signal("credits", [nranks, coreNum]);
  return async (input, target, rows) => {
    const index = comm.tensor("int32", [nranks, capacity]);
    for (const [dest, list] of rows.entries()) {
      sendCounts.local.array[dest] = list.length; // a count above the capacity is the call's to refuse
      index.array.set(list.slice(0, capacity), dest * capacity);
    }
    const recvCounts = comm.tensor("int32", [nranks, 1]);
    await comm.indexedAllToAllV(input, target, credits, { sendCounts, recvCounts, index, coreNum });
    return recvCounts;
  };
}

async function byHand(comm: Comm, capacity: number): Promise<Exchange> {
  const { rank, nranks, peers } = comm;
  const arrived = await comm.signal("arrived", [nranks, 3]);
  let column = 0; // three exchanges, each with cells of its own
  return async (input, target, rows) => {
    const width = input.shape[1]!;
    const counts = rows.map((list) => list.length);
    if (Math.max(...counts) > capacity) {
      throw new RankwiseError(
        "ERR_OUT_OF_BOUNDS",
        `rank ${rank}: ${Math.max(...counts)} rows exceed the capacity of ${capacity}; counts are [${counts.join(", ")}]`,
      );
    }
    for (const [dest, list] of rows.entries()) {
      for (const [j, row] of list.entries()) {
        const region = { dstOffset: [rank * capacity + j, 0], srcOffset: [row, 0], shape: [1, width] };
        await target.put(dest, input, region);
      }
    }
    // one more than the count, so that no rows can be told from no word
    for (const peer of peers) await arrived.notify(peer, [rank, column], 1 + counts[peer]!, NotifyOp.Set);
    const recvCounts = comm.tensor("int32", [nranks, 1]);
    recvCounts.array[rank] = counts[rank]!;
    for (const src of peers) recvCounts.array[src] = (await arrived.wait([src, column], 1, WaitCmp.Ge)) - 1;
    column += 1;
    return recvCounts;
  };
}

/** Every received row is its token's, bit for bit, in the order of the source's choices; unused slots are untouched. */
async function checkArrived(
  comm: Comm,
  received: Tensor<"bfloat16">,
  notes: Window<"float32">,
  choicesFrom: (src: number) => readonly number[],
  { experts: expertsOf, capacity }: Routing,
  settings: Settings,
): Promise<void> {
  const { dim, topk, experts } = settings;
  const goldenRows = new Uint16Array(received.array.length);
  const goldenNotes = new Float32Array(notes.local.array.length);
  for (let src = 0; src < comm.nranks; src++) {
    for (const [j, choice] of choicesFrom(src).entries()) {
      const [row, token] = [src * capacity + j, Math.floor(choice / topk)];
      for (let i = 0; i < dim; i++) goldenRows[row * dim + i] = tokenBits(src, token, i);
      goldenNotes.set([expertsOf[src]![choice]! % experts, weight(settings, choice), choice], row * 3);
    }
  }
  await comm.check(received, goldenRows, {
    decode: (bits, [, i]) => (i === 0 ? `a token of rank ${fromBfloat16(Number(bits))}` : undefined),
  });
  await comm.check(notes, goldenNotes);
}

/** Σ over k of bfloat16(w · x), added in float32 in the order of k. */
function expected(rank: number, tokens: number, settings: Settings): Float32Array {
  const { dim, topk } = settings;
  const sums = new Float32Array(tokens * dim);
  for (let token = 0; token < tokens; token++) {
    for (let i = 0; i < dim; i++) {
      const bits = tokenBits(rank, token, i);
      for (let k = 0; k < topk; k++) {
        sums[token * dim + i]! += fromBfloat16(scaled(weight(settings, token * topk + k), bits));
      }
    }
  }
  return sums;
}

/** What an expert makes of one element. */
function scaled(w: number, bits: number): number {
  return toBfloat16(w * fromBfloat16(bits));
}

/** Elements that name their rank, token and place: small integers, which bfloat16 holds exactly. */
function tokenBits(rank: number, token: number, i: number): number {
  return toBfloat16(i === 0 ? rank : i === 1 ? token % 256 : ((rank * 89 + token * 31 + i * 7) % 251) - 125);
}

/** Weights of a token's choices, which add up to about 1. */
function weight({ topk }: Settings, choice: number): number {
  return Math.fround((1 + (choice % topk) + (choice % 7) / 8) / (topk * (topk + 2)));
}

/** Which experts every rank's tokens choose. All ranks compute the same. */
function route(settings: Settings, nranks: number): Routing {
  const { topk, experts, pattern } = settings;
  const all = nranks * experts;
  const tokens = Array.from({ length: nranks }, (_, rank) =>
    pattern === "zero-tokens" && rank === nranks - 1 ? 0 : settings.tokens,
  );
  const random = generator(settings.seed);
  let step = experts + 1; // from one rank's experts to the next one's, round all of them
  while (gcd(step, all) !== 1) step += 1;
  const chosen = tokens.map((count, rank) => {
    const list = new Int32Array(count * topk);
    for (let choice = 0; choice < list.length; choice++) {
      const [token, k] = [Math.floor(choice / topk), choice % topk];
      if (pattern === "one-expert") list[choice] = 0;
      else if (pattern === "single-hot") list[choice] = ((rank + 1) % nranks) * experts + ((token + k) % experts);
      else if (pattern === "skewed")
        list[choice] = (Math.floor(all * (((token * 37 + rank) % 101) / 101) ** 3) + k) % all;
      else if (pattern === "random") list[choice] = drawOther(random, all, list.subarray(token * topk, choice));
      else list[choice] = (rank + choice * step) % all;
    }
    return list;
  });
  let needed = 0;
  for (const list of chosen) {
    const counts = new Int32Array(nranks);
    for (const expert of list) counts[Math.floor(expert / experts)]! += 1;
    needed = Math.max(needed, ...counts);
  }
  return { tokens, experts: chosen, capacity: settings.capacity || needed };
}

/** A number below `all` that is not among the taken ones, as long as there is one. */
function drawOther(random: () => number, all: number, taken: Int32Array): number {
  let drawn = Math.floor(random() * all);
  while (taken.length < all && taken.includes(drawn)) drawn = (drawn + 1) % all;
  return drawn;
}

/** A small generator (mulberry32): the same seed gives the same numbers everywhere. */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b);
}

const patterns = ["uniform", "skewed", "single-hot", "one-expert", "zero-tokens", "random"];

/** Program arguments, `--name value`. */
function parse(args: readonly string[]): Settings {
  const numbers = { tokens: 128, topk: 6, dim: 4096, experts: 16, seed: 1, capacity: 0 };
  let pattern = "uniform";
  for (let at = 0; at < args.length; at += 2) {
    const [name = "", value = ""] = [args[at]?.replace(/^--/u, ""), args[at + 1]];
    if (name === "pattern" && patterns.includes(value)) pattern = value;
    else if (Object.hasOwn(numbers, name) && /^\d+$/u.test(value))
      numbers[name as keyof typeof numbers] = Number(value);
    else {
      const known = `--pattern ${patterns.join("|")}, --${Object.keys(numbers).join(" N, --")} N`;
      throw new RankwiseError("ERR_USAGE", `expert_dispatch_combine: ${name} ${value} is not one of ${known}`);
    }
  }
  return { ...numbers, pattern };
}
