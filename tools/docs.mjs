// Generates docs/reference/: errors.md from the table in shared/errors.ts, api/ from the public API with typedoc.
//
//   node tools/docs.mjs            writes them
//   node tools/docs.mjs --check    exits 1 when what is in the tree differs from what would be written
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { loadErrorTable } from "./error-table.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const reference = join(root, "docs", "reference");
/** What is generated in docs/reference; other pages there are written by hand. */
const generated = ["errors.md", "api"];

const fresh = await mkdtemp(join(tmpdir(), "rankwise-docs-"));
try {
  await writeFile(join(fresh, "errors.md"), errorsPage(await loadErrorTable(root)));
  writeApi(join(fresh, "api"));
  if (process.argv.includes("--check")) process.exitCode = await report(fresh);
  else await replace(fresh);
} catch (error) {
  process.stderr.write(`docs: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
} finally {
  await rm(fresh, { recursive: true, force: true });
}

/** @param {Record<string, string>} table */
function errorsPage(table) {
  const rows = Object.entries(table).map(([code, sentence]) => `| \`${code}\` | ${sentence.replaceAll("|", "\\|")} |`);
  return `${[
    "# Errors",
    "",
    "Every failure of Rankwise is a `RankwiseError`. Match on its `code`: it is stable and survives the wire, where the",
    "message may change. Generated from `shared/errors.ts` by `npm run docs`.",
    "",
    "| code | meaning |",
    "| --- | --- |",
    ...rows,
  ].join("\n")}\n`;
}

/** @param {string} folder */
function writeApi(folder) {
  if (!existsSync(join(root, "rank", "index.ts"))) throw new Error("rank/index.ts does not exist");
  const typedoc = join(root, "node_modules", "typedoc", "bin", "typedoc");
  const { status } = spawnSync(process.execPath, [typedoc, "--out", folder], {
    cwd: root,
    stdio: ["ignore", process.stderr, process.stderr],
  });
  if (status !== 0) throw new Error("typedoc found the problems above in the public API");
}

/**
 * Names what differs between the tree and the generated pages.
 * @param {string} folder
 */
async function report(folder) {
  const [expected, present] = await Promise.all([pagesIn(folder), pagesIn(reference)]);
  const names = [...new Set([...expected.keys(), ...present.keys()])].sort();
  const different = names.filter((name) => expected.get(name) !== present.get(name));
  for (const name of different) {
    const what = !present.has(name) ? "is missing" : expected.has(name) ? "is out of date" : "is left over";
    process.stderr.write(`docs/reference/${name} ${what}; run npm run docs\n`);
  }
  return different.length === 0 ? 0 : 1;
}

/** @param {string} folder */
async function replace(folder) {
  await mkdir(reference, { recursive: true });
  for (const name of generated) {
    await rm(join(reference, name), { recursive: true, force: true });
    await cp(join(folder, name), join(reference, name), { recursive: true });
  }
}

/**
 * The generated pages of a folder, by their path in it.
 * @param {string} folder
 */
async function pagesIn(folder) {
  /** @type {Map<string, string>} */
  const pages = new Map();
  if (!existsSync(folder)) return pages;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const name = relative(folder, path);
    if (entry.isFile() && generated.includes(name.split(/[\\/]/)[0] ?? ""))
      pages.set(name, await readFile(path, "utf8"));
  }
  return pages;
}
