import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** A house that keeps the rules: path -> content. The tests below add to it what breaks them. */
const sound = {
  "shared/constants.ts": "export const LINKS_MAX = 4;",
  "shared/errors.ts": 'import "./constants.ts";',
  "shared/trace/recorder.ts": 'import "./event.ts"; import "../errors.ts";',
  "shared/trace/event.ts": "export {};",
  "rank/index.ts": 'import "./comm.ts";',
  "rank/comm.ts": 'import "../shared/errors.ts";',
  "coordinator/launcher.ts": 'import "../shared/trace/recorder.ts";',
  "coordinator/cli/main.ts": 'import "commander"; import "../launcher.ts"; import "../../rank/index.ts";',
  "examples/01-hello.ts": 'import { type Comm } from "rankwise";',
  "test/unit/comm.test.ts": 'import "../../rank/comm.ts"; import "../../examples/01-hello.ts";',
  "node_modules/commander/package.json": '{ "name": "commander", "version": "14.0.3", "main": "index.js" }',
  "node_modules/commander/index.js": "",
  "package.json": '{ "name": "house", "dependencies": { "commander": "14.0.3" } }',
};

test("this tree keeps the rules", async () => {
  expect(await breachesOf(root)).toEqual([]);
});

test("a sound house keeps the rules", async () => {
  expect(await breachesOfHouse({})).toEqual([]);
});

test("each part of shared/ may import only what stands before it", async () => {
  const order =
    "constants errors assert async liveness random auth half dtype shape frame messages codec config cost stats trace report log";
  const parts = order.split(" ");
  const above = (at: number): string => `shared/${parts[at + 1]}.ts`;
  const files = parts.map((part, at) => [
    `shared/${part}.ts`,
    at + 1 < parts.length ? `import "../${above(at)}";` : "",
  ]);
  expect(await breachesOfHouse(Object.fromEntries(files) as Record<string, string>)).toEqual(
    parts
      .slice(0, -1)
      .map((part, at) => `shared-order-${part}: shared/${part}.ts -> ${above(at)}`)
      .sort(),
  );
});

describe("a file may not import", () => {
  /** One file, the one thing that it imports, and the rule that forbids it. */
  const cases = [
    ["shared/errors/to-rank.ts", "../../rank/comm.ts", "shared-is-lowest"],
    ["shared/errors/to-coordinator.ts", "../../coordinator/launcher.ts", "shared-is-lowest"],
    ["shared/errors/to-example.ts", "../../examples/01-hello.ts", "shared-is-lowest"],
    ["shared/errors/to-test.ts", "../../test/unit/comm.test.ts", "shared-is-lowest"],
    ["shared/constants/to-errors.ts", "../errors.ts", "shared-order-constants"],
    ["rank/to-unordered.ts", "../shared/helpers.ts", "shared-has-an-order"],
    ["rank/to-coordinator.ts", "../coordinator/launcher.ts", "rank-meets-coordinator-over-the-wire"],
    ["rank/to-cli.ts", "../coordinator/cli/main.ts", "rank-meets-coordinator-over-the-wire"],
    ["rank/to-commander.ts", "commander", "only-the-cli-parses-commands"],
    ["rank/to-nowhere.ts", "./missing.ts", "no-unresolvable"],
    ["coordinator/to-rank.ts", "../rank/comm.ts", "coordinator-meets-rank-over-the-wire"],
    ["coordinator/to-cli.ts", "./cli/main.ts", "coordinator-meets-rank-over-the-wire"],
    ["coordinator/to-commander.ts", "commander", "only-the-cli-parses-commands"],
    ["coordinator/cli/to-example.ts", "../../examples/01-hello.ts", "cli-is-above-rank-and-coordinator"],
    ["examples/to-shared.ts", "../shared/errors.ts", "examples-import-only-rankwise"],
    ["examples/to-node.ts", "node:fs", "examples-import-only-rankwise"],
    ["examples/to-source.ts", "../rank/index.ts", "examples-import-rankwise-by-name"],
  ] as const;
  let found: string[];

  beforeAll(async () => {
    // As a type: what is erased at run time still couples the floors.
    const files = cases.map(([from, to]) => [from, `import type {} from "${to}";`]);
    found = await breachesOfHouse({ ...Object.fromEntries(files), "shared/helpers.ts": "" } as Record<string, string>);
  });

  test.each(cases)("%s -> %s", (from, _to, rule) => {
    expect(found).toContainEqual(expect.stringContaining(`${rule}: ${from} -> `));
  });
});

test("two files may not import each other", async () => {
  const files = { "rank/put.ts": 'import "./get.ts";', "rank/get.ts": 'import "./put.ts";' };
  expect(await breachesOfHouse(files)).toContainEqual(expect.stringMatching(/^no-circular: /));
});

/** What the project's rules find in the sound house with some files added, each as `rule: from -> to`. */
async function breachesOfHouse(files: Record<string, string>): Promise<string[]> {
  const house = await mkdtemp(join(tmpdir(), "rankwise-floors-"));
  try {
    for (const [path, content] of Object.entries({ ...sound, ...files })) {
      await mkdir(dirname(join(house, path)), { recursive: true });
      await writeFile(join(house, path), content);
    }
    await copyFile(join(root, "tsconfig.json"), join(house, "tsconfig.json"));
    return await breachesOf(house);
  } finally {
    await rm(house, { recursive: true, force: true });
  }
}

/** Runs dependency-cruiser as `npm run check` does. */
async function breachesOf(house: string): Promise<string[]> {
  const bin = join(root, "node_modules/dependency-cruiser/bin/dependency-cruise.mjs");
  const floors = ["shared", "rank", "coordinator", "examples", "test"].filter((name) => existsSync(join(house, name)));
  const args = [bin, "--config", join(root, ".dependency-cruiser.cjs"), "--output-type", "json", ...floors];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: house, maxBuffer: 2 ** 26 });
  const { summary } = JSON.parse(stdout) as Cruise;
  return summary.violations.map(({ rule, from, to }) => `${rule.name}: ${from} -> ${to}`).sort();
}

interface Cruise {
  readonly summary: { readonly violations: { rule: { name: string }; from: string; to: string }[] };
}
