/** What is measured against other libraries, and how fast it shall be. */

export const peerNames = ["mpi", "gloo"] as const;
export type PeerName = (typeof peerNames)[number];

export const operations = ["all_to_all", "allgather", "barrier", "allreduce", "put"] as const;
export type Operation = (typeof operations)[number];

/** One row of the table. */
export interface Row {
  readonly name: string;
  readonly operation: Operation;
  /** Chunk for each peer of all_to_all and allgather; of allreduce its P-th part; payload of put. */
  readonly bytes: number;
}

const KIB = 1024;
const MIB = 1024 * KIB;

/** Most bytes of a row that is also measured where ranks outnumber processors by far. */
const SMALL_BYTES = KIB;

/** Most ranks of a row that is not small. */
const LARGE_RANKS_MAX = 4;

const chunks = [64, KIB, 64 * KIB, MIB, 4 * MIB];

/** Every row, in the order of the table. */
export const rows: readonly Row[] = [
  ...chunks.map((bytes) => row("all_to_all", bytes)),
  ...chunks.map((bytes) => row("allgather", bytes)),
  { name: "barrier", operation: "barrier", bytes: 0 },
  ...[64 * KIB, MIB, 4 * MIB].map((bytes): Row => ({ ...row("allreduce", bytes), name: `allreduce-Px${size(bytes)}` })),
  ...[64, MIB].map((bytes) => row("put", bytes)),
];

/** A bound of the ratio of our time to a peer's. The first that fits a row holds. */
export interface Target {
  readonly peer: PeerName;
  /** All of them without it. */
  readonly operations?: readonly Operation[];
  /** Sizes from … to …, both included; all without it. */
  readonly bytes?: readonly [number, number];
  /** All of them without it. */
  readonly ranks?: readonly number[];
  readonly most: number;
  /** Whether the ratio must stay below, and not only not exceed. */
  readonly below?: boolean;
}

/** The targets, one sentence of the performance goals each. */
export const targets: readonly Target[] = [
  { peer: "mpi", operations: ["all_to_all", "allgather"], bytes: [4 * MIB, Infinity], ranks: [2, 4], most: 0.5 },
  { peer: "mpi", operations: ["all_to_all", "allgather"], bytes: [64 * KIB, 4 * MIB], ranks: [2, 4], most: 0.9 },
  { peer: "mpi", operations: ["all_to_all"], bytes: [64, KIB], ranks: [2, 4], most: 1.2 },
  { peer: "mpi", operations: ["all_to_all"], bytes: [64, KIB], ranks: [8], most: 0.8 },
  { peer: "mpi", operations: ["all_to_all"], bytes: [64, KIB], ranks: [16], most: 0.5 },
  { peer: "mpi", operations: ["barrier"], ranks: [2], most: 1.1 },
  { peer: "mpi", operations: ["barrier"], ranks: [4], most: 1.2 },
  { peer: "mpi", operations: ["barrier"], ranks: [8], most: 0.7 },
  { peer: "mpi", operations: ["barrier"], ranks: [16], most: 0.5 },
  { peer: "mpi", operations: ["allreduce"], bytes: [64 * KIB, Infinity], most: 0.9 },
  { peer: "mpi", operations: ["put"], bytes: [64, 64], most: 2 },
  { peer: "mpi", operations: ["put"], bytes: [MIB, MIB], most: 1 },
  { peer: "gloo", most: 1, below: true },
];

/** The target of a row, if it has one. */
export function targetOf(peer: PeerName, { operation, bytes }: Row, nranks: number): Target | undefined {
  return targets.find((target) => {
    const [least, most] = target.bytes ?? [0, Infinity];
    return (
      target.peer === peer &&
      (target.operations?.includes(operation) ?? true) &&
      bytes >= least &&
      bytes <= most &&
      (target.ranks?.includes(nranks) ?? true)
    );
  });
}

/** Whether a row is measured on so many ranks. */
export function runsOn({ bytes, operation }: Row, nranks: number): boolean {
  return nranks <= LARGE_RANKS_MAX || (bytes <= SMALL_BYTES && operation !== "put");
}

/**
 * The rows that names stand for: a whole name, or an operation for all of its rows; all without any.
 *
 * @throws for a name that is none
 */
export function selectRows(names: readonly string[]): Row[] {
  const unknown = names.find((name) => !rows.some((row) => row.name === name || row.operation === name));
  if (unknown !== undefined) {
    throw new Error(
      `no row ${unknown}; known: ${[...new Set([...operations, ...rows.map(({ name }) => name)])].join(", ")}`,
    );
  }
  return rows.filter(({ name, operation }) => names.length === 0 || names.includes(name) || names.includes(operation));
}

/** The argument of a peer's benchmark: the whole buffer of allreduce, else what the row counts. */
export function peerBytes({ operation, bytes }: Row, nranks: number): number {
  return operation === "allreduce" ? bytes * nranks : bytes;
}

/** Our benchmark of a row: its name, and the bytes of a rank's whole buffer. */
export function ourBench({ operation, bytes }: Row, nranks: number): { name: string; bytes: number } {
  if (operation === "put") return { name: "put_lat", bytes };
  return { name: operation, bytes: Math.max(4, bytes * nranks) };
}

function row(operation: Operation, bytes: number): Row {
  return { name: `${operation}-${size(bytes)}`, operation, bytes };
}

function size(bytes: number): string {
  if (bytes >= MIB) return `${bytes / MIB}M`;
  return bytes >= KIB ? `${bytes / KIB}K` : `${bytes}B`;
}
