import { pathToFileURL } from "node:url";
import { type Mode, modes } from "../shared/config.ts";
import { RankwiseError, toWireError } from "../shared/errors.ts";
import type { Comm } from "./comm.ts";

/** A program's `main`. */
export type Main = (comm: Comm) => unknown;

/**
 * Imports a program and returns its `main`.
 *
 * @throws {ERR_PROGRAM_INVALID} without a default export, or in a mode that it does not declare;
 * @throws {ERR_PROGRAM_THREW} when the module itself throws.
 */
export async function loadProgram(path: string, mode: Mode): Promise<Main> {
  let module: { default?: unknown; modes?: unknown };
  // from here on only, so that the map of this rank's own code is never read: that takes 100 ms, and Node looks at the
  // stack of every socket's error, at the very moment when a group ends
  process.setSourceMapsEnabled(true);
  try {
    module = (await import(pathToFileURL(path).href)) as typeof module;
  } catch (error) {
    throw new RankwiseError(
      "ERR_PROGRAM_THREW",
      `the program's module threw at import: ${toWireError(error).message}`,
      {},
      error,
    );
  }
  if (typeof module.default !== "function") {
    throw new RankwiseError("ERR_PROGRAM_INVALID", "the program has no default export main(comm)");
  }
  if (module.modes !== undefined) checkMode(module.modes, mode);
  return module.default as Main;
}

function checkMode(declared: unknown, mode: Mode): void {
  const known: readonly string[] = modes;
  if (!Array.isArray(declared) || !declared.every((name) => typeof name === "string" && known.includes(name))) {
    throw new RankwiseError("ERR_PROGRAM_INVALID", `the program's modes must be a list of ${modes.join(", ")}`);
  }
  if (declared.includes(mode)) return;
  throw new RankwiseError(
    "ERR_PROGRAM_INVALID",
    `the program runs in mode ${declared.join(" or ")}, not in mode ${mode}; choose with --mode`,
  );
}
