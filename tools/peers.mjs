// Other libraries and ours, measured in turn: `npm run -s peers -- [--ranks 2,4] [--rounds 3] [--rows all_to_all,barrier]
// [--peers mpi,gloo] [--python FILE] [--json FILE]`. Exits 1 when something could not be measured or was wrong, not when
// a target was missed, and not when a peer is not installed.

import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { buildIfStale } from "./build.mjs";
import { importTypeScript } from "./import-typescript.mjs";

const { values } = parseArgs({
  options: {
    ranks: { type: "string", default: "2,4,8,16" },
    rounds: { type: "string", default: "3" },
    rows: { type: "string", default: "" },
    peers: { type: "string", default: "" },
    python: { type: "string", default: "python3" },
    json: { type: "string" },
  },
});
const ranks = list(values.ranks).map(Number);
const rounds = Number(values.rounds);
if (!ranks.every((count) => Number.isSafeInteger(count) && count >= 2 && count <= 64)) {
  fail(2, "--ranks: numbers from 2 to 64, e.g. 2,4");
}
if (!Number.isSafeInteger(rounds) || rounds < 1) fail(2, "--rounds: a whole number above 0");
if ((await buildIfStale()) !== 0) fail(1, "dist cannot be built; see the messages above");

const { run } = /** @type {typeof import("../test/peers/run.ts")} */ (
  await importTypeScript(join(fileURLToPath(new URL("..", import.meta.url)), "test", "peers", "run.ts"))
);
try {
  await run({
    ranks,
    rounds,
    rows: list(values.rows),
    peers: list(values.peers),
    python: values.python,
    json: values.json === undefined ? undefined : resolve(process.env["INIT_CWD"] ?? ".", values.json),
    say: (line) => console.log(line),
    progress: (line) => console.error(line),
  });
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
process.exit(0);

/** @param {string} text */
function list(text) {
  return text.split(",").filter((item) => item !== "");
}

/**
 * @param {number} code
 * @param {string} message
 * @returns {never}
 */
function fail(code, message) {
  console.error(message);
  process.exit(code);
}
