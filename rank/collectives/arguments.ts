/** Checks of what every builtin is given: its signal, its windows and its tensors. */
import { RankwiseError } from "../../shared/errors.ts";
import { describe, formatShape, sameShape, type Shape } from "../../shared/shape.ts";
import { checkLive } from "../checks.ts";
import type { Group } from "../group.ts";
import { ReduceOp } from "../memory/reduce.ts";
import type { Allocation } from "../memory/registry.ts";
import { checkTensor, sharesMemory, type Tensor } from "../memory/tensor.ts";
import { type Internals, internalsOf } from "../window.ts";

/** Where an argument stands: which call of which group. */
export interface Place {
  readonly op: string;
  readonly group: Group;
}

/** @throws {ERR_INVALID_ARGUMENT} unless the options are an object with `after` and these names, and no others. */
export function checkOptions({ op }: Place, options: unknown, names: readonly string[]): void {
  if (typeof options !== "object" || options === null) {
    throw new RankwiseError("ERR_INVALID_ARGUMENT", `${op}: options must be an object, got ${describe(options)}`, {
      argument: "options",
    });
  }
  // what is misspelt would have no effect
  for (const name in options) {
    if (name === "after" || names.includes(name)) continue;
    const known = ["after", ...names].join(", ");
    throw new RankwiseError("ERR_INVALID_ARGUMENT", `${op}: there is no option ${name}; known: ${known}`, {
      argument: name,
    });
  }
}

/** A signal [≥ rows, ≥ columns] of the group. */
export function checkSignal({ op, group }: Place, value: unknown, rows: number, columns: number): Allocation {
  const parts = internalsOf(value);
  if (parts?.allocation.cells === undefined) {
    throw new RankwiseError("ERR_NOT_A_SIGNAL", `${op}: signal must come from comm.signal, got ${describe(value)}`, {
      argument: "signal",
    });
  }
  const signal = ownedBy({ op, group }, "signal", parts);
  const [height = 0, width = 0] = signal.shape;
  if (signal.shape.length !== 2 || height < rows || width < columns) {
    throw new RankwiseError(
      "ERR_SHAPE_MISMATCH",
      `${op}: signal "${signal.name}" ${formatShape(signal.shape)} must have at least ${formatShape([rows, columns])} cells`,
      { argument: "signal", window: signal.name },
    );
  }
  return signal;
}

/** A window of the group that is no signal. */
export function checkWindow({ op, group }: Place, argument: string, value: unknown): Allocation {
  const parts = internalsOf(value);
  if (parts === undefined) {
    throw new RankwiseError(
      "ERR_NOT_A_WINDOW",
      `${op}: ${argument} must be a window made by comm.window; peers reach it, and a private tensor is not reachable (got ${describe(value)})`,
      { argument },
    );
  }
  if (parts.allocation.cells !== undefined) {
    throw new RankwiseError(
      "ERR_NOT_A_WINDOW",
      `${op}: ${argument} is signal "${parts.allocation.name}"; data goes into a window`,
      { argument },
    );
  }
  return ownedBy({ op, group }, argument, parts);
}

/** A tensor of the window's dtype and of one of the shapes, sharing no memory with the window. */
export function checkSource(
  { op }: Place,
  argument: string,
  value: unknown,
  target: Allocation,
  targetName: string,
  shapes: readonly Shape[],
): Tensor {
  const tensor = checkTensor(op, argument, internalsOf(value)?.allocation.local ?? value);
  if (sharesMemory(tensor.bytes, target.local.bytes)) {
    throw new RankwiseError(
      "ERR_ALIASED_BUFFERS",
      `${op}: ${argument} and ${targetName} share memory (window "${target.name}"); a peer's chunk would overwrite what is still to be sent: use two buffers`,
      { argument, window: target.name },
    );
  }
  if (tensor.dtype !== target.dtype) {
    throw new RankwiseError(
      "ERR_DTYPE_MISMATCH",
      `${op}: ${argument} is ${tensor.dtype}, ${targetName} "${target.name}" is ${target.dtype}`,
      { argument },
    );
  }
  if (!shapes.some((shape) => sameShape(tensor.shape, shape))) {
    throw new RankwiseError(
      "ERR_SHAPE_MISMATCH",
      `${op}: ${argument} is ${formatShape(tensor.shape)}, for ${targetName} "${target.name}" ${formatShape(target.shape)} it must be ${shapes.map(formatShape).join(" or ")}`,
      { argument },
    );
  }
  return tensor;
}

/** A shape whose first dimension is the group's size: one row a rank. */
export function checkRows({ op, group }: Place, argument: string, allocation: Allocation): void {
  if (allocation.shape[0] === group.members.length) return;
  throw new RankwiseError(
    "ERR_SHAPE_MISMATCH",
    `${op}: ${argument} "${allocation.name}" ${formatShape(allocation.shape)} must have one row for each of the ${group.members.length} ranks`,
    { argument, window: allocation.name },
  );
}

/** @throws {ERR_INVALID_ARGUMENT} */
export function checkReduceOp({ op }: Place, value: unknown): ReduceOp {
  const known = Object.values(ReduceOp).find((name) => name === value);
  if (known !== undefined) return known;
  throw new RankwiseError(
    "ERR_INVALID_ARGUMENT",
    `${op}: op must be one of ${Object.values(ReduceOp).join(", ")}, got ${describe(value)}`,
    { argument: "op" },
  );
}

const descriptions = new WeakMap<Allocation, string>();

/** `"data" float32 [4, 64]`, as ranks agree on it. */
export function describeWindow(window: Allocation): string {
  let text = descriptions.get(window);
  if (text === undefined) {
    const { name, dtype, shape } = window;
    descriptions.set(window, (text = `"${name}" ${dtype} ${formatShape(shape)}`));
  }
  return text;
}

function ownedBy({ op, group }: Place, argument: string, { group: owner, allocation }: Internals): Allocation {
  checkLive(op, allocation);
  if (owner === group) return allocation;
  throw new RankwiseError(
    "ERR_FOREIGN_GROUP",
    `${op}: ${argument} "${allocation.name}" belongs to group [${owner.members.join(", ")}], the call is made in [${group.members.join(", ")}]`,
    { argument, window: allocation.name },
  );
}
