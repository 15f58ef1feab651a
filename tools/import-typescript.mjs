// TypeScript beside the suite, run by a tool: Node 20 does not read it, and a bundle would lose the paths of its files.
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { runnerImport } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));

/**
 * The module of a TypeScript file and what it imports.
 * @param {string} file
 * @returns {Promise<unknown>}
 */
export async function importTypeScript(file) {
  const { module } = /** @type {{ module: unknown }} */ (
    await runnerImport(file, {
      root,
      configFile: false,
      logLevel: "error",
      oxc: { target: "es2023" }, // Node 20 knows no `using`
      resolve: { alias: { rankwise: join(root, "rank", "index.ts") } },
    })
  );
  return module;
}
