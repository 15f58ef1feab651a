/** `rankwise doctor`: whether this machine has what Rankwise needs, and what its loopback can do. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, statfs } from "node:fs/promises";
import { connect, createServer, type NetConnectOpts, type Socket } from "node:net";
import { availableParallelism, freemem, platform, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Command } from "commander";
import { Arena } from "../../rank/memory/arena.ts";
import { ARENA_BYTES, SOCKET_PATH_BYTES_MAX } from "../../shared/constants.ts";
import type { CliContext } from "./context.ts";

type Verdict = "ok" | "warn" | "fail";

interface Finding {
  readonly verdict: Verdict;
  readonly subject: string;
  readonly text: string;
}

/** Adds the command. */
export function addDoctorCommand(cli: Command, context: CliContext): void {
  cli
    .command("doctor")
    .description(
      "look at what Rankwise needs of this machine, and measure its loopback; exits with 1 if anything fails",
    )
    .action(async () => {
      const findings = await examine();
      for (const { verdict, subject, text } of findings) {
        process.stdout.write(`${verdict.padEnd(5)} ${subject.padEnd(14)} ${text}\n`);
      }
      context.exitCode = findings.some(({ verdict }) => verdict === "fail") ? 1 : 0;
    });
}

async function examine(): Promise<Finding[]> {
  return [
    nodeVersion(),
    platformName(),
    machine(),
    await openFiles(),
    socketFolder(),
    await sharedMemory(),
    arena(),
    processTools(),
    ...(await containers()),
    await loopback("tcp loopback", tcpSocket),
    await loopback("unix loopback", unixSocket),
  ];
}

function nodeVersion(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const fits = major > 20 || (major === 20 && minor >= 19);
  return { verdict: fits ? "ok" : "fail", subject: "node", text: `${process.version}; 20.19 or later is needed` };
}

function platformName(): Finding {
  const name = platform();
  const verdicts: Readonly<Record<string, Verdict>> = { linux: "ok", darwin: "warn" };
  const text =
    name === "darwin" ? "without container drills and /proc" : name === "linux" ? "in full" : "not supported";
  return { verdict: verdicts[name] ?? "fail", subject: "platform", text: `${name}: ${text}` };
}

function machine(): Finding {
  const gib = (bytes: number): string => (bytes / 1024 ** 3).toFixed(1);
  const text = `${availableParallelism()} processors, ${gib(freemem())} of ${gib(totalmem())} GiB memory free`;
  return { verdict: "ok", subject: "machine", text };
}

/** Every rank holds two sockets for each peer. */
async function openFiles(): Promise<Finding> {
  const limits = await readFile("/proc/self/limits", "utf8").catch(() => "");
  const limit = Number(/Max open files\s+(\d+)/u.exec(limits)?.[1] ?? Number.NaN);
  if (Number.isNaN(limit)) return { verdict: "warn", subject: "open files", text: "limit unknown here" };
  const ranks = Math.floor((limit - 50) / 2);
  const verdict = limit >= 256 ? "ok" : "warn";
  return { verdict, subject: "open files", text: `${limit} a process: enough for groups of about ${ranks} ranks` };
}

function socketFolder(): Finding {
  const path = join(tmpdir(), "rw-XXXXXX", "1234567-0-1023");
  const bytes = Buffer.byteLength(path);
  const fits = bytes <= SOCKET_PATH_BYTES_MAX;
  const text = `paths below ${tmpdir()} have about ${bytes} bytes, ${SOCKET_PATH_BYTES_MAX} are allowed`;
  return {
    verdict: fits ? "ok" : "warn",
    subject: "unix sockets",
    text: fits ? text : `${text}; set TMPDIR or RANKWISE_SOCKET_DIR to a shorter folder, or use --transport tcp`,
  };
}

async function sharedMemory(): Promise<Finding> {
  const volume = await statfs("/dev/shm").catch(() => undefined);
  const size =
    volume === undefined
      ? "no /dev/shm"
      : `/dev/shm has ${((volume.bavail * volume.bsize) / 1024 ** 2).toFixed(0)} MiB free`;
  return { verdict: volume !== undefined ? "ok" : "warn", subject: "shared memory", text: size };
}

/** Without an arena a rank works all the same, and reduces slower. */
function arena(): Finding {
  const own = new Arena();
  if (own.memory !== undefined) {
    return { verdict: "ok", subject: "arena", text: `${ARENA_BYTES / 1024 ** 2} MiB of shared WebAssembly memory` };
  }
  const text = `${(own.refused as Error).message}: windows have memory of their own, and reductions do without SIMD; a rank reserves 11 GiB of address space (ulimit -v)`;
  return { verdict: "warn", subject: "arena", text };
}

