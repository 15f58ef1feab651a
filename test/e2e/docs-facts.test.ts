/** Compares what the pages say with what the code is: names, tables of steps, options, codes, layouts, costs, messages. */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { exitCodeOf } from "../../coordinator/causes.ts";
import { Comm } from "../../rank/comm.ts";
import { Faults } from "../../rank/faults.ts";
import { simulate } from "../../rank/simulate.ts";
import { Signal } from "../../rank/window.ts";
import { ENV } from "../../shared/config.ts";
import { CLOSE_CODES, EXIT_CODES, FRAME_HEADER_BYTES, PROTOCOL_VERSION } from "../../shared/constants.ts";
import { type ErrorCode, errorTable } from "../../shared/errors.ts";
import { encodeHeader, FrameFlag, type FrameHeader, frameHeader, FrameKind } from "../../shared/frame.ts";
import { type Counters, messageSchemas } from "../../shared/messages.ts";
import { runCli } from "../helpers/cli.ts";
import { edgeCases } from "../helpers/edge-cases.ts";
import { brokenLinks, codeSpans, pagePaths, readPage, type Table } from "../helpers/markdown.ts";
import { runReported } from "../helpers/run.ts";
import { readSources, type Source } from "../helpers/sources.ts";

test("every link leads somewhere", async () => {
  for (const path of await pagePaths()) expect(brokenLinks(await readPage(path)), path).toEqual([]);
});

