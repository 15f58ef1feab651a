// `npm run check`: every check of the tree that is not a test, one line for each, in sequence. Exits 1 when one fails.
//
//   node tools/check.mjs [step…]    only the steps named
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

process.env["NO_COLOR"] = "1"; // its output is read later, or by a machine
const root = fileURLToPath(new URL("..", import.meta.url));

/** @param {string} name */
const bin = (name) => join("node_modules", ".bin", name);
/** @param {string} name */
const tool = (name) => join("tools", `${name}.mjs`);

const folders = ["shared", "rank", "coordinator", "examples", "test", "tools"].filter((name) =>
  existsSync(join(root, name)),
);

/** Each step: what it proves, and the command (run by this Node) that proves it. */
const steps = {
  build: [tool("build")],
  format: [bin("prettier"), "--check", "--log-level", "warn", "."],
  lint: [bin("eslint"), "--max-warnings", "0", "."],
  types: [bin("tsc"), "--noEmit"],
  floors: [bin("depcruise"), "--output-type", "err-long", ...folders],
  unused: [bin("knip"), "--no-progress"],
  docs: [tool("docs"), "--check"],
  package: [bin("publint"), "--strict"],
  tidy: [tool("tidy")],
};

const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !(name in steps));
if (unknown.length > 0) throw new Error(`no step ${unknown.join(", ")}; there are ${Object.keys(steps).join(", ")}`);

let failed = 0;
for (const [name, command] of Object.entries(steps)) {
  if (asked.length > 0 && !asked.includes(name)) continue;
  const started = performance.now();
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { cwd: root, encoding: "utf8" });
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`${status === 0 ? "ok    " : "FAILED"}  ${name.padEnd(8)} ${seconds.padStart(5)} s`);
  if (status !== 0) {
    failed += 1;
    console.log(`${stdout}${stderr}`.trimEnd().replace(/^/gm, "        "));
  }
}
process.exitCode = failed === 0 ? 0 : 1;
