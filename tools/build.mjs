// Builds dist/: one esbuild call for all JavaScript, AssemblyScript for the SIMD kernels, then tsc for the declarations
// of the public API.
//
//   node tools/build.mjs               everything
//   node tools/build.mjs --if-stale    nothing while dist/ is as new as its sources; otherwise the JavaScript,
//                                      and the declarations only where there are none yet
//
// Says what it does on stderr only: `rankwise` prints on stdout. Exits 1 when the JavaScript cannot be built
// (dist/ then stays as it was) and 2 when only the declarations have type errors.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, sep } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");
const stampFile = join(dist, ".stamp");
const lockFile = join(dist, ".lock");
const typesFolder = join(dist, "types");

/** What decides how dist/ looks: a change in any of these makes it stale. */
const sourceFolders = ["shared", "rank", "coordinator", "examples"];
const sourceFiles = ["package.json", "tsconfig.json", "tsconfig.types.json", "tools/build.mjs"];

/** Entry point in dist/ (without .js) -> source; the examples join by name. */
const entries = {
  index: "rank/index.ts",
  rank: "rank/main.ts",
  conformance: "rank/conformance.ts",
  drill: "rank/drill.ts",
  bench: "rank/bench/program.ts",
  cli: "coordinator/cli/entry.ts",
};

/** The kernels: their source, what they are compiled to, and what the compiled ones were made of. */
const kernelSource = "rank/memory/simd/reduce.ts";
const kernelFile = join(dist, "reduce.wasm");
const kernelStampFile = join(dist, ".reduce-stamp");

/** They import a shared memory, of any size, and need no runtime: no allocation, no strings, no bounds of arrays. */
const kernelOptions =
  "-O3 --noAssert --runtime stub --enable simd,threads --importMemory --sharedMemory --initialMemory 1 --maximumMemory 65536".split(
    " ",
  );

/** Left as imports: esbuild has a binary beside it. The rest is bundled, for a rank's start. */
const external = ["esbuild", "msgpackr-extract", "bufferutil", "utf-8-validate"];

/** ws and msgpackr look for native helpers at start; these answers settle it without touching the disk. */
const define = {
  "process.env.MSGPACKR_NATIVE_ACCELERATION_DISABLED": '"true"',
  "process.env.WS_NO_BUFFER_UTIL": '"1"',
  "process.env.WS_NO_UTF_8_VALIDATE": '"1"',
};

/** A lock older than this belongs to a build that died in another pid namespace. */
const lockStaleMs = 120_000;

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  process.exitCode = process.argv.includes("--if-stale") ? await buildIfStale() : await build();
}

/**
 * Builds what is missing or out of date.
 * @returns {Promise<number>} 0, or the exit code that says what failed
 */
export async function buildIfStale() {
  if (await isFresh()) return 0;
  return withLock(async () => {
    if (await isFresh()) return 0; // another process was faster
    note("dist is stale, building it");
    return run({ declarations: !existsSync(typesFolder) });
  });
}

/**
 * Builds everything.
 * @returns {Promise<number>} 0, or the exit code that says what failed
 */
async function build() {
  return withLock(() => run({ declarations: true }));
}

/**
 * @param {{ declarations: boolean }} what
 * @returns {Promise<number>}
 */
async function run({ declarations }) {
  const stamp = await sourceStamp(); // taken first: an edit during the build leaves dist stale
  const [bundled, compiled, typed] = await Promise.all([bundle(), compileKernels(), declarations ? declare() : true]);
  if (!bundled || !compiled) return 1;
  await writeWhole(stampFile, stamp);
  return typed ? 0 : 2;
}

