/**
 * Faults for sabotage runs and drills, active only under `RANKWISE_TEST_FAULT`.
 *
 * `name:key=value,key=value;name:…`, e.g. `flip_byte:rank=1,nth=2`. Keys: `rank` (whose fault it is; all ranks
 * without it) and those of the fault:
 *
 * - `flip_byte`: the nth put payload (`nth`, from 1) that the rank receives from a peer arrives with its last byte changed.
 * - `misroute`: the rank's puts to `a` go to `b`, and those to `b` go to `a`.
 * - `skip_ready`: builtins leave out their ready round.
 * - `skip_round`: builtins named `op` give their credits in round `round` and do not wait for those of others.
 * - `bad_frame`: the rank's nth put claims a place beyond its window.
 *
 * The others are what drills do to a rank. They strike once, when the rank is in round `round` (from 1; 0 is the
 * moment before the first) of its nth builtin call named `op`. Links are those to rank `to`; times are `ms`.
 *
 * - `kill`, `stop`: the rank sends itself SIGKILL, SIGSTOP.
 * - `exit`: it exits with 7. `throw`: the call throws.
 * - `hang`: the call, before its first round, never goes on; the rank's event loop does.
 * - `slow`: it computes for a time. `spin`: for ever. `block`: it sleeps for ever, and its event loop with it.
 * - `fork`: it leaves a child that ignores SIGTERM, and kills itself.
 * - `cut_link`: what it sends over a link does not arrive any more, and nobody is told.
 * - `half_close`, `reset_link`: it ends its half of a link; it resets the link.
 * - `delay_link`: what it sends over a link waits for a time.
 * - `corrupt_frame`: bytes that are no frame follow on a link.
 * - `bad_count`: the next count that it announces to a peer is beyond every capacity.
 */
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { ignore } from "../shared/async.ts";
import { ENV } from "../shared/config.ts";
import { RankwiseError } from "../shared/errors.ts";

/** Where a drill's fault strikes. */
const pointKeys = ["op", "nth", "round"] as const;

const faultKeys = {
  flip_byte: ["nth"],
  misroute: ["a", "b"],
  skip_ready: [],
  skip_round: ["op", "round"],
  bad_frame: ["nth"],
  kill: pointKeys,
  stop: pointKeys,
  exit: pointKeys,
  throw: pointKeys,
  hang: pointKeys,
  slow: [...pointKeys, "ms"],
  spin: pointKeys,
  block: pointKeys,
  fork: pointKeys,
  cut_link: [...pointKeys, "to"],
  half_close: [...pointKeys, "to"],
  reset_link: [...pointKeys, "to"],
  delay_link: [...pointKeys, "to", "ms"],
  corrupt_frame: [...pointKeys, "to"],
  bad_count: pointKeys,
} as const;

type FaultName = keyof typeof faultKeys;

/** The faults of one rank. */
export class Faults {
  readonly #active = new Map<FaultName, Map<string, number>>();
  #skippedOp = "";
  readonly #rank: number;
  readonly #exit: (code: number) => void;
  readonly #points: Point[] = [];
  readonly #links = new Map<number, Duplex>();
  #badCount = false;
  #putsReceived = 0;
  #putsSent = 0;

  /** @throws {ERR_USAGE} for a fault that does not exist. */
  constructor(text: string, rank: number, exit: (code: number) => void = ignore) {
    this.#rank = rank;
    this.#exit = exit;
    for (const part of text.split(";").filter((item) => item !== "")) {
      const [name = "", list = ""] = part.split(":", 2);
      if (!Object.hasOwn(faultKeys, name)) {
        throw new RankwiseError(
          "ERR_USAGE",
          `${ENV.testFault}: no fault ${name}; known: ${Object.keys(faultKeys).join(", ")}`,
        );
      }
      const keys = parseKeys(name as FaultName, list);
      const op = /(?:^|,)op=([^,]*)/u.exec(list)?.[1] ?? "";
      if ((keys.get("rank") ?? rank) !== rank) continue;
      this.#active.set(name as FaultName, keys);
      if (name === "skip_round") this.#skippedOp = op;
      if (isPointFault(name)) this.#points.push({ name, keys, op, calls: new Set() });
    }
  }

