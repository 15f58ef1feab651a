/**
 * Runs what the documentation tells its readers to run, and compares what comes out with what it shows.
 *
 * Conventions of a page, README.md or below docs/:
 *
 * - A block `sh` is run by bash, which stops at the first command that fails. A page's first block starts in the
 *   checkout, `~/rankwise`, each further one where the last one ended. `~/project` is a package of somebody else;
 *   `rankwise` is the built command.
 * - A block `text` is what the commands of the nearest block `sh` above print on both streams. `…` stands for anything
 *   in a line, and alone in a line for any lines. Pids, times, call numbers and the host's name may be any; 7000 is any
 *   free port. Lines of different ranks may come in any order; consequences and pending waits that are shown may be
 *   missing, and no others come.
 * - A block with `file=NAME` behind its language is that file in `~/project`. Every block `ts` is a whole module.
 * - A block without a language is a drawing.
 */
import { mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import ts from "typescript";
import { describe, expect, test } from "vitest";
import { parse as parseYaml } from "yaml";
import { Scratch } from "../helpers/cli.ts";
import { type Block, handwrittenPages, type Page, root } from "../helpers/markdown.ts";
import { readExamples } from "../helpers/sources.ts";

/** Lines of commands that do not run here: they install, or they need an engine. Who runs them instead, and where. */
const elsewhere: Readonly<Record<string, readonly { readonly file: string; readonly text: string }[]>> = {
  "npm ci && npm start": [
    { file: ".ci/run", text: "if npm ci; then" },
    { file: "test/e2e/docs.test.ts", text: 'test("npm start prints OK' },
  ],
  "npm ci && npm test": [
    { file: ".ci/run", text: "if npm ci; then" },
    { file: ".ci/run", text: "npm test --" },
  ],
  "npm ci": [{ file: ".ci/run", text: "if npm ci; then" }],
  "export RANKWISE_TOKEN=$(openssl rand -hex 16)": [
    { file: "test/helpers/compose-project.ts", text: "RANKWISE_TOKEN" },
  ],
  "docker-compose up --build --exit-code-from coordinator": [
    { file: "test/compose/all-to-all.test.ts", text: "prints OK, every rank in a container of its own" },
  ],
};

const pages = await handwrittenPages();

describe.each(pages.filter(({ blocks }) => blocks.length > 0))("$path", (page) => {
  test("its commands print what it shows", async () => {
    await using home = await Home.make(page);
    let commands: Block | undefined;
    for (const block of page.blocks) {
      if (block.file !== undefined) await home.write(block.file, block.text);
      if (block.lang === "sh") {
        commands = block;
        if (!isElsewhere(page, block)) await home.run(block);
      }
      if (block.lang === "text") {
        expect(commands, `${at(page, block)}: output without commands`).toBeDefined();
        const shown = normalised(block.text, home);
        const printed = withoutLateRows(normalised(home.printed, home), shown);
        expect(printed, at(page, block)).toMatch(pattern(withoutLateRows(shown, shown)));
      }
    }
  });

  test("its blocks are of a kind that is tested", () => {
    for (const block of page.blocks) {
      const where = at(page, block);
      expect(["sh", "text", "ts", "js", "json", "yaml", ""], where).toContain(block.lang);
      if (block.lang === "json") expect(() => JSON.parse(block.text) as unknown, where).not.toThrow();
      if (block.lang === "yaml") expect(() => parseYaml(block.text) as unknown, where).not.toThrow();
      const { file } = block;
      if (file === undefined) expect(block.lang, `${where}: a script that nobody runs`).not.toBe("js");
      else {
        const users = page.blocks.filter((other) => other !== block && other.text.includes(file));
        expect(users.length, `${where}: nothing in the page uses ${file}`).toBeGreaterThan(0);
      }
    }
  });
});

test("npm start prints OK from four rank processes", async () => {
  const { stdout, exitCode } = await execa("npm", ["start"], { cwd: root, env: environment(), extendEnv: false });
  expect(stdout.split("\n").at(-1)).toBe("OK");
  expect(exitCode).toBe(0);
});

test("every TypeScript block, and every @example of a comment, is a module that type-checks", async () => {
  const modules = new Map<string, { where: string; text: string }>();
  const add = (where: string, text: string): void => {
    modules.set(join(root, "docs", `block-${modules.size}.ts`), { where, text });
  };
  for (const page of pages) {
    for (const block of page.blocks) if (block.lang === "ts") add(at(page, block), block.text);
  }
  for (const { path, line, text } of await readExamples("rank", "shared")) add(`${path}:${line}`, text);
  expect(modules.size).toBeGreaterThan(10);
  expect(typeErrors(modules)).toEqual([]);
});

test("what does not run here runs where the list says", async () => {
  const lines = pages.flatMap(({ blocks }) => blocks.flatMap(commandLines));
  for (const [command, runners] of Object.entries(elsewhere)) {
    expect(lines, "no page has this command any more").toContain(command);
    for (const { file, text } of runners) {
      expect(await readFile(join(root, file), "utf8"), `${file} should run ${command}`).toContain(text);
    }
  }
});

/** A reader's home: the checkout in `~/rankwise`, a package of their own in `~/project`. */
class Home implements AsyncDisposable {
  /** What the last block has printed. */
  printed = "";
  readonly folder: string;
  readonly #page: Page;
  readonly #scratch: Scratch;
  readonly #port: number;
  #cwd: string;
  #all = "";

  private constructor(folder: string, page: Page, scratch: Scratch, port: number) {
    this.folder = folder;
    this.#page = page;
    this.#scratch = scratch;
    this.#port = port;
    this.#cwd = join(folder, "rankwise");
  }

  static async make(page: Page): Promise<Home> {
    const folder = await realpath(await mkdtemp(join(tmpdir(), "home-")));
    const project = join(folder, "project");
    for (const path of [join(folder, "bin"), project]) await mkdir(path);
    await writeFile(join(project, "package.json"), '{ "name": "project", "private": true, "type": "module" }\n');
    await symlink(root, join(folder, "rankwise"));
    await symlink(join(root, "dist", "cli.js"), join(folder, "bin", "rankwise"));
    if (page.blocks.some(({ lang }) => lang === "js")) {
      // its reader has installed them
      await mkdir(join(project, "node_modules"));
      for (const name of ["ws", "msgpackr"]) {
        await symlink(join(root, "node_modules", name), join(project, "node_modules", name));
      }
    }
    return new Home(folder, page, await Scratch.make(), await freePort());
  }

  async write(file: string, text: string): Promise<void> {
    await writeFile(join(this.folder, "project", file), text);
  }

  /** Runs the commands of a block; fails when one of them does. */
  async run(block: Block): Promise<void> {
    const state = join(this.folder, ".cwd");
    const commands = block.text.replaceAll("7000", String(this.#port));
    const script = `exec 2>&1; set -e -o pipefail; trap 'pwd > "${state}"' EXIT\n${commands}`;
    const { exitCode, stdout } = await execa("bash", ["-c", script], {
      cwd: this.#cwd,
      env: {
        ...environment(),
        ...this.#scratch.env,
        HOME: this.folder,
        PATH: `${join(this.folder, "bin")}:${process.env["PATH"]}`,
        npm_config_cache: join(this.folder, ".npm"),
        npm_config_update_notifier: "false",
      },
      extendEnv: false,
      stdin: "ignore",
      timeout: 25_000,
      reject: false,
    });
    this.printed = `${stdout}\n`;
    this.#all += `${block.text}${this.printed}`;
    expect(exitCode, `${at(this.#page, block)}\n${this.printed}`).toBe(0);
    this.#cwd = (await readFile(state, "utf8")).trim();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
    await this.#scratch.dispose(this.#all);
  }
}

/** Our environment without what npm and a running test have put there. */
function environment(): Record<string, string | undefined> {
  const foreign = /^(npm_|INIT_CWD$|NODE_OPTIONS$|VITEST|FORCE_COLOR$|RANKWISE_(?!CI_RUN$))/u;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name)));
}

