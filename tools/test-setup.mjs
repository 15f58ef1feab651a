// Runs once before the tests: they start processes from dist/, which therefore must be as new as its sources.
import { buildIfStale } from "./build.mjs";

/** Vitest calls it by this name. */
export async function setup() {
  const code = await buildIfStale();
  if (code !== 0) throw new Error(`dist cannot be built (exit code ${code}); see the messages above`);
}
