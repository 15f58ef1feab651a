import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { bundleProgram } from "../../../coordinator/bundle.ts";

const installed = pathToFileURL(fileURLToPath(new URL("../../../dist/index.js", import.meta.url))).href;

let folder: string;

beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "bundle-")));
  await mkdir(join(folder, "out"));
});
afterEach(() => rm(folder, { recursive: true }));

/** Writes source files below the folder; returns the first one's path. */
async function sources(files: Readonly<Record<string, string>>): Promise<string> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  return join(folder, Object.keys(files)[0] ?? "");
}

/** Bundles files, runs the default export of the result in a process of its own, and returns what it returns. */
async function run(files: Readonly<Record<string, string>>): Promise<unknown> {
  const bundle = await bundleProgram(await sources(files), join(folder, "out"));
  const script = `const { default: main } = await import(${JSON.stringify(pathToFileURL(bundle).href)});
    console.log(JSON.stringify(await main()));`;
  const { stdout } = await execa(process.execPath, ["--input-type=module", "-e", script], { cwd: tmpdir() });
  return JSON.parse(stdout);
}

async function failure(files: Readonly<Record<string, string>>): Promise<{ code: string; message: string }> {
  return bundleProgram(await sources(files), join(folder, "out")).then(
    () => expect.unreachable("it bundles"),
    (error: unknown) => error as { code: string; message: string },
  );
}

test.runIf(process.platform === "linux")("a full temporary folder is no error of the program's", async () => {
  await symlink("/dev/full", join(folder, "out", "main.mjs"));
  expect(await failure({ "main.ts": "export default () => 7;" })).toMatchObject({
    code: "ERR_TEMP_DIR",
    message: expect.stringMatching(
      /^the folder \S+ is full \(ENOSPC.*\); make room there, or name another one by TMPDIR$/u,
    ) as unknown,
  });
});

describe("what a program may import", () => {
  test("its own files, with and without types, JSON and built-in modules", async () => {
    const result = await run({
      "program.ts": `
        import { readFileSync } from "node:fs";
        import { sep } from "path";
        import { twice } from "./lib/twice.ts";
        import data from "./data.json" with { type: "json" };
        interface Shape { size: number }
        const shape: Shape = { size: twice(data.size) };
        export default async function main() {
          const { lazy } = await import("./lib/lazy.js");
          return { ...shape, sep, lazy, reads: typeof readFileSync };
        }`,
      "lib/twice.ts": "export const twice = (value: number): number => 2 * value;",
      "lib/lazy.js": "export const lazy = true;",
      "data.json": `{ "size": 21 }`,
    });
    expect(result).toEqual({ size: 42, sep: "/", lazy: true, reads: "function" });
  });

  test("rankwise, which is the running installation even where another is installed beside it", async () => {
    const result = await run({
      "program.ts": `
        import * as rankwise from "rankwise";
        export default () => ({ impostor: "impostor" in rankwise, set: rankwise.NotifyOp.Set });`,
      "node_modules/rankwise/package.json": `{ "name": "rankwise", "type": "module", "exports": "./index.js" }`,
      "node_modules/rankwise/index.js": "export const impostor = true; export const NotifyOp = {};",
    });
    expect(result).toEqual({ impostor: false, set: "set" });
  });

  test("packages beside the importing source, as Node would take them, each once", async () => {
    const result = await run({
      "program.ts": `
        import first, { count } from "counted";
        import second from "./nested/user.ts";
        import other from "@scope/other/deep";
        export default () => ({ same: first === second.first, nested: second.version, condition: other, count: count() });`,
      "nested/user.ts": `
        import first from "counted";
        import version from "versioned";
        export default { first, version };`,
      "nested/node_modules/versioned/package.json": `{ "name": "versioned", "main": "index.cjs" }`,
      "nested/node_modules/versioned/index.cjs": "module.exports = 'nested';",
      "node_modules/versioned/package.json": `{ "name": "versioned", "main": "index.cjs" }`,
      "node_modules/versioned/index.cjs": "module.exports = 'outer';",
      "node_modules/counted/package.json": `{ "name": "counted", "type": "module", "exports": "./index.js" }`,
      "node_modules/counted/index.js": `
        globalThis.loads = (globalThis.loads ?? 0) + 1;
        export const count = () => globalThis.loads;
        export default {};`,
      "node_modules/@scope/other/package.json": JSON.stringify({
        name: "@scope/other",
        exports: { "./deep": { module: "./bundler.js", import: "./node.mjs", require: "./node.cjs" } },
      }),
      "node_modules/@scope/other/bundler.js": "export default 'for bundlers';",
      "node_modules/@scope/other/node.mjs": "export default 'for import';",
      "node_modules/@scope/other/node.cjs": "module.exports = 'for require';",
    });
    expect(result).toEqual({ same: true, nested: "nested", condition: "for import", count: 1 });
  });

  test("a linked workspace and a path of its tsconfig, which are its own sources", async () => {
    await sources({
      "packages/shared/package.json": `{ "name": "shared", "type": "module", "exports": "./index.ts" }`,
      "packages/shared/index.ts": "export const shared: string = 'linked';",
      "tsconfig.json": `{ "compilerOptions": { "paths": { "#kit/*": ["./kit/*"], "kit/*": ["./kit/*"] } } }`,
      "kit/tool.ts": "export const tool: string = 'mapped';",
      "node_modules/.keep": "",
    });
    await symlink(join(folder, "packages/shared"), join(folder, "node_modules/shared"));
    const result = await run({
      "program.ts": `
        import { shared } from "shared";
        import { tool } from "kit/tool.ts";
        export default () => [shared, tool];`,
    });
    expect(result).toEqual(["linked", "mapped"]);
  });

  test("CommonJS of its own, and a require of its own making", async () => {
    const result = await run({
      "program.mjs": `
        import { createRequire } from "node:module";
        import legacy from "./legacy.cjs";
        const require = createRequire(import.meta.url);
        export default () => ({ legacy, own: require("./own.json") });`,
      "legacy.cjs": "const { sep } = require('node:path'); module.exports = { sep, cjs: true, got: require('thing') };",
      "own.json": `{ "own": true }`,
      "node_modules/thing/package.json": `{ "name": "thing", "main": "index.js" }`,
      "node_modules/thing/index.js": "module.exports = 'thing';",
    });
    expect(result).toEqual({ legacy: { sep: "/", cjs: true, got: "thing" }, own: { own: true } });
  });
});

