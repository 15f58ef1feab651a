/** Offsets beyond 31 bits, on windows that are larger. They take no memory where nothing is written. */
import { expect, test } from "vitest";
import { runCli } from "../helpers/cli.ts";
import { fixtureProgram } from "../helpers/run.ts";

test.each(["unix", "tcp"])("puts and gets around and behind byte 2^31 of a window, over %s", async (transport) => {
  const run = await runCli(["run", fixtureProgram("large-window"), "-n", "3", "--transport", transport]);
  expect(run.stdout, run.text).toBe("OK\n");
});
