// Tables of the source, for the tools: Node 20 does not run TypeScript, so esbuild turns it into a module.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

/**
 * @param {string} root the project's folder
 * @returns {Promise<Record<string, string>>} every error code with its sentence, in the order of the source
 */
export async function loadErrorTable(root) {
  const { errorTable } = await loadSource(root, "shared/errors.ts");
  if (errorTable === undefined) throw new Error("shared/errors.ts exports no errorTable");
  return errorTable;
}

/**
 * @param {string} root the project's folder
 * @returns {Promise<import("../rank/collectives/row.ts").CollectiveRow[]>} the table of collectives
 */
export async function loadCollectives(root) {
  const { collectives } = await loadSource(root, "rank/collectives/table.ts");
  if (collectives === undefined) throw new Error("rank/collectives/table.ts exports no collectives");
  return collectives;
}

/**
 * @param {string} root
 * @param {string} file
 * @returns {Promise<{ errorTable?: Record<string, string>, collectives?: import("../rank/collectives/row.ts").CollectiveRow[] }>}
 */
async function loadSource(root, file) {
  const source = join(root, file);
  if (!existsSync(source)) throw new Error(`${file} does not exist`);
  const result = await build({ entryPoints: [source], bundle: true, format: "esm", platform: "node", write: false });
  const url = `data:text/javascript;base64,${Buffer.from(result.outputFiles[0]?.contents ?? []).toString("base64")}`;
  /** @type {Awaited<ReturnType<typeof loadSource>>} */
  const module = await import(url);
  return module;
}
