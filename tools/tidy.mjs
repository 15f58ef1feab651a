// The house rules that no other tool knows. Prints each breach as `file:line: what`, and exits 1 when there is one.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { loadErrorTable } from "./error-table.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));

const breaches = [
  ...(await processUses()),
  ...(await untestedErrors()),
  ...(await machinePaths()),
  ...(await lockedRegistries()),
  ...(await foreignDeclarations()),
];
for (const breach of breaches) console.log(breach);
process.exitCode = breaches.length === 0 ? 0 : 1;

/** Only the command line and the rank's entry print on stdout, read arguments and decide how the process ends. */
async function processUses() {
  const allowed = /^(coordinator\/cli\/|rank\/main[^/]*\.ts$)/;
  const restricted = /^(shared|rank|coordinator)\/.*\.ts$/;
  const found = [];
  for (const path of trackedFiles().filter((file) => restricted.test(file) && !allowed.test(file))) {
    const source = ts.createSourceFile(path, await read(path), ts.ScriptTarget.Latest, true);
    for (const { line, name } of processNames(source)) {
      found.push(`${path}:${line}: ${name} belongs to coordinator/cli and rank/main`);
    }
  }
  return found;
}

/** @param {ts.SourceFile} source */
function processNames(source) {
  const members = new Set(["stdout", "argv", "exit", "exitCode", "reallyExit", "abort"]);
  const toStderr = new Set(["error", "warn", "trace"]);
  /** @type {{ line: number, name: string }[]} */
  const names = [];
  /** @type {(node: ts.Node) => void} */
  const visit = (node) => {
    if (ts.isPropertyAccessExpression(node)) {
      const owner = node.expression.getText(source).replace(/^globalThis\./, "");
      const name = node.name.text;
      if ((owner === "process" && members.has(name)) || (owner === "console" && !toStderr.has(name))) {
        names.push({ line: lineOf(source, node), name: `${owner}.${name}` });
      }
    }
    if (ts.isImportDeclaration(node) && /["'](node:)?process["']/.test(node.moduleSpecifier.getText(source))) {
      const bindings = node.importClause?.namedBindings;
      for (const element of bindings && ts.isNamedImports(bindings) ? bindings.elements : []) {
        const name = (element.propertyName ?? element.name).text;
        if (members.has(name)) names.push({ line: lineOf(source, node), name: `process.${name}` });
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return names;
}

/** Every error code is expected, or at least named, by a test. */
async function untestedErrors() {
  const tests = await Promise.all(
    trackedFiles()
      .filter((file) => file.startsWith("test/"))
      .map(read),
  );
  const named = new Set(tests.join("\n").match(/\bERR_[A-Z0-9_]+\b/g) ?? []);
  const codes = Object.keys(await loadErrorTable(root));
  return codes.filter((code) => !named.has(code)).map((code) => `shared/errors.ts: no test mentions ${code}`);
}

/** The tree means the same on every machine: no file in it names a folder of one. */
async function machinePaths() {
  const folders = ["home", "Users", "root", "work", "mnt", "private", "tmp/[a-z]+"].join("|");
  const pattern = new RegExp(`(?<![\\w.~:/-])/(?:${folders})/[\\w.-]`);
  const found = [];
  for (const path of trackedFiles().filter((file) => file !== "package-lock.json")) {
    const lines = (await read(path)).split("\n");
    for (const [at, line] of lines.entries()) {
      const machine = pattern.exec(line)?.[0] ?? (line.includes(root) ? root : undefined);
      if (machine !== undefined) found.push(`${path}:${at + 1}: a path of one machine: ${machine}…`);
    }
  }
  return found;
}

/** The lock file installs from whichever registry npm is set to. */
async function lockedRegistries() {
  const lock = /** @type {{ packages: Record<string, { resolved?: string }> }} */ (
    JSON.parse(await read("package-lock.json"))
  );
  return Object.entries(lock.packages)
    .filter(([, entry]) => entry.resolved !== undefined)
    .map(([name]) => `package-lock.json: ${name} names its registry; run npm install with the project's .npmrc`);
}

/** The declarations in dist/types need nothing that a user of the package may not have. */
async function foreignDeclarations() {
  const folder = join(root, "dist", "types");
  if (!existsSync(folder)) return [];
  /** @type {{ dependencies: Record<string, string> }} */
  const { dependencies } = JSON.parse(await read("package.json"));
  const found = [];
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.name.endsWith(".d.ts")) continue;
    const whole = await readFile(join(entry.parentPath, entry.name), "utf8");
    const text = whole.replace(/\/\*[^]*?\*\//gu, ""); // examples in comments import rankwise
    for (const [, name] of text.matchAll(/(?:from|import\() ?"([^"]+)"/g)) {
      if (name !== undefined && !/^(\.|node:)/.test(name) && !Object.hasOwn(dependencies, name))
        found.push(`the declarations of ${entry.name} import ${name}`);
    }
  }
  return found;
}

/** Text files of the tree, committed or about to be. */
function trackedFiles() {
  const list = execFileSync(
    "git",
    ["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
    { cwd: root },
  );
  return [...new Set(list.toString().split("\0"))].filter(
    (file) => file !== "" && existsSync(join(root, file)) && !/\.(png|svg|gif|ico|bin|gz)$/.test(file),
  );
}

/** @param {string} path */
function read(path) {
  return readFile(join(root, path), "utf8");
}

/**
 * @param {ts.SourceFile} source
 * @param {ts.Node} node
 */
function lineOf(source, node) {
  return source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1;
}