test("import.meta goes on meaning each source file", async () => {
  const result = await run({
    "program.ts": `#!/usr/bin/env -S rankwise run
      import { where } from "./lib/where.ts";
      export default () => [import.meta.url, import.meta.dirname, where()];`,
    "lib/where.ts": "export const where = (): string => import.meta.filename;",
  });
  expect(result).toEqual([pathToFileURL(join(folder, "program.ts")).href, folder, join(folder, "lib", "where.ts")]);
});

test("the running installation is an absolute URL in the bundle", async () => {
  const path = await sources({ "program.ts": `export { NotifyOp as default } from "rankwise";` });
  const bundle = await bundleProgram(path, join(folder, "out"));
  const { stdout } = await execa("head", ["-c", "2000", bundle]);
  expect(stdout).toContain(installed);
});

describe("what is wrong is told with its place", () => {
  test("a syntax error", async () => {
    const { code, message } = await failure({ "program.ts": "const a = 1;\nexport default function main( {\n" });
    expect(code).toBe("ERR_PROGRAM_SYNTAX");
    expect(message).toMatch(new RegExp(`^${join(folder, "program.ts")}:\\d+:\\d+: `, "u"));
  });

  test("the column counts from 1, also in a line before which we put something", async () => {
    const plain = await failure({ "program.ts": "export default const;\n" });
    expect(plain.message).toContain("program.ts:1:16: ");
    const shifted = await failure({ "program.ts": "export default const; import.meta.url;\n" });
    expect(shifted.message).toContain("program.ts:1:16: ");
    const later = await failure({ "program.ts": "#!/usr/bin/node\nimport.meta.url;\nexport default const;\n" });
    expect(later.message).toContain("program.ts:3:16: ");
  });

  test("an import that cannot be found, of a file or of a package", async () => {
    const { code, message } = await failure({
      "program.ts": `import "./missing.ts";\nimport "no-such-package";\nexport default () => {};`,
    });
    expect(code).toBe("ERR_PROGRAM_SYNTAX");
    expect(message).toContain(`${join(folder, "program.ts")}:1:8: Could not resolve "./missing.ts"`);
    expect(message).toContain(`${join(folder, "program.ts")}:2:8: Could not resolve "no-such-package"`);
  });

  test("many errors are told in part", async () => {
    const lines = Array.from({ length: 9 }, (_, index) => `import "./missing-${index}.ts";`);
    expect((await failure({ "program.ts": lines.join("\n") })).message).toContain("… and 4 more");
  });

  test.each(["export const main = () => {};", ""])("no default export: %j", async (text) => {
    const { code, message } = await failure({ "program.ts": text });
    expect(code).toBe("ERR_PROGRAM_INVALID");
    expect(message).toContain("export default async function main(comm)");
  });
});