/** One esbuild call with splitting: every module exists once, whichever entry points a process loads. */
async function bundle() {
  const { build: esbuild } = await import("esbuild");
  const started = performance.now();
  const result = await esbuild({
    absWorkingDir: root,
    entryPoints: await entryPoints(),
    outdir: "dist",
    chunkNames: "chunks/[name]-[hash]",
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20",
    tsconfig: "tsconfig.json", // its paths make "rankwise" the source of the index
    sourcemap: "linked",
    external,
    define,
    write: false,
    logLevel: "warning",
  }).catch(() => undefined); // esbuild has printed its errors
  if (result === undefined) return false;

  // Chunks have their content in their name and come first, so that a reader never meets half a build.
  const text = new Map(result.outputFiles.map((file) => [file.path, file.text]));
  const isChunk = (/** @type {string} */ path) => path.startsWith(join(dist, "chunks") + sep);
  const scripts = [...text.keys()].filter((path) => path.endsWith(".js"));
  for (const path of scripts.sort((a, b) => Number(isChunk(b)) - Number(isChunk(a)))) {
    const code = text.get(path) ?? "";
    const before = linesBefore(path, code);
    const map = text.get(`${path}.map`) ?? "";
    await writeWhole(`${path}.map`, map.replace('"mappings": "', `$&${";".repeat(before.length)}`));
    await writeWhole(path, [...before, code].join("\n"), path === join(dist, "cli.js") ? 0o755 : 0o644);
  }
  await removeOthers(new Set(text.keys()));
  note(`${scripts.length} scripts in ${Math.round(performance.now() - started)} ms`);
  return true;
}

/**
 * The SIMD kernels, compiled anew only when their source, the options or the compiler have changed: that takes seconds.
 * @returns {Promise<boolean>} false when they have errors
 */
async function compileKernels() {
  const compiler = assemblyScript();
  if (compiler === undefined) {
    note("no SIMD kernels: assemblyscript is missing"); // as after npm ci --omit=dev; reductions then do without
    return true;
  }
  const version = await readFile(join(dirname(compiler), "..", "package.json"));
  const parts = [await readFile(join(root, kernelSource)), version, kernelOptions.join(" ")];
  const stamp = parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest("hex");
  if (existsSync(kernelFile) && (await readFile(kernelStampFile, "utf8").catch(() => "")) === stamp) return true;
  const started = performance.now();
  const fresh = join(dist, `.reduce-${process.pid}.wasm`);
  await mkdir(dist, { recursive: true });
  const compiled = await succeeds([compiler, kernelSource, "--outFile", relative(root, fresh), ...kernelOptions]);
  if (compiled) {
    await rename(fresh, kernelFile);
    await writeWhole(kernelStampFile, stamp);
  }
  note(`SIMD kernels in ${Math.round(performance.now() - started)} ms`);
  return compiled;
}

/** The compiler of AssemblyScript, if it is installed. */
function assemblyScript() {
  try {
    return fileURLToPath(import.meta.resolve("assemblyscript/bin/asc.js"));
  } catch {
    return undefined;
  }
}

async function entryPoints() {
  const points = [];
  for (const [out, source] of Object.entries(entries)) {
    if (existsSync(join(root, source))) points.push({ in: source, out });
    else note(`${source} does not exist yet, skipping dist/${out}.js`);
  }
  for (const name of await namesIn(join(root, "examples"))) {
    if (name.endsWith(".ts") && !name.endsWith(".d.ts")) {
      points.push({ in: `examples/${name}`, out: `examples/${basename(name, ".ts")}` });
    }
  }
  return points;
}

/**
 * The lines that stand before bundled code: a hashbang for the command, a `require` for bundled CommonJS.
 * @param {string} path
 * @param {string} code
 */
function linesBefore(path, code) {
  const lines = [];
  if (path === join(dist, "cli.js")) lines.push("#!/usr/bin/env node");
  if (/\b__require\b/.test(code)) {
    lines.push('import { createRequire as createRequireHere } from "node:module";');
    lines.push("const require = createRequireHere(import.meta.url);");
  }
  return lines;
}

/**
 * The declarations of rank/index.ts and what it reaches.
 * @returns {Promise<boolean>} false when tsc found errors; what it could emit is in place all the same
 */
