/** Where the running Rankwise is installed. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** The folder of built files: of the bundle that runs, or in a checkout the one beside the sources. */
export function distFolder(): string {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json"))) return join(folder, "dist");
    if (dirname(folder) === folder) return import.meta.dirname;
  }
}

/** Its version. */
export function installedVersion(): string {
  const text = readFileSync(join(distFolder(), "..", "package.json"), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}
