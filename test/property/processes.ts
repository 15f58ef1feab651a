/** Random programs on real processes: many programs in one job. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runCli } from "../helpers/cli.ts";
import { range } from "../helpers/ranks.ts";
import { firstDisagreement, samplePrograms } from "./agreement.ts";
import type { Observations } from "./interpret.ts";

const fixture = fileURLToPath(new URL("../fixtures/programs/primitives.ts", import.meta.url));

/** Ranks of the job; smaller programs run in a group of it. */
const NRANKS = 4;

/** Rejects when what the processes saw contradicts the memory model. */
export async function checkOnProcesses(count: number, seed: number, transport: "tcp" | "unix"): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "programs-"));
  try {
    const programs = samplePrograms(count, seed);
    const file = join(folder, "programs.json");
    await writeFile(file, JSON.stringify(programs));
    const args = ["run", fixture, "-n", String(NRANKS), "--transport", transport, "--wait-timeout", "20s"];
    const { exitCode, text } = await runCli([...args, "--", file, folder], { timeoutMs: 120_000 });
    if (exitCode !== 0) throw new Error(text);
    const observed = await Promise.all(
      range(NRANKS).map(async (rank) => {
        return JSON.parse(await readFile(join(folder, `rank-${rank}.json`), "utf8")) as Observations[];
      }),
    );
    const disagreement = firstDisagreement(programs, observed);
    if (disagreement !== undefined) throw new Error(disagreement);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
