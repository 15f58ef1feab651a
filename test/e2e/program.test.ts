import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { describe, expect, test } from "vitest";
import { type CliResult, runCli } from "../helpers/cli.ts";
import { rankLines } from "../helpers/run.ts";

const repository = fileURLToPath(new URL("../..", import.meta.url));

describe("a program in an unrelated folder", () => {
  test.each(["ts", "js", "mjs"])("runs as ./program.%s from there", async (extension) => {
    await using folder = await Folder.make(files(extension));
    const run = await runCli(["run", `./program.${extension}`, "-n", "3"], { cwd: folder.path });
    expectGreetings(run, folder.path, extension);
  });

  test("runs by its whole name from elsewhere, and from a folder with blanks in its name", async () => {
    await using folder = await Folder.make(inside("my programs", files("ts")));
    const run = await runCli(["run", join(folder.path, "my programs", "program.ts"), "-n", "3"]);
    expectGreetings(run, join(folder.path, "my programs"), "ts", process.cwd());
  });

  test("runs through the script of a checkout: npm --prefix CHECKOUT run -s rankwise", async () => {
    await using folder = await Folder.make(files("ts"));
    const command = ["--prefix", repository, "run", "-s", "rankwise", "--", "run", "./program.ts", "-n", "3"];
    const env = { npm_config_update_notifier: "false" };
    const { exitCode, stdout, stderr } = await execa("npm", command, { cwd: folder.path, env, reject: false });
    expectGreetings({ exitCode, stdout: `${stdout}\n`, stderr, text: stderr }, folder.path, "ts");
  });

  test("that throws is told by the file and line of its source", async () => {
    const source = [
      'import type { Comm } from "rankwise";',
      "interface Options { readonly unused?: string }",
      "export default async function main(comm: Comm, _options: Options = {}): Promise<void> {",
      '  if (comm.rank === 1) throw new RangeError("a mistake of its own");',
      "}",
    ];
    await using folder = await Folder.make({ "broken.ts": source.join("\n") });
    const run = await runCli(["run", "broken.ts", "-n", "2"], { cwd: folder.path });
    expect(run.stdout, run.text).toBe("");
    expect(run.exitCode).toBe(1);
    expect(run.stderr).toContain("rankwise: ERR_PROGRAM_THREW: RangeError: a mistake of its own");
    expect(run.stderr).toContain(`${join(folder.path, "broken.ts")}:4:30`);
  });
});

describe("the command line reaches the program", () => {
  const source = `
    export const modes = ["hand", "builtin"];
    export default async function main({ rank, nranks, peers, mode, platform, args }) {
      const env = [process.env.COLOUR, process.env.EMPTY, process.env.SUM, process.env.INHERITED];
      const usual = [process.env.RANK, process.env.WORLD_SIZE, process.env.LOCAL_RANK, process.env.LOCAL_WORLD_SIZE];
      console.log(JSON.stringify({ rank, nranks, peers, mode, platform, args, env, usual, pid: process.pid }));
    }`;

  test("as mode, platform, arguments and environment, on each of four processes", async () => {
    await using folder = await Folder.make({ "tells.mjs": source });
    const options = ["-d", "0,1,2,3", "-p", "a2a3sim", "--mode", "builtin", "--tag-output"];
    const variables = ["--env", "COLOUR=dark blue", "--env", "EMPTY=", "--env=SUM=1+1=2"];
    const args = ["--size", "64", "--", "", "two words", "ü"];
    const run = await runCli(["run", "tells.mjs", ...options, ...variables, "--", ...args], {
      cwd: folder.path,
      env: { COLOUR: "overridden", INHERITED: "from the shell" },
    });
    expect(run.stdout, run.text).toBe("OK\n");
    const told = [...run.stderr.matchAll(/^\[\w+,(\d)\]<stdout> (\{.*\})$/gmu)].map(([, prefix, json = ""]) => ({
      prefix: Number(prefix),
      ...(JSON.parse(json) as { rank: number; pid: number }),
    }));
    told.sort((a, b) => a.rank - b.rank);
    expect(told).toHaveLength(4);
    for (const [rank, line] of told.entries()) {
      expect(line).toMatchObject({
        prefix: rank,
        rank,
        nranks: 4,
        peers: [0, 1, 2, 3].filter((peer) => peer !== rank),
        mode: "builtin",
        platform: "a2a3sim",
        args,
        env: ["dark blue", "", "1+1=2", "from the shell"],
        usual: [String(rank), "4", String(rank), "4"],
      });
    }
    const pids = new Set(told.map(({ pid }) => pid));
    expect(pids.size).toBe(4);
    expect(pids).not.toContain(process.pid);
  });
});

