/**
 * Faults for sabotage runs and drills, active only under `RANKWISE_TEST_FAULT`.
 *
 * `name:key=value,key=value;name:…`, e.g. `flip_byte:rank=1,nth=2`. Keys: `rank` (whose fault it is; all ranks
 * without it) and those of the fault:
 *
 * - `flip_byte`: the nth put payload (`nth`, from 1) that the rank receives from a peer arrives with its last byte changed.
 * - `misroute`: the rank's puts to `a` go to `b`, and those to `b` go to `a`.
 * - `skip_ready`: builtins leave out their ready round.
 * - `bad_frame`: the rank's nth put claims a place beyond its window.
 */
import { ENV } from "../shared/config.ts";
import { RankwiseError } from "../shared/errors.ts";

const faultKeys = {
  flip_byte: ["nth"],
  misroute: ["a", "b"],
  skip_ready: [],
  bad_frame: ["nth"],
} as const;

type FaultName = keyof typeof faultKeys;

/** The faults of one rank. */
export class Faults {
  readonly #active = new Map<FaultName, Map<string, number>>();
  #putsReceived = 0;
  #putsSent = 0;

  /** @throws {ERR_USAGE} for a fault that does not exist. */
  constructor(text: string, rank: number) {
    for (const part of text.split(";").filter((item) => item !== "")) {
      const [name = "", list = ""] = part.split(":", 2);
      if (!Object.hasOwn(faultKeys, name)) {
        throw new RankwiseError(
          "ERR_USAGE",
          `${ENV.testFault}: no fault ${name}; known: ${Object.keys(faultKeys).join(", ")}`,
        );
      }
      const pairs = list.split(",").filter((item) => item !== "");
      const keys = new Map(pairs.map((pair) => [pair.split("=")[0] ?? "", Number(pair.split("=")[1])]));
      if ((keys.get("rank") ?? rank) === rank) this.#active.set(name as FaultName, keys);
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

  /** Bytes by which a put's offset is falsified, after all checks of the sender. */
  offsetError(): number {
    const fault = this.#active.get("bad_frame");
    if (fault === undefined) return 0;
    this.#putsSent += 1;
    return this.#putsSent === (fault.get("nth") ?? 1) ? 2 ** 40 : 0;
  }
}
