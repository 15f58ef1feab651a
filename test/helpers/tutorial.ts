/** The programs of the tutorial, the mistakes that its pages list, and what their cost cards say. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Comm } from "../../rank/comm.ts";
import type { Mode } from "../../shared/config.ts";
import { codeSpans, type Page, root, type Table } from "./markdown.ts";

/** A program of `examples/`, in one of its modes. */
export interface TutorialProgram {
  /** As the command line knows it. */
  readonly name: string;
  /** Its page. */
  readonly page: string;
  readonly mode: Mode;
  readonly main: (comm: Comm) => Promise<void>;
}

/** Programs up to 16, each in each of its modes. Those behind belong to no collective of their own. */
export async function tutorialPrograms(): Promise<TutorialProgram[]> {
  const programs: TutorialProgram[] = [];
  for (const file of (await readdir(join(root, "examples"))).sort()) {
    const [, number = "", title = ""] = /^(\d+)-([a-z\d-]+)\.ts$/u.exec(file) ?? [];
    if (title === "" || Number(number) > 16) continue;
    const { default: main, modes = ["hand"] } = await importModule<{
      default: TutorialProgram["main"];
      modes?: readonly Mode[];
    }>("examples", file);
    const page = `docs/tutorial/${number}-${title}.md`;
    for (const mode of modes) programs.push({ name: title.replaceAll("-", "_"), page, mode, main });
  }
  return programs;
}

/** A program that makes one mistake, and what it must be told. */
export interface WrongProgram {
  readonly name: string;
  /** The error, `CODE: message`, with `…` for what may differ. */
  readonly symptom: string;
  readonly main: (comm: Comm) => Promise<void>;
}

/** The programs of `test/fixtures/wrong`. */
export async function wrongPrograms(): Promise<WrongProgram[]> {
  const files = await readdir(join(root, "test/fixtures/wrong"));
  return await Promise.all(
    files.sort().map(async (file) => {
      const module = await importModule<{ default: WrongProgram["main"]; symptom: string }>(
        "test/fixtures/wrong",
        file,
      );
      return { name: file.replace(/\.ts$/u, ""), symptom: module.symptom, main: module.default };
    }),
  );
}

/** What a text with `…` in it matches, whole. */
export function symptomPattern(symptom: string): RegExp {
  const parts = symptom.split("…").map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|/]/gu, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`, "su");
}

/** The symptoms that a page lists. */
export function symptomsOf(page: Page): string[] {
  const table = page.tables.find(({ columns }) => columns.join() === "Symptom,Likely cause,Fix");
  return (table?.rows ?? []).map((row) => codeSpans(row["Symptom"] ?? "")[0] ?? "");
}

/** The cost card of a page: the table whose first column is called `counter`. */
export function costCard(page: Page): Table {
  const card = page.tables.find(({ columns }) => columns[0] === "counter");
  if (card === undefined) throw new Error(`${page.path} has no cost card`);
  return card;
}

/** The value of a formula like `2 · (P − 1)`: numbers, P, · + − and parentheses. */
export function evaluate(formula: string, nranks: number): number {
  const tokens = formula.match(/\d+|P|[·+−()]/gu) ?? [];
  if (tokens.join("") !== formula.replaceAll(/\s/gu, "")) throw new Error(`not a formula: ${formula}`);
  let at = 0;
  const factor = (): number => {
    const token = tokens[at++];
    if (token === "P") return nranks;
    if (token !== "(") return Number(token);
    const value = sum();
    at++; // the closing parenthesis
    return value;
  };
  const product = (): number => {
    let value = factor();
    while (tokens[at] === "·") {
      at++;
      value *= factor();
    }
    return value;
  };
  const sum = (): number => {
    let value = product();
    while (tokens[at] === "+" || tokens[at] === "−") value += tokens[at++] === "+" ? product() : -product();
    return value;
  };
  return sum();
}

async function importModule<T>(folder: string, file: string): Promise<T> {
  return (await import(/* @vite-ignore */ pathToFileURL(join(root, folder, file)).href)) as T;
}
