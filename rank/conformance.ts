/**
 * The program behind `rankwise check`: every rank runs every cell of the conformance matrix, and writes what differed
 * into `rank-N.json` of the folder that `RANKWISE_CONFORMANCE_DIR` names.
 *
 * Arguments: `--quick`, and names of collectives; none means all.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { RankwiseError } from "../shared/errors.ts";
import { runCell } from "./collectives/conformance.ts";
import { conformanceMatrix, describeCell } from "./collectives/matrix.ts";
import type { Comm } from "./comm.ts";

/** What one rank found. */
export interface ConformanceResult {
  /** Cells that this rank has run. */
  readonly cells: number;
  /** Cells left out, by reason. */
  readonly skipped: Readonly<Record<string, number>>;
  /** Cell to its first difference. */
  readonly differences: Readonly<Record<string, string>>;
}

export const modes = ["hand"];

export default async function main(comm: Comm): Promise<void> {
  const folder = process.env["RANKWISE_CONFORMANCE_DIR"];
  if (folder === undefined) {
    throw new RankwiseError("ERR_USAGE", "conformance is run by rankwise check, which sets RANKWISE_CONFORMANCE_DIR");
  }
  const names = comm.args.filter((arg) => !arg.startsWith("--"));
  const { cells, skipped } = conformanceMatrix(comm.nranks, names, comm.args.includes("--quick"));
  const differences: Record<string, string> = {};
  let done = 0;
  const write = (): void => {
    const result: ConformanceResult = { cells: done, skipped: Object.fromEntries(skipped), differences };
    writeFileSync(join(folder, `rank-${comm.rank}.json`), JSON.stringify(result));
  };
  const sync = await comm.signal("conformance.sync", [comm.nranks, 1]);
  try {
    for (const cell of cells) {
      const difference = await runCell(comm, cell.row, cell.cell, cell.mode, sync);
      if (difference !== undefined) differences[describeCell(cell)] = difference;
      done += 1;
    }
  } finally {
    write();
  }
}
