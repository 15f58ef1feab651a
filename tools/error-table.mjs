// The table of shared/errors.ts, for the tools: Node 20 does not run TypeScript, so esbuild turns it into a module.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

/**
 * @param {string} root the project's folder
 * @returns {Promise<Record<string, string>>} every error code with its sentence, in the order of the source
 */
export async function loadErrorTable(root) {
  const source = join(root, "shared", "errors.ts");
  if (!existsSync(source)) throw new Error("shared/errors.ts does not exist");
  const result = await build({ entryPoints: [source], bundle: true, format: "esm", platform: "node", write: false });
  const url = `data:text/javascript;base64,${Buffer.from(result.outputFiles[0]?.contents ?? []).toString("base64")}`;
  const module = /** @type {{ errorTable?: Record<string, string> }} */ (await import(url));
  if (module.errorTable === undefined) throw new Error("shared/errors.ts exports no errorTable");
  return module.errorTable;
}