describe("docs/architecture.md", async () => {
  const page = await readPage("docs/architecture.md");
  const sources = await readSources("shared", "rank", "coordinator", "examples");
  const names = new Set([...sources.values()].flatMap((source) => [...source.names]));

  test("every file that it names exists", () => {
    const paths = codeSpans(page.prose).filter((code) => /^[\w.-]+\/[\w./-]*$/u.test(code));
    expect(paths.length).toBeGreaterThan(20);
    expect(paths.filter((path) => !existsSync(join(import.meta.dirname, "../..", path)))).toEqual([]);
  });

  test("no room imports what the table does not allow it", () => {
    const rooms = tableWith(page.tables, ["room", "may import"]).rows.map((row) => ({
      room: codeSpans(row["room"] ?? "")[0] ?? "",
      allowed: codeSpans(row["may import"] ?? ""),
    }));
    const longestFirst = rooms.toSorted((a, b) => b.room.length - a.room.length);
    for (const { path, imports } of sources.values()) {
      const home = longestFirst.find(({ room }) => path.startsWith(room));
      expect(home, `${path} is in no room`).toBeDefined();
      const { room = "", allowed = [] } = home ?? {};
      if (allowed.length === 0) continue; // everything below it
      const others = [...imports].filter((file) => ![room, ...allowed].some((prefix) => file.startsWith(prefix)));
      expect(others, path).toEqual([]);
    }
  });

  test("every name on it is one of the code's", () => {
    const spoken = codeSpans(page.prose).filter((code) => /^#?[A-Za-z_]\w*(?:\.#?[A-Za-z_]\w*)*$/u.test(code));
    const ours = (code: string): boolean => code.split(".").every((part) => names.has(part));
    const foreign = new Set(["rankwise", "ws", "socket.write", "DataView", "await"]);
    expect(spoken.length).toBeGreaterThan(50);
    expect(spoken.filter((code) => !ours(code) && !foreign.has(code))).toEqual([]);
  });

  test("every name in a table's row stands in the row's file", () => {
    for (const table of withColumns(page.tables, ["file", "names"])) {
      for (const row of table.rows) {
        const source = sourceOf(sources, row["file"]);
        const missing = codeSpans(row["names"] ?? "").filter((name) => !source.names.has(name));
        expect(missing, `${source.path} has no such names`).toEqual([]);
      }
    }
  });

  test("every function in the tables of steps calls what it hands over to, and is handed over to itself", () => {
    const tables = withColumns(page.tables, ["step", "file", "function", "hands over to"]);
    expect(tables.length).toBe(3);
    for (const { rows } of tables) {
      const handed = new Set<string>();
      for (const [at, row] of rows.entries()) {
        const source = sourceOf(sources, row["file"]);
        const [name = ""] = codeSpans(row["function"] ?? "");
        const calls = source.calls.get(name);
        expect(calls, `${source.path} has no function ${name}`).toBeDefined();
        const next = codeSpans(row["hands over to"] ?? "").map(lastPart);
        expect(
          next.filter((callee) => calls?.has(callee) !== true),
          `${name} in ${source.path} does not call`,
        ).toEqual([]);
        const own = name.endsWith(".constructor") ? name.slice(0, -".constructor".length) : lastPart(name);
        if (at > 0) expect([...handed], `no earlier step hands over to ${name}`).toContain(own);
        for (const callee of next) handed.add(callee);
      }
    }
  });

  test("files that follow each other in the tables of steps know each other, or meet at an interface", () => {
    for (const { rows } of withColumns(page.tables, ["step", "file", "function", "hands over to"])) {
      for (const [at, row] of rows.entries()) {
        const source = sourceOf(sources, row["file"]);
        const earlier = rows.slice(0, at).map((other) => sourceOf(sources, other["file"]));
        if (at > 0)
          expect(
            earlier.some((other) => meet(sources, other, source)),
            source.path,
          ).toBe(true);
      }
    }
  });
});

describe("README.md", async () => {
  const [table] = (await readPage("README.md")).tables;
  const row = (part: string): Record<string, string> | undefined => table?.rows.find((cells) => cells["part"] === part);

  test.each(["primitives", "collectives"])("%s: what is said to be there is, and what is not is not", (part) => {
    const there = (name: string): boolean => name in Comm.prototype || name in Signal.prototype;
    expect(codeSpans(row(part)?.["there today"] ?? "").filter((name) => !there(name))).toEqual([]);
    expect(codeSpans(row(part)?.["not yet"] ?? "").filter(there)).toEqual([]);
  });

  test("every method of a Comm stands there", () => {
    const said = ["primitives", "collectives"].flatMap((part) => codeSpans(row(part)?.["there today"] ?? ""));
    const methods = Object.getOwnPropertyNames(Comm.prototype).filter((name) => name !== "constructor");
    expect(methods.filter((name) => !said.includes(name))).toEqual([]);
  });

  test("commands: those of the command line, and no others", async () => {
    const { stdout } = await runCli(["--help"]);
    const commands = [...stdout.matchAll(/^ {2}([a-z]+)(?: [[<]| {2})/gmu)].map(([, name]) => name);
    expect(codeSpans(row("commands")?.["there today"] ?? "")).toEqual(commands.filter((name) => name !== "help"));
  });
});

describe("docs/reference/cli.md", async () => {
  const page = await readPage("docs/reference/cli.md");
  const options = withColumns(page.tables, ["option", "commands", "default"]).flatMap(({ rows }) => rows);

  test.each(["run", "coordinator", "rank", "check", "bench"])(
    "%s: its options are those of --help",
    async (command) => {
      const { stdout } = await runCli([command, "--help"]);
      const help = stdout.replaceAll(/\n {10,}/gu, " ");
      const offered = [...help.matchAll(/^ {2}(-.*?)(?: {2,}(.*))?$/gmu)].map(([, flags = "", text = ""]) => {
        return { flags, preset: /default: "?([^")]+)"?\)/u.exec(text)?.[1] };
      });
      const documented = options.filter(({ commands }) => commands?.split(", ").includes(command));
      const written = documented.map((row) => codeSpans(row["option"] ?? "")[0]);
      const expected = offered.filter(({ flags }) => flags !== "-h, --help");
      expect(written.sort()).toEqual(expected.map(({ flags }) => flags).sort());
      for (const { flags, preset } of expected) {
        if (preset === undefined || /^(?:false|none|the )/u.test(preset)) continue;
        const row = documented.find((cells) => codeSpans(cells["option"] ?? "")[0] === flags);
        expect(row?.["default"]?.replaceAll("`", ""), flags).toBe(preset);
      }
    },
  );

  test("every error code has the exit code that the table says", () => {
    const { rows } = tableWith(page.tables, ["exit code", "error codes"]);
    const exitCodes = new Map<string, string>();
    for (const row of rows)
      for (const code of codeSpans(row["error codes"] ?? "")) exitCodes.set(code, row["exit code"] ?? "");
    for (const code of Object.keys(errorTable) as ErrorCode[]) {
      const documented = exitCodes.get(code) ?? "1";
      if (code === "ERR_RANK_KILLED") {
        expect(exitCodeOf({ code }, { exitCode: null, signal: "SIGKILL" })).toBe(137);
        expect(documented).toBe("128 + N");
      } else if (code === "ERR_RANK_EXITED") {
        expect(exitCodeOf({ code }, { exitCode: 7, signal: null })).toBe(7);
        expect(exitCodeOf({ code }, { exitCode: 0, signal: null })).toBe(1);
        expect(documented).toBe("its own");
      } else if (code === "ERR_INTERRUPTED") {
        expect(exitCodeOf({ code }, null, "SIGINT")).toBe(130);
        expect(exitCodeOf({ code }, null, "SIGTERM")).toBe(143);
        expect(exitCodeOf({ code }, null, "SIGHUP")).toBe(129);
      } else expect(String(exitCodeOf({ code }, null)), code).toBe(documented);
    }
    const numbers = rows.map((row) => Number(row["exit code"]));
    expect(Object.values(EXIT_CODES).filter((code) => !numbers.includes(code))).toEqual([]);
  });

  test("every variable of Rankwise is listed", () => {
    const listed = page.tables.flatMap(({ rows }) => rows.flatMap((row) => codeSpans(row["variable"] ?? "")));
    expect(Object.values(ENV).filter((name) => !listed.includes(name))).toEqual([]);
    expect(listed.filter((name) => name.startsWith("RANKWISE_") && !isVariable(name))).toEqual([]);
  });

  test("every fault is listed", () => {
    const listed = tableWith(page.tables, ["fault", "keys"]).rows.map((row) => codeSpans(row["fault"] ?? "")[0]);
    expect(() => new Faults("no_such_fault", 0)).toThrow(`known: ${listed.join(", ")}`);
  });
});

