/** Whether docs/reference/memory-model.md tells what the suite proves. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { codeSpans, readPage } from "../helpers/markdown.ts";
import { duties } from "./duties.ts";
import { mutants } from "./mutants.ts";
import { guarantees } from "./suite.ts";

const page = await readPage("docs/reference/memory-model.md");

test("names every guarantee with its line and its mutants, and no other", () => {
  const table = page.tables.find(({ columns }) => columns.includes("guarantee"));
  const written = table?.rows.map((row) => [row["line"], row["guarantee"], row["mutants that its test has caught"]]);
  const ours = guarantees.map(({ line, name }) => {
    const caught = mutants.filter(({ breaks }) => breaks === name);
    return [String(line), name, caught.map((mutant) => mutant.name).join("; ")];
  });
  expect(written).toEqual(ours);
});

test("names every duty of the caller with its line, ranks and seeds, and no other", () => {
  const table = page.tables.find(({ columns }) => columns.includes("duty"));
  const written = table?.rows.map((row) => [row["line"], row["duty"], row["ranks"], row["seeds"]]);
  expect(written).toEqual(duties.map((duty) => [duty.line, duty.name, duty.nranks, duty.seedsMax].map(String)));
});

test("names tests that exist", () => {
  const files = codeSpans(page.prose).filter((code) => code.startsWith("test/"));
  expect(files.length).toBeGreaterThan(10);
  expect(files.filter((file) => !existsSync(join(import.meta.dirname, "../..", file)))).toEqual([]);
});
