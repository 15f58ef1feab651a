import { describe, expect, it } from "vitest";
import { conformanceMatrix, describeCell } from "../../../../rank/collectives/matrix.ts";
import { runCell } from "../../../../rank/collectives/conformance.ts";
import { simulate } from "../../../../rank/simulate.ts";

describe("conformance on the in-process transport", () => {
  it.each([1, 2, 3, 4, 7])("every collective agrees with its golden on %i ranks", async (nranks) => {
    const differences: string[] = [];
    const { cells } = conformanceMatrix(nranks, [], true);
    const { failure } = await simulate({
      nranks,
      seed: nranks,
      main: async (comm) => {
        const sync = await comm.signal("sync", [nranks, 1]);
        for (const cell of cells) {
          const difference = await runCell(comm, cell.row, cell.cell, cell.mode, sync);
          if (difference !== undefined) differences.push(`${describeCell(cell)}: ${difference}`);
        }
      },
    });
    expect(failure?.error.message).toBeUndefined();
    expect(differences).toEqual([]);
  });
});
