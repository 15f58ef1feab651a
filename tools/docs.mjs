// Generates docs/reference/: errors.md from the table in shared/errors.ts, collectives.md from that of
// rank/collectives/table.ts, api/ from the public API with typedoc.
//
//   node tools/docs.mjs            writes them
//   node tools/docs.mjs --check    exits 1 when what is in the tree differs from what would be written
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { loadCollectives, loadErrorTable } from "./error-table.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const reference = join(root, "docs", "reference");
/** What is generated in docs/reference; other pages there are written by hand. */
const generated = ["errors.md", "collectives.md", "api"];

const fresh = await mkdtemp(join(tmpdir(), "rankwise-docs-"));
try {
  await writeFile(join(fresh, "errors.md"), errorsPage(await loadErrorTable(root)));
  await writeFile(join(fresh, "collectives.md"), collectivesPage(await loadCollectives(root)));
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

/** @param {import("../rank/collectives/row.ts").CollectiveRow[]} rows */
function collectivesPage(rows) {
  const list = rows.map(({ name, arguments: given, result, costText, reuseAddsReady }) => {
    const rounds = `${costText.rounds}${reuseAddsReady ? "; ready before it when the window is used again" : ""}`;
    return `| \`${name}\` | ${given} | ${result} | ${rounds} | ${costText.received} |`;
  });
  return `${[
    "# Collectives",
    "",
    'P is the number of ranks, N the bytes of a rank\'s full slice (of the window, for those that fill one). "Received" is',
    "payload from other ranks, for each rank; a run's report shows exactly that. Generated from `rank/collectives/table.ts`",
    "by `npm run docs`.",
    "",
    "| name | arguments | result | rounds | received |",
    "| --- | --- | --- | --- | --- |",
    ...list,
    "",
    "## Order and rounding of reductions",
    "",
    "`sum`, `max`, `min` and `prod` combine whole operands, element by element, always in the same order. So all ranks get",
    "the same bits, and the same data gives the same bits in every run, whatever the number of lanes or the chunk size.",
    "",
    "- `reduce_scatter` and all of allreduce but the ring take the operands in the order of ranks: ((x₀ + x₁) + x₂) + …",
    "- `allreduce:ring` cuts the data into P segments, segment k from element ⌊k·n/P⌋ to ⌊(k+1)·n/P⌋, and takes the operands",
    "  of segment k from rank k on, rightwards: ((xₖ + xₖ₊₁) + …) + xₖ₋₁, ranks modulo P.",
    "- float32, float64 and integers are reduced in their own dtype; integers wrap.",
    "- float16 and bfloat16 are reduced in float32 and rounded once, to nearest, ties to even. The ring rounds its partial",
    "  sums at each step, since they cross the wire.",
    "- Every NaN in a result is the same quiet NaN, without sign and payload.",
    "",
    "## Rounds",
    "",
    "A round is one credit from every rank to every other, on the caller's signal. *Staged* says that this rank's data may be",
    "read, *read* that nobody reads it any more; *ready* that its window may be overwritten, *complete* that all writes have",
    "landed. A window counts as used once a builtin has had it as its target or its source. The ring's handshakes are credits",
    "between neighbours: one as it enters the call, then one for each of its 2 (P − 1) steps.",
    "",
    "## Algorithms",
    "",
    "`barrier`, `allgather`, `allreduce` and `all_to_all` have several, by the option `algo`. The default is the plain row of",
    "the table, and the mesh for allreduce: what a call costs is then what the table says. `auto` takes the fastest for the",
    "size, the number of ranks and the processors that they share, the same on every rank:",
    '`await comm.allToAll(x, data, credits, { algo: "auto" })`.',
    "",
    "- *eager*: chunks wait at their receiver until its own call takes them, so there is no ready round. `auto` takes it for",
    "  chunks up to 128 KiB.",
    "- *hub*: everybody sends to rank 0 of the group, which sends everybody the result: 2 (P − 1) messages instead of",
    "  P (P − 1). `auto` takes it for small data where ranks are more than processors.",
    "- *exchange* (allreduce): everybody's data to everybody, in one round. *two_phase*: block d to rank d, which reduces it,",
    "  and the results to everybody. `auto` takes the first for small and the second for large data. Data above 64 MiB a",
    "  message go in segments, each with its rounds.",
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