/**
 * A program that hands greetings round its ring: its own helper module, a package of its folder, a file beside each
 * source, and a decoy of `rankwise` that must not be taken.
 */
function files(extension: string): Record<string, string> {
  const typed = extension === "ts";
  const program = `
import { readFile } from "node:fs/promises";
import { greet } from "greeting";
import { ${typed ? "type Comm, " : ""}NotifyOp, RankwiseError, WaitCmp } from "rankwise";
import { next, motto } from "./lib/ring.${extension}";

export default async function main(comm${typed ? ": Comm" : ""})${typed ? ": Promise<void>" : ""} {
  const inbox = await comm.window("inbox", "int32", [1]);
  const bell = await comm.signal("bell", [1, 1]);
  const mine = comm.tensor("int32", [1], Int32Array.of(100 + comm.rank));
  const refused = await inbox.put(-1, mine).catch((error${typed ? ": unknown" : ""}) => error instanceof RankwiseError);
  if (refused !== true) throw new Error("rankwise is there twice");
  await inbox.putSignal(next(comm), mine, undefined, bell, [0, 0], 1, NotifyOp.Set);
  await bell.wait([0, 0], 1, WaitCmp.Ge);
  const text = await readFile(new URL("./data.txt", import.meta.url), "utf8");
  console.log([inbox.local.array[0], greet(text), await motto(), import.meta.url, process.cwd()].join("|"));
}
`;
  const ring = `
import { readFile } from "node:fs/promises";
export const next = ({ rank, nranks }${typed ? ": { rank: number; nranks: number }" : ""})${typed ? ": number" : ""} => (rank + 1) % nranks;
export const motto = ()${typed ? ": Promise<string>" : ""} => readFile(new URL("motto.txt", import.meta.url), "utf8");
`;
  return {
    [`program.${extension}`]: program,
    [`lib/ring.${extension}`]: ring,
    "lib/motto.txt": "round and round",
    "data.txt": "world",
    "node_modules/greeting/package.json": '{ "name": "greeting", "version": "1.0.0", "main": "index.js" }',
    "node_modules/greeting/index.js": "exports.greet = (whom) => `hello, ${whom}`;",
    "node_modules/rankwise/package.json":
      '{ "name": "rankwise", "version": "0.0.0", "type": "module", "main": "index.js" }',
    "node_modules/rankwise/index.js": 'throw new Error("not the running installation");',
  };
}

function inside(folder: string, contents: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(contents).map(([name, text]) => [`${folder}/${name}`, text]));
}

function expectGreetings(
  run: Pick<CliResult, "stdout" | "stderr" | "text"> & { exitCode: number | undefined },
  folder: string,
  extension: string,
  cwd = folder,
): void {
  expect(run.stdout, run.text).toBe("OK\n");
  expect(run.exitCode).toBe(0);
  const url = new URL(`file://${encodeURI(folder)}/program.${extension}`).href;
  expect(rankLines(run.stderr)).toEqual(
    [100, 101, 102].map((value) => `${value}|hello, world|round and round|${url}|${cwd}`),
  );
}

/** A temporary folder with files in it. */
class Folder implements AsyncDisposable {
  readonly path: string;

  private constructor(path: string) {
    this.path = path;
  }

  static async make(contents: Readonly<Record<string, string | undefined>>): Promise<Folder> {
    const path = await realpath(await mkdtemp(join(tmpdir(), "elsewhere-")));
    for (const [name, text = ""] of Object.entries(contents)) {
      await mkdir(dirname(join(path, name)), { recursive: true });
      await writeFile(join(path, name), text);
    }
    return new Folder(path);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
  }
}
