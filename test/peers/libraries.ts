/** The other libraries: whether they are here, and how a row is measured on them. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { type PeerName, peerBytes, type Row } from "./rows.ts";
import { peerTime } from "./table.ts";

const execute = promisify(execFile);

/** Longest time of one row. */
const ROW_MS = 180_000;

/** A library that is here. */
export interface Peer {
  readonly name: PeerName;
  /** Its name and version, and how it is used. */
  readonly title: string;
  readonly measures: (row: Row) => boolean;
  /** Microseconds of a call, back to back. Rejects when it fails or elements are wrong. */
  readonly measure: (row: Row, nranks: number) => Promise<number>;
}

/** A library, or why it is not measured. */
export type Found = Peer | { readonly name: PeerName; readonly skipped: string };

/** As users run it on one host: over TCP, without spinning when ranks outnumber processors. */
const mpirunArgs = [
  ...["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"],
  ...["--mca", "plm", "isolated", "--mca", "btl_base_warn_component_unused", "0"],
  ...["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo", "--mca", "osc", "pt2pt"],
  ...["--mca", "mpi_yield_when_idle", "1"],
];

/** Open MPI, whose benchmark is built into `folder`. */
export async function findMpi(folder: string): Promise<Found> {
  const program = join(folder, "mpi");
  const version = await output("mpirun", ["--version"]);
  if (version === undefined) return { name: "mpi", skipped: "there is no mpirun (openmpi-bin)" };
  const [, number] = /\(Open MPI\) (\S+)/u.exec(version) ?? [];
  if (number === undefined)
    return { name: "mpi", skipped: `mpirun is not Open MPI's: ${version.split("\n")[0] ?? ""}` };
  if ((await output("mpicc", ["--version"])) === undefined) {
    return { name: "mpi", skipped: "there is no mpicc (libopenmpi-dev, and a C compiler)" };
  }
  await execute("mpicc", ["-O2", "-o", program, join(import.meta.dirname, "mpi.c")]);
  return {
    name: "mpi",
    title: `Open MPI ${number} over TCP, mpi_yield_when_idle 1`,
    measures: () => true,
    measure: async (row, nranks) => {
      const args = [...mpirunArgs, "-np", String(nranks), program, row.operation, String(peerBytes(row, nranks))];
      const { stdout } = await execute("mpirun", args, { timeout: ROW_MS });
      return peerTime(stdout);
    },
  };
}

/** gloo, as torch.distributed of this Python has it. */
export async function findGloo(python: string): Promise<Found> {
  const code = "import torch, torch.distributed as d; print(torch.__version__ if d.is_gloo_available() else '')";
  const version = await output(python, ["-W", "ignore", "-c", code]);
  if (version === undefined) return { name: "gloo", skipped: `${python} cannot import torch` };
  if (version.trim() === "") return { name: "gloo", skipped: "this torch was built without gloo" };
  return {
    name: "gloo",
    title: `gloo of torch ${version.trim()} over TCP`,
    measures: ({ operation }) => operation !== "put",
    measure: async (row, nranks) => {
      const script = join(import.meta.dirname, "gloo.py");
      const args = [script, row.operation, String(peerBytes(row, nranks)), String(nranks)];
      const { stdout } = await execute(python, args, {
        timeout: ROW_MS,
        env: { ...process.env, PYTHONWARNINGS: "ignore", PYTHONDONTWRITEBYTECODE: "1" },
      });
      return peerTime(stdout);
    },
  };
}

/** What a command prints, or undefined when it is missing or fails. */
async function output(command: string, args: readonly string[]): Promise<string | undefined> {
  return execute(command, args).then(
    ({ stdout }) => stdout,
    () => undefined,
  );
}
