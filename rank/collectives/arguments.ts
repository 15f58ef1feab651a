/** Checks of what every builtin is given: its signal, its windows and its tensors. */
import { RankwiseError } from "../../shared/errors.ts";
import { describe, formatShape, sameShape } from "../../shared/shape.ts";
import { checkLive } from "../checks.ts";
import type { Group } from "../group.ts";
import type { Allocation } from "../memory/registry.ts";
import { checkTensor, sharesMemory, type Tensor } from "../memory/tensor.ts";
import { internalsOf } from "../window.ts";

/** A signal [P, S] of the group, S ≥ lanes. */
export function checkSignal(op: string, group: Group, value: unknown, lanes: number): Allocation {
  const parts = typeof value === "object" && value !== null ? internalsOf(value) : undefined;
  if (parts?.allocation.cells === undefined) {
    throw new RankwiseError("ERR_NOT_A_SIGNAL", `${op}: signal must come from comm.signal, got ${describe(value)}`, {
      argument: "signal",
    });
  }
  const signal = ownedBy(op, "signal", group, parts.group, parts.allocation);
  const [rows = 0, columns = 0] = signal.shape;
  if (signal.shape.length !== 2 || rows < group.members.length || columns < lanes) {
    throw new RankwiseError(
      "ERR_SHAPE_MISMATCH",
      `${op}: signal "${signal.name}" ${formatShape(signal.shape)} must be [P, S] with P ≥ ${group.members.length} and S ≥ ${lanes}`,
      { argument: "signal", window: signal.name },
    );
  }
  return signal;
}

/** A window of the group that is no signal. */
export function checkWindow(op: string, argument: string, group: Group, value: unknown): Allocation {
  const parts = typeof value === "object" && value !== null ? internalsOf(value) : undefined;
  if (parts === undefined) {
    throw new RankwiseError(
      "ERR_NOT_A_WINDOW",
      `${op}: ${argument} must be a window made by comm.window; peers write into it, and a private tensor is not reachable (got ${describe(value)})`,
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
  return ownedBy(op, argument, group, parts.group, parts.allocation);
}

/** A tensor of the window's dtype and shape that shares no memory with it. */
export function checkSource(
  op: string,
  argument: string,
  value: unknown,
  target: Allocation,
  targetName: string,
): Tensor {
  const parts = typeof value === "object" && value !== null ? internalsOf(value) : undefined;
  const tensor = checkTensor(op, argument, parts?.allocation.local ?? value);
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
  if (!sameShape(tensor.shape, target.shape)) {
    throw new RankwiseError(
      "ERR_SHAPE_MISMATCH",
      `${op}: ${argument} is ${formatShape(tensor.shape)}, ${targetName} "${target.name}" is ${formatShape(target.shape)}`,
      { argument },
    );
  }
  return tensor;
}

/** A shape whose first dimension is the group's size: one row a rank. */
export function checkRows(op: string, argument: string, group: Group, allocation: Allocation): void {
  if (allocation.shape[0] === group.members.length) return;
  throw new RankwiseError(
    "ERR_SHAPE_MISMATCH",
    `${op}: ${argument} "${allocation.name}" ${formatShape(allocation.shape)} must have one row for each of the ${group.members.length} ranks`,
    { argument, window: allocation.name },
  );
}

function ownedBy(op: string, argument: string, group: Group, owner: Group, allocation: Allocation): Allocation {
  checkLive(op, allocation);
  if (owner === group) return allocation;
  throw new RankwiseError(
    "ERR_FOREIGN_GROUP",
    `${op}: ${argument} "${allocation.name}" belongs to group [${owner.members.join(", ")}], the call is made in [${group.members.join(", ")}]`,
    { argument, window: allocation.name },
  );
}
