import { deferred } from "../shared/async.ts";
import { RECHECK_MS } from "../shared/constants.ts";
import { RankwiseError } from "../shared/errors.ts";
import { frameHeader, FrameKind } from "../shared/frame.ts";
import { elementCount, formatShape } from "../shared/shape.ts";
import type { Engine } from "./engine.ts";
import { type Group, handContext } from "./group.ts";
import { waitRow } from "./waits.ts";
import type { Tensor } from "./memory/tensor.ts";

/** What a tensor must hold: an array of all its elements, or a function of their index. */
export type Golden = ArrayLike<number> | ArrayLike<bigint> | ((...index: number[]) => number | bigint);

/** What a wrong value is, if it can be told: e.g. `rank 3's chunk for rank 0`. */
export type Decode = (value: number | bigint, index: readonly number[]) => string | undefined;

interface Difference {
  readonly index: readonly number[];
  readonly got: number | bigint;
  readonly expected: number | bigint;
}

/**
 * Compares a tensor with its golden. On failure it looks again once every peer has come to its own next check or has
 * left: what is right by then had only been read too early.
 */
export async function checkTensorData(
  engine: Engine,
  group: Group,
  tensor: Tensor,
  golden: Golden,
  decode: Decode | undefined,
): Promise<void> {
  const wanted = elements(tensor, golden);
  const first = compare(tensor, wanted);
  const nth = engine.nextCheck(group.id);
  for (const index of group.peers()) {
    engine.post(engine.peer(group.world(index)), frameHeader({ kind: FrameKind.Checked, group: group.id }));
  }
  if (first === undefined) return;
  await peersHaveChecked(engine, group, nth);
  const again = compare(tensor, wanted);
  // between the two looks, peers may have written on: place, value and meaning all come from one of them
  const told = again ?? first;
  const where = `rank ${group.rank} row ${String(told.index[0] ?? 0)}`;
  const facts = `element ${formatShape(told.index)}: got ${String(told.got)}, expected ${String(told.expected)}`;
  const meaning =
    again === undefined
      ? `${where} arrived after it was read: no wait ordered this read`
      : describeDifference(where, again, decode);
  throw new RankwiseError("ERR_WRONG_DATA", `${meaning}; ${facts}`, {
    rank: group.world(group.rank),
    offset: told.index,
  });
}

function describeDifference(where: string, { got, index }: Difference, decode: Decode | undefined): string {
  const decoded = decode?.(got, index);
  return decoded === undefined ? `${where} holds wrong data` : `${where} holds ${decoded}`;
}

/** Resolves once every peer has come to its own check or has left, at the latest after RECHECK_MS. */
async function peersHaveChecked(engine: Engine, group: Group, nth: number): Promise<void> {
  const peers = group.peers().map((index) => group.world(index));
  const done = deferred<void>();
  const forget = engine.onProgress(() => {
    if (engine.notChecked(group.id, peers, nth).length === 0) done.resolve();
  });
  const since = performance.now();
  const ctx = handContext(group, "check");
  const entry = {
    since,
    deadline: since + RECHECK_MS,
    rows: () => [{ ...waitRow(ctx, "", "check by", -1), missing: engine.notChecked(group.id, peers, nth) }],
    expire: done.resolve,
    reject: done.reject,
  };
  engine.pending.add(entry);
  try {
    await done.promise;
  } finally {
    engine.pending.delete(entry);
    forget();
  }
}

function elements(tensor: Tensor, golden: Golden): ArrayLike<number | bigint> {
  const count = elementCount("check", tensor.shape);
  if (typeof golden !== "function") {
    if (golden.length === count) return golden;
    throw new RankwiseError(
      "ERR_SHAPE_MISMATCH",
      `check: the tensor has ${count} elements, the golden ${golden.length}`,
      { argument: "golden" },
    );
  }
  const values: (number | bigint)[] = [];
  for (let i = 0; i < count; i++) values.push(golden(...indexOf(i, tensor)));
  return values;
}

function compare(tensor: Tensor, golden: ArrayLike<number | bigint>): Difference | undefined {
  const array: ArrayLike<number | bigint> = tensor.array;
  for (let i = 0; i < array.length; i++) {
    const got = array[i] ?? 0;
    const expected = rounded(tensor, golden[i] ?? 0);
    if (Object.is(got, expected) || got === expected) continue;
    return { index: indexOf(i, tensor), got, expected };
  }
  return undefined;
}

/** A golden is exact in float64; a float32 tensor can only hold it rounded. */
function rounded({ dtype }: Tensor, golden: number | bigint): number | bigint {
  if (dtype === "float32") return Math.fround(Number(golden));
  return dtype === "int64" && Number.isInteger(Number(golden)) ? BigInt(golden) : golden;
}

function indexOf(element: number, { shape }: Tensor): number[] {
  const index: number[] = [];
  let rest = element;
  for (const length of [...shape].reverse()) {
    index.unshift(rest % length);
    rest = Math.floor(rest / length);
  }
  return index;
}