describe("docs/reference/report.md", async () => {
  const page = await readPage("docs/reference/report.md");
  const [run, failure, rank, counters, queue, wait] = page.tables.map(({ rows }) =>
    rows.flatMap((row) => codeSpans(row["field"] ?? "")),
  );

  test("its fields are those of a report", async () => {
    const misbehave = join(import.meta.dirname, "../fixtures/programs/misbehave.ts");
    const { report } = await runReported([misbehave, "-n", "2", "--", "exit7", "1"]);
    expect(Object.keys(report)).toEqual(run);
    expect(Object.keys(report.failure ?? {}).sort()).toEqual([...(failure ?? [])].sort());
    const row = report.ranks.find(({ waits }) => waits.length > 0);
    expect(Object.keys(row ?? {})).toEqual(rank);
    expect(Object.keys(row?.counters ?? {})).toEqual(counters);
    expect(Object.keys(messageSchemas.goodbye.entries.state.entries.queues.item.entries)).toEqual(queue);
    expect(Object.keys(row?.waits[0] ?? {})).toEqual(wait);
  });
});

describe("docs/reference/frame-format.md", async () => {
  const page = await readPage("docs/reference/frame-format.md");

  test("its versions are the one that is spoken", () => {
    const { rows } = tableWith(page.tables, ["field", "in role `peer`", "in role `client`"]);
    const [version = {}] = rows;
    const [, sent] = /version: (\d+)/u.exec(page.blocks.map(({ text }) => text).join("\n")) ?? [];
    expect([version["in role `peer`"], version["in role `client`"], sent]).toEqual(
      new Array(3).fill(String(PROTOCOL_VERSION)),
    );
  });

  test("the header's fields lie where the table says", () => {
    const { rows } = tableWith(page.tables, ["offset", "type", "field"]);
    const empty = frameHeader({ kind: FrameKind.Put });
    const header: Record<string, number> = { ...empty };
    for (const [at, field] of Object.keys(empty).entries()) header[field] = at + 1;
    const view = new DataView(new ArrayBuffer(FRAME_HEADER_BYTES));
    encodeHeader(header as unknown as FrameHeader, view, 0);
    const fields = rows.map((row) => {
      const [field = ""] = codeSpans(row["field"] ?? "");
      const at = Number(row["offset"]);
      expect(readAs(view, row["type"] ?? "", at), `${field} at ${at}`).toBe(header[field]);
      return field;
    });
    expect(fields.sort()).toEqual(Object.keys(empty).sort());
  });

  test("kinds, flags and close codes are those of the code", () => {
    const pairs = (columns: readonly [string, string]): [string, number][] =>
      tableWith(page.tables, columns).rows.map((row) => [
        codeSpans(row[columns[1]] ?? "")[0] ?? "",
        Number(row[columns[0]]),
      ]);
    expect(pairs(["kind", "name"])).toEqual(Object.entries(FrameKind));
    expect(pairs(["flag", "name"])).toEqual(Object.entries(FrameFlag));
    expect(new Map(pairs(["close code", "reason begins with"]))).toEqual(new Map(Object.entries(CLOSE_CODES)));
  });
});

