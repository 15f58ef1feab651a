import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { RankwiseError, type Tensor } from "rankwise";

/** Fails unless `length` elements of a row, from `column` on, all hold the value. */
export function expectFilled(tensor: Tensor, row: number, column: number, length: number, value: number): void {
  const width = tensor.shape.at(-1) ?? 0;
  const start = row * width + column;
  for (let i = start; i < start + length; i++) {
    const got = tensor.array[i];
    if (got !== value) assert.fail(`row ${row} element ${i - row * width}: got ${String(got)}, expected ${value}`);
  }
}

/** Lets the event loop turn, so that what can happen has a chance to. */
export async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await turn();
}

/** The error with which a promise rejects; fails when it resolves, or rejects with another code. */
export async function rejection(promise: Promise<unknown>, code: string): Promise<RankwiseError> {
  const error = await promise.then(
    () => assert.fail(`expected ${code}, but the call succeeded`),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof RankwiseError, `expected ${code}, got ${String(error)}`);
  assert.equal(error.code, code, error.message);
  return error;
}

/** Promises that are awaited later: should the group end before that, their rejection is not unheard of. */
export function kept<T extends Promise<unknown>[]>(promises: [...T]): [...T] {
  for (const promise of promises) promise.catch(() => undefined);
  return promises;
}