  /** The payload of a put as it shall arrive. */
  received(payload: Uint8Array): Uint8Array {
    const fault = this.#active.get("flip_byte");
    if (fault === undefined || payload.byteLength === 0) return payload;
    this.#putsReceived += 1;
    if (this.#putsReceived !== (fault.get("nth") ?? 1)) return payload;
    const changed = payload.slice();
    changed[changed.length - 1] = (changed[changed.length - 1] ?? 0) ^ 1;
    return changed;
  }

  /** The peer that a put really goes to. */
  destination(peer: number): number {
    const fault = this.#active.get("misroute");
    if (fault === undefined) return peer;
    const [a, b] = [fault.get("a"), fault.get("b")];
    return peer === a ? (b ?? peer) : peer === b ? (a ?? peer) : peer;
  }

  get skipReady(): boolean {
    return this.#active.has("skip_ready");
  }

  /** Whether a builtin call, e.g. `barrier #2`, does not wait in this round. */
  skipsRound(call: string, round: number): boolean {
    return this.#active.get("skip_round")?.get("round") === round && call.startsWith(`${this.#skippedOp} #`);
  }

  /** Bytes by which a put's offset is falsified, after all checks of the sender. */
  offsetError(): number {
    const fault = this.#active.get("bad_frame");
    if (fault === undefined) return 0;
    this.#putsSent += 1;
    return this.#putsSent === (fault.get("nth") ?? 1) ? 2 ** 40 : 0;
  }

  // ---- what drills do ------------------------------------------------------------------------------------------

  /** The link to a peer: what this rank sends goes through this socket. */
  linkOpened(peer: number, socket: Duplex): void {
    this.#links.set(peer, socket);
  }

  /** A builtin call is about to begin its first round. One that hangs waits for what is returned. */
  entered(op: string, seq: number): Promise<never> | undefined {
    if (this.#strike("hang", op, seq, 0)) return new Promise<never>(() => undefined);
    this.reached(op, seq, 0);
    return undefined;
  }

  /** A builtin call has come to a round. @throws {ERR_INTERNAL} where the fault is that it throws. */
  reached(op: string, seq: number, round: number): void {
    for (const { name, keys } of this.#points) {
      if (name !== "hang" && this.#strike(name, op, seq, round)) this.#act(name, keys);
    }
  }

  /** A count as it is announced to a peer. */
  announced(count: number): number {
    if (!this.#badCount) return count;
    this.#badCount = false;
    return 2 ** 31 - 1;
  }

  /** Whether this is where the fault strikes; leaves a note for whoever watches. */
  #strike(name: PointFault, op: string, seq: number, round: number): boolean {
    const point = this.#points.find((one) => one.name === name);
    if (point === undefined || (point.op !== "" && point.op !== op)) return false;
    const { keys, calls } = point;
    calls.add(seq);
    const due = calls.size === (keys.get("nth") ?? 1) && (name === "hang" || round === (keys.get("round") ?? 1));
    if (!due) return false;
    this.#points.splice(this.#points.indexOf(point), 1);
    const folder = process.env[ENV.drillDir];
    if (folder !== undefined) {
      const note = { atMs: Date.now(), pid: process.pid, rank: this.#rank, name };
      writeFileSync(join(folder, `fault-${this.#rank}.json`), JSON.stringify(note));
    }
    return true;
  }

  #act(name: Exclude<PointFault, "hang">, keys: ReadonlyMap<string, number>): void {
    const link = this.#links.get(keys.get("to") ?? -1);
    switch (name) {
      case "kill":
        process.kill(process.pid, "SIGKILL");
        break;
      case "stop":
        process.kill(process.pid, "SIGSTOP");
        break;
      case "exit":
        this.#exit(7);
        break;
      case "throw":
        throw new Error(`the drill's own mistake on rank ${this.#rank}`);
      case "slow":
        spin(keys.get("ms") ?? 100);
        break;
      case "spin":
        spin(Infinity);
        break;
      case "block":
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
        break;
      case "fork":
        spawn("/bin/sh", ["-c", "trap '' TERM; while :; do sleep 1; done"], { stdio: "ignore" });
        process.kill(process.pid, "SIGKILL");
        break;
      case "cut_link":
        if (link !== undefined) swallow(link);
        break;
      case "half_close":
        link?.end();
        break;
      case "reset_link":
        if (link instanceof Socket && link.remoteAddress !== undefined) link.resetAndDestroy();
        else link?.destroy();
        break;
      case "delay_link":
        link?.cork();
        setTimeout(() => link?.uncork(), keys.get("ms") ?? 100);
        break;
      case "corrupt_frame":
        link?.write(Buffer.from([0xf2, 0x04, 1, 2, 3, 4])); // with reserved bits, which nobody has negotiated
        break;
      case "bad_count":
        this.#badCount = true;
        break;
    }
  }
}

type PointFault = Exclude<FaultName, "flip_byte" | "misroute" | "skip_ready" | "skip_round" | "bad_frame">;

/** A fault that waits for its moment. */
interface Point {
  readonly name: PointFault;
  readonly keys: ReadonlyMap<string, number>;
  readonly op: string;
  /** Sequence numbers of the calls of that name so far. */
  readonly calls: Set<number>;
}

function isPointFault(name: string): name is PointFault {
  return (
    Object.hasOwn(faultKeys, name) &&
    pointKeys.every((key) => (faultKeys[name as FaultName] as readonly string[]).includes(key))
  );
}

/** Computes without yielding. */
function spin(ms: number): void {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs);
}

/** A socket whose bytes vanish, without anybody being told. */
function swallow(socket: Duplex): void {
  socket.write = (...args: readonly unknown[]): boolean => {
    const callback = args.at(-1);
    if (typeof callback === "function") queueMicrotask(() => (callback as () => void)());
    return true;
  };
}

/** @throws {ERR_USAGE} for a key that the fault does not have, or a value that is no number. */
function parseKeys(name: FaultName, list: string): Map<string, number> {
  const known: readonly string[] = ["rank", ...faultKeys[name]];
  const keys = new Map<string, number>();
  for (const pair of list.split(",").filter((item) => item !== "")) {
    const [key = "", value = ""] = pair.split("=", 2);
    if (!known.includes(key) || !(key === "op" ? /^[a-z_]+$/u : /^\d+$/u).test(value)) {
      throw new RankwiseError(
        "ERR_USAGE",
        `${ENV.testFault}: ${name} takes ${known.map((one) => `${one}=N`).join(", ")}, not ${pair}`,
      );
    }
    keys.set(key, Number(value));
  }
  return keys;
}
