// Long proofs that no test run has the time for: `npm run campaign -- NAME [--seed N] [--runs N]`, with
// arguments for those that take some. Exits 1 when one fails, naming the seed that repeats it.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { buildIfStale } from "./build.mjs";
import { importTypeScript } from "./import-typescript.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = join(root, "test", "campaigns");

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seed: { type: "string", default: "1" }, runs: { type: "string" } },
});
const [name = "", ...args] = positionals;
const names = readdirSync(folder)
  .filter((file) => file !== "campaign.ts")
  .map((file) => file.replace(/\.ts$/u, ""));
const seed = Number(values.seed);
const asked = values.runs === undefined ? undefined : Number(values.runs);

if (!existsSync(join(folder, `${name}.ts`)) || !names.includes(name)) {
  fail(2, `which campaign? npm run campaign -- ${names.join("|")} [--seed N] [--runs N]`);
}
if (!Number.isSafeInteger(seed) || seed < 0 || (asked !== undefined && !(Number.isSafeInteger(asked) && asked > 0))) {
  fail(2, "--seed and --runs are whole numbers, --runs above 0");
}
if ((await buildIfStale()) !== 0) fail(1, "dist cannot be built; see the messages above");

const module = await importTypeScript(join(folder, `${name}.ts`));
const { campaign } = /** @type {{ campaign: import("../test/campaigns/campaign.ts").Campaign }} */ (module);
if (args.length > 0 && campaign.takes === undefined) fail(2, `campaign ${name} takes no arguments: ${args.join(" ")}`);
const runs = asked ?? campaign.runs;
const started = performance.now();
try {
  await campaign.start({ seed, runs, args, say: (line) => console.log(line) });
} catch (error) {
  console.error(error);
  fail(1, `campaign ${name} has failed`);
}
console.log(
  `campaign ${name}, seed ${seed}, ${runs} runs: passed in ${Math.round((performance.now() - started) / 1000)} s`,
);
process.exit(0);

/**
 * @param {number} code
 * @param {string} message
 * @returns {never}
 */
function fail(code, message) {
  console.error(message);
  process.exit(code);
}
