/**
 * Turns a program's file into one module that every rank of a host imports.
 *
 * Its own files are bundled, once, whatever the number of ranks. Packages are not: they become absolute file URLs, so
 * that each exists once in a rank's process, and `rankwise` is the running installation whatever is installed beside
 * the program. `import.meta.url` goes on meaning the source file.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { builtinModules } from "node:module";
import { basename, dirname, extname, join, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type {
  BuildFailure,
  BuildResult,
  Loader,
  Message,
  OnLoadResult,
  OnResolveArgs,
  OnResolveResult,
  Plugin,
} from "esbuild";
import { RankwiseError } from "../shared/errors.ts";
import { distFolder } from "./installation.ts";
import { tempFolderError } from "./temp-folder.ts";

/** Most of a program's errors that one message tells. */
const ERRORS_SHOWN_MAX = 5;

/**
 * Bundles a program into `folder` and returns the bundle's path.
 *
 * @throws {ERR_PROGRAM_SYNTAX} naming file, line and column, when it does not parse or an import cannot be found
 * @throws {ERR_PROGRAM_INVALID} when it has no default export
 * @throws {ERR_TEMP_DIR} when the folder is full
 */
export async function bundleProgram(path: string, folder: string): Promise<string> {
  const outfile = join(folder, `${basename(path, extname(path))}.mjs`);
  const { build } = await import("esbuild");
  let result: BuildResult<{ metafile: true; write: false }>;
  try {
    result = await build({
      entryPoints: [path],
      outfile,
      write: false, // that would be an error of the program's
      absWorkingDir: dirname(path),
      bundle: true,
      format: "esm",
      platform: "node",
      target: "node20",
      conditions: [], // the exact conditions of Node: by default esbuild adds "module"
      sourcemap: "inline",
      metafile: true,
      logLevel: "silent",
      define: metaNames,
      banner: { js: requireFor(path) },
      plugins: [packagesAsUrls, sourceMeta],
    });
  } catch (error) {
    throw new RankwiseError("ERR_PROGRAM_SYNTAX", describeErrors(error, dirname(path)), {}, error);
  }
  const [output] = Object.values(result.metafile.outputs);
  if (output?.exports.includes("default") !== true) {
    throw new RankwiseError(
      "ERR_PROGRAM_INVALID",
      `${path} has no default export; a program is a module with \`export default async function main(comm)\``,
    );
  }
  try {
    await mkdir(folder, { recursive: true });
    await writeFile(outfile, result.outputFiles[0]?.contents ?? "");
  } catch (error) {
    throw tempFolderError(folder, "TMPDIR", error);
  }
  return outfile;
}

/** Leaves packages out of the bundle, as absolute file URLs that mean the same from anywhere. */
const packagesAsUrls: Plugin = {
  name: "packages-as-urls",
  setup(build) {
    build.onResolve({ filter: /^[^./#]/ }, async (args): Promise<OnResolveResult | undefined> => {
      if (args.kind === "entry-point" || args.pluginData === RESOLVING) return undefined;
      const { path } = args;
      if (isNodeModule(path) || /^(?:data|https?):/u.test(path)) return { path, external: true };
      if (path === "rankwise") return external(join(distFolder(), "index.js"), args);
      if (path.startsWith("file:")) return { path: fileURLToPath(path) };
      const { kind, importer, resolveDir, with: attributes } = args;
      const found = await build.resolve(path, { kind, importer, resolveDir, with: attributes, pluginData: RESOLVING });
      if (found.errors.length > 0) return { errors: found.errors };
      // what lies outside of node_modules is the program's own: a path of its tsconfig, a linked workspace
      return found.path.includes(`${sep}node_modules${sep}`) ? external(found.path, args) : found;
    });
  },
};

/** Marks the inner of two resolutions of one import. */
const RESOLVING = Symbol("resolving");

function isNodeModule(name: string): boolean {
  return name.startsWith("node:") || builtinModules.includes(name);
}

function external(path: string, { kind }: OnResolveArgs): OnResolveResult {
  const required = kind === "require-call" || kind === "require-resolve";
  return { path: required ? path : pathToFileURL(path).href, external: true };
}

/** What stands for `import.meta` in a bundled file, declared at its head by {@link sourceMeta}. */
const metaNames = {
  "import.meta.url": "__rankwise_url",
  "import.meta.filename": "__rankwise_filename",
  "import.meta.dirname": "__rankwise_dirname",
};

const loaders: Readonly<Record<string, Loader>> = {
  ".ts": "ts",
  ".mts": "ts",
  ".cts": "ts",
  ".tsx": "tsx",
  ".js": "js",
  ".mjs": "js",
  ".cjs": "js",
  ".jsx": "jsx",
};

/** Gives each source file that asks for it its own `import.meta`. Lines stay where they are. */
const sourceMeta: Plugin = {
  name: "source-meta",
  setup(build) {
    build.onLoad({ filter: /\.[cm]?[jt]sx?$/ }, async ({ path }): Promise<OnLoadResult | undefined> => {
      const source = (await readFile(path, "utf8")).replace(/^\uFEFF/u, "");
      const loader = loaders[extname(path)];
      if (!source.includes("import.meta") || loader === undefined) return undefined;
      const [hashbang = ""] = /^#!.*\n?/u.exec(source) ?? [];
      const contents = hashbang + metaHead(path) + source.slice(hashbang.length);
      return { contents, loader };
    });
  },
};

function metaHead(path: string): string {
  const values = {
    __rankwise_url: pathToFileURL(path).href,
    __rankwise_filename: path,
    __rankwise_dirname: dirname(path),
  };
  return `const ${Object.entries(values)
    .map(([name, value]) => `${name} = ${JSON.stringify(value)}`)
    .join(", ")}; `;
}

/** CommonJS among the bundled files needs a `require`, which a module has not. */
function requireFor(path: string): string {
  return `import { createRequire as __rankwise_require } from "node:module"; const require = __rankwise_require(${JSON.stringify(pathToFileURL(path).href)});`;
}

function describeErrors(error: unknown, base: string): string {
  const errors = (error as Partial<BuildFailure>).errors ?? [];
  if (errors.length === 0) return error instanceof Error ? error.message : String(error);
  const shown = errors.slice(0, ERRORS_SHOWN_MAX).map((message) => describeError(message, base));
  const rest = errors.length - shown.length;
  return [...shown, ...(rest > 0 ? [`… and ${rest} more`] : [])].join("\n");
}

/** `FILE:LINE:COLUMN: what is wrong`. esbuild names files relative to its folder and counts columns from 0. */
function describeError({ text, location }: Message, base: string): string {
  if (location === null) return text;
  const { file, line, column, lineText } = location;
  const path = join(base, file);
  const head = metaHead(path);
  const shift = lineText.startsWith(head) ? head.length : 0;
  return `${path}:${line}:${column - shift + 1}: ${text}`;
}
