/** Random primitive programs on real processes; `npm run campaign -- process-programs` runs many more. */
import { test } from "vitest";
import { checkOnProcesses } from "../property/processes.ts";

test.each(["tcp", "unix"] as const)("ten random programs on four processes over %s", async (transport) => {
  await checkOnProcesses(10, 4, transport);
});
