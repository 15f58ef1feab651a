/** Peers and ours in turn: each round measures each row on each peer and then on Rankwise, in processes of their own. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { findGloo, findMpi, type Found, type Peer } from "./libraries.ts";
import { ourBench, peerNames, type PeerName, type Row, runsOn, selectRows } from "./rows.ts";
import { type BenchFile, formatTable, type Measured, ourTime, ratioLines } from "./table.ts";

const cli = fileURLToPath(new URL("../../dist/cli.js", import.meta.url));

/** What the command line says. */
export interface PeersOptions {
  readonly ranks: readonly number[];
  readonly rounds: number;
  /** Names of rows or operations; all without any. */
  readonly rows: readonly string[];
  /** Peers to measure, if they are here; all without any. */
  readonly peers: readonly string[];
  readonly python: string;
  readonly json: string | undefined;
  readonly say: (line: string) => void;
  readonly progress: (line: string) => void;
}

/** One row on so many ranks, as it is being measured. */
interface Cell extends Measured {
  readonly ours: number[];
  readonly peers: Partial<Record<PeerName, number[]>>;
  /** What our figures are of, e.g. an algorithm. */
  readonly names: string[];
}

/** Measures everything and prints the table. Rejects when something cannot be measured, or is wrong. */
export async function run(options: PeersOptions): Promise<void> {
  const { say } = options;
  const unknown = options.peers.find((name) => !peerNames.some((known) => known === name));
  if (unknown !== undefined) throw new Error(`no peer ${unknown}; known: ${peerNames.join(", ")}`);
  const rows = selectRows(options.rows);
  const folder = await mkdtemp(join(tmpdir(), "rankwise-peers-"));
  try {
    const peers = (await find(options, folder)).filter((found) => {
      if ("skipped" in found) say(`# ${found.name}: skipped, ${found.skipped}`);
      return !("skipped" in found);
    }) as Peer[];
    if (peers.length === 0) {
      say("# nothing to compare with");
      return;
    }
    const load = loadavg()[0]?.toFixed(1) ?? "?";
    say(
      `# ${cpus().length} processors, node ${process.version}, load ${load}, ${options.rounds} rounds in turn, medians`,
    );
    const cells = await measure(rows, peers, options, folder);
    for (const peer of peers) {
      say(`# against ${peer.title}`);
      for (const line of formatTable(ratioLines(peer.name, cells))) say(line);
    }
    if (options.json !== undefined) await writeFile(options.json, report(cells, peers, load));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function find({ peers, python }: PeersOptions, folder: string): Promise<Found[]> {
  const wanted = (name: PeerName): boolean => peers.length === 0 || peers.includes(name);
  return [...(wanted("mpi") ? [await findMpi(folder)] : []), ...(wanted("gloo") ? [await findGloo(python)] : [])];
}

async function measure(
  rows: readonly Row[],
  peers: readonly Peer[],
  options: PeersOptions,
  folder: string,
): Promise<Cell[]> {
  const cells = options.ranks.flatMap((nranks) =>
    rows.filter((row) => runsOn(row, nranks)).map((row): Cell => ({ row, nranks, ours: [], peers: {}, names: [] })),
  );
  for (let round = 0; round < options.rounds; round++) {
    for (const cell of cells) {
      const { row, nranks } = cell;
      const told: string[] = [];
      for (const { name, measures, measure: measurePeer } of peers) {
        if (!measures(row)) continue;
        const us = await failing(`${name} ${row.name} P=${nranks}`, measurePeer(row, nranks));
        (cell.peers[name] ??= []).push(us);
        told.push(`${name} ${us.toFixed(1)}`);
      }
      const { us, name } = await failing(`ours ${row.name} P=${nranks}`, measureOurs(row, nranks, folder));
      cell.ours.push(us);
      cell.names.push(name);
      options.progress(
        `round ${round + 1} ${row.name} P=${nranks}: ${[...told, `${name} ${us.toFixed(1)}`].join(", ")} µs`,
      );
    }
  }
  return cells;
}

async function measureOurs(row: Row, nranks: number, folder: string): Promise<{ us: number; name: string }> {
  const { name, bytes } = ourBench(row, nranks);
  const file = join(folder, "ours.json");
  const size = String(bytes);
  const args = ["bench", name, "-n", String(nranks), "-b", size, "-e", size, "-J", file];
  await promisify(execFile)(process.execPath, [cli, ...args], { timeout: 180_000 });
  return ourTime(JSON.parse(await readFile(file, "utf8")) as BenchFile);
}

/** A failure names what was measured. */
async function failing<T>(what: string, result: Promise<T>): Promise<T> {
  return result.catch((error: unknown) => {
    throw new Error(`${what}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  });
}

function report(cells: readonly Cell[], peers: readonly Peer[], load: string): string {
  const machine = { processors: cpus().length, processor: cpus()[0]?.model ?? "unknown", node: process.version, load };
  const lines = peers.flatMap((peer) => ratioLines(peer.name, cells));
  const rounds = cells.map(({ row, nranks, ours, peers: theirs, names }) => {
    return { row: row.name, nranks, ours, names, ...theirs };
  });
  const titles = Object.fromEntries(peers.map(({ name, title }) => [name, title]));
  return `${JSON.stringify({ machine, peers: titles, lines, rounds }, null, 2)}\n`;
}
