/** What the table of collectives says of each, and how its values are computed independently of any collective. */
import { type DType, elementBytes } from "../../shared/dtype.ts";
import type { Comm } from "../comm.ts";
import type { ReduceOp } from "../memory/reduce.ts";
import type { Buffers, Cell } from "./cell.ts";
import { operandValue, wrapped } from "./values.ts";

/** Cost of one builtin call for one rank. */
export interface Cost {
  /** Payload received from other ranks, in bytes. */
  readonly receivedBytes: number;
  /** Barrier rounds with a fresh target; a reused one adds a ready round where `reuseAddsReady`. */
  readonly rounds: number;
}

/** One collective, or one algorithm of it. */
export interface CollectiveRow {
  /** `all_to_all`, or `allreduce:ring`. */
  readonly name: string;
  readonly arguments: string;
  readonly result: string;
  readonly reduces: boolean;
  /** The only dtypes that it takes; all of them without it. */
  readonly dtypes?: readonly DType[];
  /** Whether a window that was a builtin's target before costs a ready round. */
  readonly reuseAddsReady: boolean;
  /** Shape of the window. */
  readonly dataShape: (cell: Cell) => number[];
  /** Shape of the private input; the same as the window's where the collective works in place. */
  readonly inputShape: (cell: Cell) => number[];
  readonly signalShape: (cell: Cell) => number[];
  /** Input element on a rank; what is in place is copied into the window first. */
  readonly input: (cell: Cell, rank: number, element: number, round: number) => number;
  readonly inPlace: boolean;
  /** Element of the window on a rank after the call, or undefined where the collective leaves it open. */
  readonly golden: (cell: Cell, rank: number, element: number, round: number) => number | undefined;
  readonly cost: (cell: Cell, rank: number) => Cost;
  /** The same for readers: rounds and payload received, where N is the bytes of a rank's full slice. */
  readonly costText: { readonly rounds: string; readonly received: string };
  /** What the bus bandwidth is to the algorithm bandwidth at P ranks, as nccl-tests defines it. */
  readonly busFactor: (nranks: number) => number;
  readonly builtin: (comm: Comm, buffers: Buffers, cell: Cell) => Promise<void>;
  readonly hand: (comm: Comm, buffers: Buffers, cell: Cell) => Promise<void>;
  /** Makes the call prove itself, where it leaves no data behind. */
  readonly proof?: (comm: Comm, buffers: Buffers, call: () => Promise<void>) => Promise<void>;
}

const combine: Readonly<Record<ReduceOp, (a: number, b: number) => number>> = {
  sum: (a, b) => a + b,
  max: (a, b) => Math.max(a, b),
  min: (a, b) => Math.min(a, b),
  prod: (a, b) => a * b,
};

/** The reduction of everybody's operand, as the dtype holds it. */
export function reduced({ nranks, op, dtype }: Cell, element: number, round: number): number {
  let result = wrapped(dtype, operandValue(op, 0, element, round));
  for (let source = 1; source < nranks; source++) {
    const operand = wrapped(dtype, operandValue(op, source, element, round));
    result = wrapped(dtype, combine[op](result, operand));
  }
  return result;
}

/** Bytes of so many elements. */
export const bytesOf = ({ dtype }: Cell, elements: number): number => elements * elementBytes(dtype);

/** The whole buffer, one dimension. */
export const whole = ({ length }: Cell): number[] => [length];
