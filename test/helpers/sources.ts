/** What the sources declare, import and call, by their syntax trees: for tests that compare pages with the code. */
import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path/posix";
import ts from "typescript";
import { root } from "./markdown.ts";

/** One source file. */
export interface Source {
  /** From the project's folder. */
  readonly path: string;
  /** Every name that it declares, and the text of every string in it. */
  readonly names: ReadonlySet<string>;
  /** Paths of the project's files that it imports. */
  readonly imports: ReadonlySet<string>;
  /** Functions and methods, by `name` and `Class.name`: the names that each calls, without what stands before them. */
  readonly calls: ReadonlyMap<string, ReadonlySet<string>>;
}

/** The sources below some folders, by their path. */
export async function readSources(...folders: string[]): Promise<Map<string, Source>> {
  const sources = new Map<string, Source>();
  for (const folder of folders) {
    for (const name of await readdir(join(root, folder), { recursive: true })) {
      if (!name.endsWith(".ts")) continue;
      const path = join(folder, name);
      sources.set(path, readSource(path, await readFile(join(root, path), "utf8")));
    }
  }
  return sources;
}

function readSource(path: string, text: string): Source {
  const tree = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const names = new Set<string>();
  const imports = new Set<string>();
  const calls = new Map<string, Set<string>>();
  const visit = (node: ts.Node, owner: string | undefined, inside: readonly Set<string>[]): void => {
    const name = declaredName(node);
    if (name !== undefined) names.add(name);
    if (ts.isStringLiteralLike(node)) names.add(node.text);
    if (ts.isImportDeclaration(node) && ts.isStringLiteral(node.moduleSpecifier)) {
      if (node.moduleSpecifier.text.startsWith(".")) imports.add(join(dirname(path), node.moduleSpecifier.text));
    }
    if (ts.isCallExpression(node) || ts.isNewExpression(node)) {
      const callee = lastName(node.expression);
      for (const set of inside) if (callee !== undefined) set.add(callee);
    }
    let within = inside;
    if (name !== undefined && isFunction(node)) {
      const called = new Set<string>();
      calls.set(owner === undefined ? name : `${owner}.${name}`, called);
      within = [...inside, called];
    }
    const nextOwner = ts.isClassDeclaration(node) ? name : owner;
    ts.forEachChild(node, (child) => {
      visit(child, nextOwner, within);
    });
  };
  visit(tree, undefined, []);
  return { path, names, imports, calls };
}

function declaredName(node: ts.Node): string | undefined {
  if (ts.isConstructorDeclaration(node)) return "constructor";
  const { name } = node as Partial<ts.NamedDeclaration>;
  return name !== undefined && (ts.isIdentifier(name) || ts.isPrivateIdentifier(name)) ? name.text : undefined;
}

function isFunction(node: ts.Node): boolean {
  if (ts.isFunctionLike(node)) return true;
  // `readonly #pump = (): void => …`
  return ts.isPropertyDeclaration(node) && node.initializer !== undefined && ts.isArrowFunction(node.initializer);
}

function lastName(callee: ts.Expression): string | undefined {
  if (ts.isIdentifier(callee)) return callee.text;
  return ts.isPropertyAccessExpression(callee) ? callee.name.text : undefined;
}

/** The `@example` blocks of the comments below some folders. */
export async function readExamples(...folders: string[]): Promise<{ path: string; line: number; text: string }[]> {
  const examples: { path: string; line: number; text: string }[] = [];
  for (const folder of folders) {
    for (const name of await readdir(join(root, folder), { recursive: true })) {
      if (!name.endsWith(".ts")) continue;
      const source = await readFile(join(root, folder, name), "utf8");
      for (const match of source.matchAll(/^ *\* @example\n *\* ```ts\n((?: *\*.*\n)*?) *\* ```$/gmu)) {
        const line = source.slice(0, match.index).split("\n").length;
        const text = (match[1] ?? "").replaceAll(/^ *\* ?/gmu, "");
        examples.push({ path: join(folder, name), line, text });
      }
    }
  }
  return examples;
}
