/** The ratio table: medians of what was measured in turn, and what they shall be. */
import { type PeerName, type Row, targetOf } from "./rows.ts";

/** What one row took on so many ranks, in microseconds a call, round by round. */
export interface Measured {
  readonly row: Row;
  readonly nranks: number;
  readonly ours: readonly number[];
  readonly peers: Readonly<Partial<Record<PeerName, readonly number[]>>>;
}

/** One line of the table. */
export interface RatioLine {
  readonly peer: PeerName;
  readonly row: string;
  readonly nranks: number;
  readonly oursUs: number;
  readonly peerUs: number;
  readonly ratio: number;
  /** `≤ 0.9`, or empty where nothing is wanted. */
  readonly target: string;
  readonly met: boolean | null;
}

/** The lines of one peer. */
export function ratioLines(peer: PeerName, measured: readonly Measured[]): RatioLine[] {
  return measured.flatMap(({ row, nranks, ours, peers }) => {
    const theirs = peers[peer] ?? [];
    if (theirs.length === 0 || ours.length === 0) return [];
    const [oursUs, peerUs] = [median(ours), median(theirs)];
    const ratio = oursUs / peerUs;
    const target = targetOf(peer, row, nranks);
    const met = target === undefined ? null : target.below === true ? ratio < target.most : ratio <= target.most;
    const sign = target?.below === true ? "<" : "≤";
    return [
      {
        peer,
        row: row.name,
        nranks,
        oursUs,
        peerUs,
        ratio,
        target: target === undefined ? "" : `${sign} ${target.most}`,
        met,
      },
    ];
  });
}

/** The table as text: a heading, and a line each. */
export function formatTable(lines: readonly RatioLine[]): string[] {
  return [
    cells(["row", "P", "ours µs", "peer µs", "ratio", "target", "met"]),
    ...lines.map(({ row, nranks, oursUs, peerUs, ratio, target, met }) =>
      cells([
        row,
        String(nranks),
        oursUs.toFixed(1),
        peerUs.toFixed(1),
        ratio.toFixed(2),
        target === "" ? "-" : target,
        met === null ? "-" : met ? "yes" : "NO",
      ]),
    ),
  ];
}

/** The middle value; of an even number the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const [low, high] = [sorted[Math.floor((sorted.length - 1) / 2)], sorted[Math.floor(sorted.length / 2)]];
  return ((low ?? Number.NaN) + (high ?? Number.NaN)) / 2;
}

/**
 * Time of a call in what a peer's benchmark has printed.
 *
 * @throws when it is not there, or elements were wrong
 */
export function peerTime(output: string): number {
  const line = output.split("\n").findLast((text) => text.startsWith('{"us"'));
  if (line === undefined) throw new Error(`no line of figures in\n${output}`);
  const { us, wrong } = JSON.parse(line) as { us: number; wrong: number };
  if (wrong !== 0) throw new Error(`${wrong} elements are wrong: ${line}`);
  if (!(us > 0)) throw new Error(`no time: ${line}`);
  return us;
}

/** What `rankwise bench -J` writes, as far as it counts here. */
export interface BenchFile {
  readonly results: readonly { readonly name: string; readonly timeUs: number; readonly wrong: number | null }[];
}

/**
 * Our time of a call: of the algorithm that chooses itself, or, where there is none, of the fastest.
 *
 * @throws when there is none, or elements were wrong
 */
export function ourTime({ results }: BenchFile): { us: number; name: string } {
  const wrong = results.find((result) => result.wrong !== 0);
  if (wrong !== undefined) throw new Error(`${wrong.name}: ${wrong.wrong ?? "unchecked"} elements are wrong`);
  const auto = results.find(({ name }) => name.endsWith(":auto"));
  const best = auto ?? results.toSorted((a, b) => a.timeUs - b.timeUs)[0];
  if (best === undefined) throw new Error("rankwise bench has measured nothing");
  return { us: best.timeUs, name: best.name };
}

function cells([row = "", ...rest]: readonly string[]): string {
  const widths = [5, 12, 12, 8, 8, 5];
  return `${row.padEnd(18)}${rest.map((cell, at) => cell.padStart(widths[at] ?? 0)).join("")}`;
}
