import { describe, expect, test } from "vitest";
import type { Counters } from "../../shared/messages.ts";
import type { RunReport } from "../../shared/report.ts";
import { codeSpans, pagePaths, readPage, type Table } from "../helpers/markdown.ts";
import { runReported } from "../helpers/run.ts";
import { costCard, evaluate, symptomsOf, tutorialPrograms, wrongPrograms } from "../helpers/tutorial.ts";

const programs = await tutorialPrograms();
const paths = [...new Set(programs.map(({ page }) => page))];
/** Its author's tests, in docs-facts.test.ts, know this page's card and edge cases. */
const modelPage = "docs/tutorial/15-all-to-all.md";

describe("prints OK, and costs what its page says", async () => {
  const runs = [];
  for (const program of programs) {
    const card = program.page === modelPage ? undefined : costCard(await readPage(program.page));
    for (const nranks of [2, 3, 4]) runs.push({ ...program, nranks, card, transport: "auto" });
    // other numbers of ranks, and many seeds, on this transport: test/unit/examples
    runs.push({ ...program, nranks: 3, card, transport: "inproc" });
  }

  test.concurrent.each(runs)("$name, $mode, $nranks ranks, $transport", async (run) => {
    const { name, mode, nranks, transport } = run;
    const options = ["-n", String(nranks), "--mode", mode, "--transport", transport, "--seed", String(nranks)];
    const { report, ...result } = await runReported([name, ...options]);
    expect(result.stdout, result.text).toBe("OK\n");
    expect(result.stderr).toBe("");
    expect(result.exitCode).toBe(0);
    if (run.card !== undefined) expectCost(run.card, mode, report);
  });
});

describe.each(paths)("%s", async (path) => {
  const page = await readPage(path);

  test("has every section, in order", () => {
    const headings = [...page.prose.matchAll(/^## (.*)$/gmu)].map(([, heading]) => heading);
    expect(headings).toEqual(["The idea", "Run it", "Expected output", "Walkthrough", "Cost card", "Edge cases"]);
  });

  test("its number and source are its program's", () => {
    const [, file = ""] = /tutorial\/(.*)\.md$/u.exec(path) ?? [];
    expect(page.prose).toMatch(new RegExp(`^# ${file.slice(0, 2)} · `, "u"));
    expect(page.prose).toContain(`(../../examples/${file}.ts)`);
  });

  test("every mode of its program is run on it", () => {
    const commands = page.blocks.filter(({ lang }) => lang === "sh").map(({ text }) => text);
    for (const { name, mode } of programs.filter((program) => program.page === path)) {
      const command = new RegExp(`rankwise -- run ${name} -n \\d${mode === "hand" ? "" : ` --mode ${mode}`}\n`, "u");
      expect(commands.join("")).toMatch(command);
    }
  });

  // page 15 was there before the wrong programs; docs-facts.test.ts makes its symptoms happen
  if (path === modelPage) return;
  test("each symptom on it is what some wrong program is told", async () => {
    const told = (await wrongPrograms()).map(({ symptom }) => symptom);
    const listed = symptomsOf(page);
    expect(listed.length).toBeGreaterThan(3);
    expect(listed.filter((symptom) => !told.includes(symptom))).toEqual([]);
  });
});

test("every wrong program's symptom is on some page", async () => {
  const all = (await pagePaths()).filter((path) => path.startsWith("docs/tutorial/"));
  const pages = await Promise.all(all.map(readPage));
  const listed = new Set(pages.flatMap(symptomsOf));
  expect((await wrongPrograms()).filter(({ symptom }) => !listed.has(symptom)).map(({ name }) => name)).toEqual([]);
});

test("the list of pages has each of them, with its program, in order", async () => {
  const [table] = (await readPage("docs/tutorial/README.md")).tables;
  const rows = (table?.rows ?? []).map((row) => ({
    page: `docs/tutorial/${/\]\((.*)\)/u.exec(row["page"] ?? "")?.[1] ?? ""}`,
    name: codeSpans(row["program"] ?? "")[0],
  }));
  const expected = paths.map((page) => ({ page, name: programs.find((program) => program.page === page)?.name }));
  expect(rows.slice(0, expected.length)).toEqual(expected);
});

/** Each row of a card: its formula at this P is what was counted, and so is the number that it names for this P. */
function expectCost(card: Table, mode: string, report: RunReport): void {
  const formulaColumn =
    mode === "builtin" ? "builtin" : (card.columns.find((name) => name === "by hand") ?? "each rank");
  for (const row of card.rows) {
    const cell = row["counter"] ?? "";
    const [counter] = codeSpans(cell) as [keyof Counters];
    const counts = report.ranks.map(({ counters }) => counters?.[counter] ?? Number.NaN);
    const found = cell.endsWith(", all ranks") ? [counts.reduce((sum, count) => sum + count, 0)] : counts;
    const expected = evaluate(row[formulaColumn] ?? "", report.nranks);
    expect(new Set(found), `${report.program}, ${mode}: ${cell}`).toEqual(new Set([expected]));
    const written = row[`${mode}, P = ${report.nranks}`];
    if (written !== undefined) expect(Number(written), cell).toBe(expected);
  }
}