/** What ends and watches rank processes from outside. */
function processTools(): Finding {
  const missing = [
    ...(existsSync("/bin/sh") ? [] : ["/bin/sh (ends ranks whose supervisor was killed)"]),
    ...(existsSync("/proc/self/stat") ? [] : ["/proc (tells busy, sleeping and stopped ranks apart)"]),
  ];
  if (missing.length === 0) return { verdict: "ok", subject: "supervision", text: "/bin/sh and /proc are there" };
  return { verdict: "warn", subject: "supervision", text: `missing: ${missing.join(", ")}` };
}

async function containers(): Promise<Finding[]> {
  const engine = await output("docker", ["version", "--format", "{{.Server.Version}}"]);
  const compose =
    (await output("docker", ["compose", "version", "--short"])) ??
    (await output("docker-compose", ["version", "--short"]));
  return [
    {
      verdict: engine === undefined ? "warn" : "ok",
      subject: "docker engine",
      text: engine ?? "none answers: container runs and tests are not possible here",
    },
    {
      verdict: compose === undefined ? "warn" : "ok",
      subject: "compose",
      text: compose ?? "neither docker compose nor docker-compose",
    },
  ];
}

async function output(command: string, args: readonly string[]): Promise<string | undefined> {
  const result = await promisify(execFile)(command, [...args], { timeout: 5000 }).catch(() => undefined);
  const text = result?.stdout.trim() ?? "";
  return text === "" ? undefined : text;
}

interface Place {
  readonly listen: { host: string; port: number } | { path: string };
  close(): Promise<void>;
}

function tcpSocket(): Promise<Place> {
  return Promise.resolve({ listen: { host: "127.0.0.1", port: 0 }, close: () => Promise.resolve() });
}

async function unixSocket(): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), "rw-"));
  return { listen: { path: join(folder, "s") }, close: () => rm(folder, { recursive: true, force: true }) };
}

const PINGS = 2000;
const STREAM_BYTES = 256 * 1024 * 1024;
const PIECE = Buffer.alloc(1024 * 1024);

/** Round trips of 64 bytes and one stream, over a socket of this process to itself. */
async function loopback(subject: string, open: () => Promise<Place>): Promise<Finding> {
  const place = await open();
  const server = createServer({ noDelay: true });
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(place.listen, resolve);
    });
    const address = server.address();
    const target: NetConnectOpts =
      typeof address === "string" ? { path: address } : { host: "127.0.0.1", port: address?.port ?? 0, noDelay: true };
    const latencyUs = await roundTrip(server, target);
    const gigabytes = await stream(server, target);
    return {
      verdict: "ok",
      subject,
      text: `${latencyUs.toFixed(0)} us a round trip, ${gigabytes.toFixed(1)} GB/s one way`,
    };
  } catch (error) {
    return { verdict: "fail", subject, text: (error as Error).message };
  } finally {
    server.close();
    await place.close();
  }
}

async function roundTrip(server: ReturnType<typeof createServer>, target: NetConnectOpts): Promise<number> {
  server.once("connection", (socket: Socket) => socket.pipe(socket));
  const socket = connect(target);
  const ping = Buffer.alloc(64);
  let left = PINGS;
  const started = performance.now();
  await new Promise<void>((resolve, reject) => {
    socket.once("error", reject);
    socket.on("data", () => {
      left -= 1;
      if (left > 0) socket.write(ping);
      else resolve();
    });
    socket.write(ping);
  });
  socket.destroy();
  return ((performance.now() - started) * 1000) / PINGS;
}

async function stream(server: ReturnType<typeof createServer>, target: NetConnectOpts): Promise<number> {
  let received = 0;
  const started = performance.now();
  const done = new Promise<void>((resolve, reject) => {
    server.once("connection", (socket: Socket) => {
      socket.once("error", reject);
      socket.on("data", (data) => {
        received += data.length;
        if (received >= STREAM_BYTES) resolve();
      });
    });
  });
  const socket = connect(target);
  const send = (left: number): void => {
    if (left > 0) socket.write(PIECE, () => send(left - PIECE.length));
  };
  send(STREAM_BYTES);
  await done;
  socket.destroy();
  return STREAM_BYTES / (performance.now() - started) / 1e6;
}
