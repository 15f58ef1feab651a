/** Reads the pages of the documentation: their fenced blocks, tables, code spans and links. */
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join, sep } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of the project. */
export const root = fileURLToPath(new URL("../..", import.meta.url));

/** A fenced block. */
export interface Block {
  readonly lang: string;
  /** `file=NAME` behind the language: the block is that file. */
  readonly file: string | undefined;
  readonly text: string;
  /** Line of the fence in its page, from 1. */
  readonly line: number;
}

/** A table, row by row, each row by the names of its columns. */
export interface Table {
  readonly columns: readonly string[];
  readonly rows: readonly Readonly<Record<string, string>>[];
  readonly line: number;
}

/** A page. */
export interface Page {
  /** From the project's folder, with slashes. */
  readonly path: string;
  readonly blocks: readonly Block[];
  readonly tables: readonly Table[];
  /** The text outside of the blocks. */
  readonly prose: string;
}

/** README.md and every page below docs/, except what `npm run docs` generates from comments. */
export async function handwrittenPages(): Promise<Page[]> {
  const found = await pagePaths();
  return await Promise.all(found.filter((path) => !path.startsWith("docs/reference/api/")).map(readPage));
}

/** The paths of README.md and of every page below docs/. */
export async function pagePaths(): Promise<string[]> {
  const docs = await readdir(join(root, "docs"), { recursive: true });
  const pages = docs.filter((name) => name.endsWith(".md")).map((name) => `docs/${name.split(sep).join("/")}`);
  return ["README.md", ...pages.sort()];
}

/** Reads one page. */
export async function readPage(path: string): Promise<Page> {
  return parsePage(path, await readFile(join(root, path), "utf8"));
}

/** Takes a page apart. */
function parsePage(path: string, source: string): Page {
  const blocks: Block[] = [];
  const prose: string[] = [];
  let open: { fence: string; info: string; lines: string[]; line: number } | undefined;
  for (const [at, line] of source.split("\n").entries()) {
    if (open === undefined) {
      const [, fence, info = ""] = /^\s*(`{3,})(.*)$/u.exec(line) ?? [];
      if (fence === undefined) prose.push(line);
      else open = { fence, info, lines: [], line: at + 1 };
    } else if (line.trim() === open.fence) {
      blocks.push(asBlock(open));
      prose.push(...Array<string>(open.lines.length + 2).fill("")); // lines keep their numbers
      open = undefined;
    } else open.lines.push(line);
  }
  if (open !== undefined) throw new Error(`${path}:${open.line}: the block is never closed`);
  return { path, blocks, tables: tablesIn(prose), prose: prose.join("\n") };
}

/** The code spans of a text: what stands between backticks. */
export function codeSpans(text: string): string[] {
  return [...text.matchAll(/`([^`\n]+)`/gu)].map(([, code = ""]) => code);
}

/** The targets of a page's links that do not exist in the tree. */
export function brokenLinks({ path, prose }: Pick<Page, "path" | "prose">): string[] {
  const folder = join(root, path, "..");
  const targets = [...prose.matchAll(/\]\(([^)\s]+)\)/gu)].map(([, target = ""]) => target);
  return targets.filter((target) => {
    const [file = ""] = target.split("#");
    return !/^[a-z]+:/u.test(target) && file !== "" && !existsSync(join(folder, decodeURIComponent(file)));
  });
}

function asBlock({ info, lines, line }: { info: string; lines: string[]; line: number }): Block {
  const [lang = "", ...words] = info.trim().split(/\s+/u);
  const file = words.find((word) => word.startsWith("file="))?.slice("file=".length);
  return { lang, file, text: `${lines.join("\n")}\n`, line };
}

function tablesIn(lines: readonly string[]): Table[] {
  const tables: Table[] = [];
  for (const [at, line] of lines.entries()) {
    if (!/^\|[\s|:-]+\|$/u.test(line)) continue; // the line below a table's head
    const columns = cells(lines[at - 1] ?? "");
    const rows: Record<string, string>[] = [];
    for (let next = at + 1; lines[next]?.startsWith("|") === true; next++) {
      const row = cells(lines[next] ?? "");
      rows.push(Object.fromEntries(columns.map((name, index) => [name, row[index] ?? ""])));
    }
    tables.push({ columns, rows, line: at });
  }
  return tables;
}

/** The cells of a table's line; `\|` is a bar in a cell. */
function cells(line: string): string[] {
  const [, ...parts] = line.split(/(?<!\\)\|/u);
  return parts.slice(0, -1).map((cell) => cell.trim().replaceAll("\\|", "|"));
}
