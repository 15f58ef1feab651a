/** Where the running Rankwise is installed. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

/** The folder of built files: of the bundle that runs, or in a checkout the one beside the sources. */
export function distFolder(): string {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json"))) return join(folder, "dist");
    if (dirname(folder) === folder) return import.meta.dirname;
  }
}
