/** What `rankwise bench` prints: the lines of nccl-tests. Commentary stands behind `#`, the rest are columns. */
import { type BenchResult, SAMPLE_BYTES, sampleStep } from "../../rank/bench/plan.ts";
import { elementBytes } from "../../shared/dtype.ts";

const columns = ["size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "p50", "p99"] as const;
const units = ["(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)"];

/** The lines of one result, with a heading where another benchmark begins. */
export function resultLines(result: BenchResult, before: BenchResult | undefined): string[] {
  const heading =
    result.name === before?.name ? [] : [`# ${result.name}`, `#${pad(columns).slice(1)}`, `#${pad(units).slice(1)}`];
  const step = sampleStep(result.count * elementBytes(result.dtype));
  const sampled =
    result.wrong === null || step === 1 ? [] : [`# above ${SAMPLE_BYTES} B: every ${step}th element compared`];
  const { algbw, busbw } = bandwidths(result);
  const cells = [
    String(result.bytes),
    String(result.count),
    result.dtype,
    result.op,
    String(result.root),
    result.timeUs.toFixed(1),
    algbw === null ? "n/a" : algbw.toFixed(2),
    busbw === null ? "n/a" : busbw.toFixed(2),
    result.wrong === null ? "N/A" : String(result.wrong),
    result.p50Us.toFixed(1),
    result.p99Us.toFixed(1),
  ];
  return [...heading, ...sampled, pad(cells)];
}

/** The verdict of nccl-tests, and what it is based on. */
export function footerLines(results: readonly BenchResult[]): string[] {
  const wrong = results.reduce((sum, result) => sum + (result.wrong ?? 0), 0);
  const compared = results.reduce((sum, result) => sum + result.checked, 0);
  const buses = results.flatMap((result) => bandwidths(result).busbw ?? []);
  const average = buses.reduce((sum, value) => sum + value, 0) / buses.length;
  return [
    `Out of bounds values : ${wrong} ${wrong === 0 ? "OK" : "FAILED"}`,
    `Elements compared    : ${compared}`,
    `Avg bus bandwidth    : ${buses.length === 0 ? "n/a" : average.toFixed(5)}`,
  ].map((line) => `# ${line}`);
}

/** GB/s: bytes of a rank's buffer by the time of a call, and that times the factor which makes it the wire's. */
export function bandwidths({ bytes, timeUs, busFactor }: BenchResult): { algbw: number | null; busbw: number | null } {
  if (busFactor === null) return { algbw: null, busbw: null };
  const algbw = bytes / timeUs / 1000;
  return { algbw, busbw: algbw * busFactor };
}

function pad(cells: readonly string[]): string {
  return cells.map((cell, index) => cell.padStart(index < 2 ? 12 : 10)).join("");
}
