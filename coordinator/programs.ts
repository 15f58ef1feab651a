/** Programs: which one a name means, and the module that ranks import for it. */
import { readdir, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { RankwiseError } from "../shared/errors.ts";
import type { Program } from "../shared/messages.ts";
import { bundleProgram } from "./bundle.ts";
import { distFolder } from "./installation.ts";

/** What a file name must end in to be taken for a program rather than for a built-in name. */
const programFile = /[/\\]|\.(?:ts|mts|js|mjs)$/u;

/** Name of a file of a built-in program: `15-all-to-all.js` is `all_to_all`. */
const builtinFile = /^\d+-([a-z\d-]+)\.js$/u;

/**
 * The program that a command line names: a built-in one, or a file seen from `cwd`.
 *
 * @throws {ERR_PROGRAM_NOT_FOUND}
 */
export async function findProgram(name: string, cwd: string): Promise<Program> {
  if (!programFile.test(name)) {
    if ((await builtinPrograms()).has(name)) return { kind: "builtin", name };
    throw await unknownProgram(name);
  }
  const path = resolve(cwd, name);
  const found = await stat(path).catch(() => undefined);
  if (found?.isFile() === true) return { kind: "file", path };
  throw await unknownProgram(name, path);
}

/**
 * The module for ranks to import, as an absolute path. A program that is a file is bundled into `folder`, once.
 *
 * @throws {ERR_PROGRAM_NOT_FOUND}
 * @throws {ERR_PROGRAM_SYNTAX} naming file, line and column
 * @throws {ERR_PROGRAM_INVALID} when it has no default export
 */
export async function prepareProgram(program: Program, folder: string): Promise<string> {
  if (program.kind === "file") return bundleProgram(program.path, folder);
  const path = (await builtinPrograms()).get(program.name);
  if (path === undefined) throw await unknownProgram(program.name);
  return path;
}

/** The built-in programs: name to file, in the order of their numbers. */
export async function builtinPrograms(): Promise<Map<string, string>> {
  const folder = join(distFolder(), "examples");
  const files = await readdir(folder).catch(() => []);
  const programs = new Map<string, string>();
  for (const file of files.sort()) {
    const title = builtinFile.exec(file)?.[1];
    if (title !== undefined) programs.set(title.replaceAll("-", "_"), join(folder, file));
  }
  programs.set("conformance", join(distFolder(), "conformance.js")); // what `rankwise check` runs
  programs.set("drill", join(distFolder(), "drill.js")); // what `rankwise drill` runs
  programs.set("bench", join(distFolder(), "bench.js")); // what `rankwise bench` runs
  return programs;
}

async function unknownProgram(name: string, path?: string): Promise<RankwiseError> {
  const names = [...(await builtinPrograms()).keys()].join(", ");
  const place = path === undefined ? `for a file, write ./${name} or its whole name` : `there is no file ${path}`;
  return new RankwiseError(
    "ERR_PROGRAM_NOT_FOUND",
    `program ${JSON.stringify(name)} is none of the built-in ones (${names}); ${place}`,
  );
}