describe("docs/tutorial/15-all-to-all.md", async () => {
  const page = await readPage("docs/tutorial/15-all-to-all.md");

  test.each(["hand", "builtin"])("%s: its cost card is that of real reports", async (mode) => {
    const { rows } = tableWith(page.tables, ["counter", `${mode}, P = 4`]);
    for (const nranks of [4, 8]) {
      const { report } = await runReported(["all_to_all", "-n", String(nranks), "--mode", mode]);
      for (const row of rows) {
        const [counter] = codeSpans(row["counter"] ?? "") as [keyof Counters];
        const documented = Number(row[`${mode}, P = ${nranks}`]);
        const counted = report.ranks.map(({ counters }) => counters?.[counter] ?? NaN);
        if (row["counter"]?.endsWith("at most") !== true)
          expect(new Set(counted), counter).toEqual(new Set([documented]));
        else for (const count of counted) expect(count, counter).toBeLessThanOrEqual(documented);
      }
    }
  });

  const cases = tableWith(page.tables, ["Symptom", "Fix"]).rows.map((row) => codeSpans(row["Symptom"] ?? "")[0] ?? "");

  test("every edge case is shown, and none is invented", () => {
    expect(cases.map((text) => text.split(":")[0])).toEqual(edgeCases.map(({ code }) => code));
  });

  test.each(edgeCases.map((edgeCase, at) => ({ ...edgeCase, shown: cases[at] ?? "" })))(
    "edge case $name: $code",
    async ({ main, testFault, shown }) => {
      const { failure } = await simulate({
        nranks: 4,
        seed: 1,
        main,
        waitTimeoutMs: 200,
        ...(testFault === undefined ? {} : { testFault }),
      });
      const said = `${failure?.error.code ?? "nothing"}: ${failure?.error.message ?? ""}`;
      const parts = shown.split("…").map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|/]/gu, "\\$&"));
      expect(said).toMatch(new RegExp(`^${parts.join(".*")}$`, "u"));
    },
  );
});

test("docs/reference/errors.md has every code", async () => {
  const text = await readFile(join(import.meta.dirname, "../../docs/reference/errors.md"), "utf8");
  expect(Object.keys(errorTable).filter((code) => !text.includes(`\`${code}\``))).toEqual([]);
});

function withColumns(tables: readonly Table[], columns: readonly string[]): Table[] {
  return tables.filter((table) => columns.every((column) => table.columns.includes(column)));
}

function tableWith(tables: readonly Table[], columns: readonly string[]): Table {
  const [found] = withColumns(tables, columns);
  if (found === undefined) throw new Error(`no table with the columns ${columns.join(", ")}`);
  return found;
}

function sourceOf(sources: ReadonlyMap<string, Source>, cell: string | undefined): Source {
  const [path = ""] = codeSpans(cell ?? "");
  const source = sources.get(path);
  if (source === undefined) throw new Error(`there is no source ${path}`);
  return source;
}

/** Whether one file imports the other, at first or second hand, or both import the interface of transports. */
function meet(sources: ReadonlyMap<string, Source>, one: Source, other: Source): boolean {
  const border = "rank/transport/transport.ts";
  if (one.path === other.path || (one.imports.has(border) && other.imports.has(border))) return true;
  const reaches = (from: Source, to: Source): boolean =>
    from.imports.has(to.path) || [...from.imports].some((path) => sources.get(path)?.imports.has(to.path) === true);
  return reaches(one, other) || reaches(other, one);
}

function lastPart(name: string): string {
  return name.split(".").at(-1) ?? name;
}

function isVariable(name: string): boolean {
  return (Object.values(ENV) as string[]).includes(name);
}

function readAs(view: DataView, type: string, at: number): number {
  if (type === "u8") return view.getUint8(at);
  if (type === "u16") return view.getUint16(at, true);
  if (type === "u32") return view.getUint32(at, true);
  if (type === "i32") return view.getInt32(at, true);
  if (type === "f64") return view.getFloat64(at, true);
  throw new Error(`no type ${type}`);
}
