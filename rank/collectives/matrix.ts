/** The conformance matrix: which cells there are, and which are left out and why. */
import { type DType, dtypes } from "../../shared/dtype.ts";
import { ReduceOp } from "../memory/reduce.ts";
import type { Cell } from "./cell.ts";
import type { CollectiveRow } from "./row.ts";
import { collectives, conformanceLengths } from "./table.ts";

/** A cell of the matrix, ready to run. */
export interface MatrixCell {
  readonly row: CollectiveRow;
  readonly cell: Cell;
  readonly mode: "hand" | "builtin";
}

/** The cells for one number of ranks, and those left out, by reason. */
export interface Matrix {
  readonly cells: readonly MatrixCell[];
  readonly skipped: ReadonlyMap<string, number>;
}

/** Lengths and dtypes of a quick run: the borders, and one dtype of each kind. */
const quickLengths = [0, 1, 5];
const quickDtypes: readonly DType[] = ["float32", "bfloat16", "int8", "int64"];

/** Every collective × dtype × op × length × mode. */
export function conformanceMatrix(nranks: number, names: readonly string[], quick: boolean): Matrix {
  const cells: MatrixCell[] = [];
  const skipped = new Map<string, number>();
  const skip = (reason: string): void => {
    skipped.set(reason, (skipped.get(reason) ?? 0) + 1);
  };
  for (const row of collectives) {
    for (const dtype of Object.keys(dtypes) as DType[]) {
      for (const op of row.reduces ? Object.values(ReduceOp) : [ReduceOp.Sum]) {
        for (const length of quick ? quickLengths : conformanceLengths(nranks)) {
          for (const mode of ["hand", "builtin"] as const) {
            if (names.length > 0 && !names.some((name) => row.name === name || row.name.startsWith(`${name}:`))) {
              skip("not asked for");
            } else if (row.dtypes?.includes(dtype) === false)
              skip(`${row.name} takes ${row.dtypes.join(" and ")} only`);
            else if (quick && !quickDtypes.includes(dtype)) skip("a quick run takes one dtype of each kind");
            else cells.push({ row, cell: { dtype, length, op, nranks }, mode });
          }
        }
      }
    }
  }
  return { cells, skipped };
}

/** `all_to_all float32 [257] builtin`. */
export function describeCell({ row, cell, mode }: MatrixCell): string {
  return `${row.name} ${cell.dtype} ${row.reduces ? `${cell.op} ` : ""}[${cell.length}] ${mode} on ${cell.nranks} ranks`;
}