async function declare() {
  const modules = join(root, "node_modules");
  const compiler = join(modules, "typescript", "bin", "tsc");
  const missing = [join(root, entries.index), compiler, join(modules, "@types", "node")].find(
    (path) => !existsSync(path),
  );
  if (missing !== undefined) {
    note(`no declarations: ${relative(root, missing)} is missing`); // as after npm ci --omit=dev
    return true;
  }
  const fresh = join(dist, `.types-${process.pid}`);
  await mkdir(dist, { recursive: true });
  const typed = await succeeds([compiler, "-p", "tsconfig.types.json", "--outDir", fresh]);
  if (existsSync(fresh)) {
    await rm(typesFolder, { recursive: true, force: true });
    await rename(fresh, typesFolder);
  }
  return typed;
}

/**
 * Runs a compiler, which says on stderr what it has to say.
 * @param {string[]} command a script of this Node, and its arguments
 * @returns {Promise<boolean>}
 */
async function succeeds(command) {
  const child = spawn(process.execPath, command, { cwd: root, stdio: ["ignore", process.stderr, process.stderr] });
  /** @type {number | null} */
  const code = await new Promise((resolve, reject) => child.once("exit", resolve).once("error", reject));
  return code === 0;
}

async function isFresh() {
  const [stamp, built] = await Promise.all([sourceStamp(), readFile(stampFile, "utf8").catch(() => "")]);
  return stamp === built;
}

/** Every source with its modification time, as one string: it changes with an edit, a new file and a removed one. */
async function sourceStamp() {
  const nested = await Promise.all(sourceFolders.map((folder) => filesBelow(join(root, folder))));
  const paths = [...sourceFiles.map((file) => join(root, file)), ...nested.flat()].sort();
  const lines = await Promise.all(
    paths.map(async (path) => `${relative(root, path)} ${Math.floor((await stat(path)).mtimeMs)}\n`),
  );
  return lines.join("");
}

/**
 * @param {string} folder
 * @returns {Promise<string[]>}
 */
async function filesBelow(folder) {
  if (!existsSync(folder)) return [];
  const found = await readdir(folder, { recursive: true, withFileTypes: true });
  return found.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

/**
 * @param {string} folder
 * @returns {Promise<string[]>}
 */
async function namesIn(folder) {
  return existsSync(folder) ? (await readdir(folder)).sort() : [];
}

/**
 * Removes what an earlier build left, except the declarations and this tool's own files.
 * @param {Set<string>} keep
 */
async function removeOthers(keep) {
  for (const path of await filesBelow(dist)) {
    const own = relative(dist, path).startsWith(".") || path.startsWith(typesFolder + sep);
    if (!own && path !== kernelFile && !keep.has(path)) await rm(path, { force: true });
  }
}

/**
 * Writes beside the target and renames, so that a reader sees the old file or the new one.
 * @param {string} path
 * @param {string | Uint8Array} content
 */
async function writeWhole(path, content, mode = 0o644) {
  await mkdir(dirname(path), { recursive: true });
  const partial = join(dist, `.partial-${process.pid}-${basename(path)}`); // two may be written at once
  await writeFile(partial, content);
  await chmod(partial, mode);
  await rename(partial, path);
}

/**
 * Runs one build at a time in this tree. Two builds at once would still be right (each file is renamed into place):
 * the lock saves the second one its work.
 * @param {() => Promise<number>} work
 */
async function withLock(work) {
  await mkdir(dist, { recursive: true });
  while (!(await takeLock())) await delay(50);
  try {
    return await work();
  } finally {
    await rm(lockFile, { force: true });
  }
}

async function takeLock() {
  try {
    const lock = await open(lockFile, "wx");
    await lock.writeFile(String(process.pid));
    await lock.close();
    return true;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== "EEXIST") throw error;
    if (await lockIsDead()) await rm(lockFile, { force: true });
    return false;
  }
}

async function lockIsDead() {
  try {
    if (Date.now() - (await stat(lockFile)).mtimeMs > lockStaleMs) return true;
    const owner = Number(await readFile(lockFile, "utf8"));
    if (owner > 0) process.kill(owner, 0);
    return false;
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === "ESRCH";
  }
}

/** @param {string} text */
function note(text) {
  process.stderr.write(`build: ${text}\n`);
}