function commandLines({ lang, text }: Block): string[] {
  return lang === "sh" ? text.trim().replaceAll("\\\n", "").split("\n") : [];
}

/** Whether a block's commands run elsewhere, as the list says of every line. */
function isElsewhere(page: Page, block: Block): boolean {
  const lines = commandLines(block);
  const listed = lines.filter((line) => Object.hasOwn(elsewhere, line));
  if (listed.length === 0 && !lines.some((line) => /\b(docker|npm ci)\b/u.test(line))) return false;
  expect(listed, `${at(page, block)}: every line is in the list \`elsewhere\`, or none`).toEqual(lines);
  return true;
}

/** A text with one form for what differs from run to run. */
function normalised(text: string, home: Home): string {
  const lines = text
    .replaceAll(home.folder, "~")
    .replaceAll(root.replace(/\/$/u, ""), "~/rankwise")
    .replaceAll(`on ${hostname()}`, "on node-a")
    .replaceAll(`"host": "${hostname()}"`, '"host": "node-a"')
    .replaceAll(/\bpid("?:?) \d+/gu, "pid$1 PID")
    .replaceAll(/\+\d+\.\d{3} s/gu, "+TIME s")
    .replaceAll(/for \d+\.\d s/gu, "for TIME s")
    .replaceAll(/#\d+/gu, "#N")
    .replaceAll(/link from (rank \d+ closed without a goodbye) \(close code \d+\)/gu, "link to $1")
    .trimEnd()
    .split("\n");
  return sortedRuns(lines, /^\[\d+\] /u).join("\n");
}

/** Sorts each run of lines that start alike: the order of ranks is nobody's promise. */
function sortedRuns(lines: readonly string[], start: RegExp): string[] {
  const sorted: string[] = [];
  let run: string[] = [];
  for (const line of [...lines, ""]) {
    if (start.test(line)) run.push(line);
    else {
      sorted.push(...run.sort(), line);
      run = [];
    }
  }
  return sorted.slice(0, -1);
}

/**
 * A failure's text without those rows, among the ones shown, that depend on which rank the news reached when: one that
 * hears of the end first tells no consequence, and one that is slow gets no last word.
 */
function withoutLateRows(text: string, shown: string): string {
  const late = new Set(shown.split("\n").filter((line) => /^ {2}(?:consequence|waiting) /u.test(line)));
  return text
    .split("\n")
    .filter((line) => !late.has(line))
    .join("\n");
}

/** What a text with `…` in it matches. */
function pattern(shown: string): RegExp {
  const lines = shown.split("\n").map((line) => {
    if (line === "…") return "(?:.*\n)*?";
    return `${line.split("…").map(escaped).join(".*")}\n`;
  });
  return new RegExp(`^${lines.join("").replace(/\n$/u, "")}$`, "u");
}

function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/]/gu, "\\$&");
}

function at(page: Page, block: Block): string {
  return `${page.path}:${block.line}`;
}

/** The type errors of some modules, by the compiler options of the project. */
function typeErrors(modules: ReadonlyMap<string, { where: string; text: string }>): string[] {
  const config = ts.getParsedCommandLineOfConfigFile(
    join(root, "tsconfig.json"),
    {},
    {
      ...ts.sys,
      onUnRecoverableConfigFileDiagnostic: () => undefined,
    },
  );
  const options = config?.options ?? {};
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists, readFile: readText } = host;
  host.fileExists = (name) => modules.has(name) || fileExists(name);
  host.readFile = (name) => modules.get(name)?.text ?? readText(name);
  host.getSourceFile = (name, language, ...rest) => {
    const module = modules.get(name);
    return module === undefined
      ? getSourceFile.call(host, name, language, ...rest)
      : ts.createSourceFile(name, module.text, language);
  };
  const program = ts.createProgram([...modules.keys()], options, host);
  return [...modules].flatMap(([name, { where }]) => {
    const file = program.getSourceFile(name);
    const found = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
    return found.map(({ messageText }) => `${where}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`);
  });
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
