/** What a drill can do to a group, and what must come of it. */
import type { ErrorCode } from "../../shared/errors.ts";

/** Who does it. */
export type Injector =
  /** A fault inside the rank; its text without the point where it strikes. */
  | { readonly by: "rank"; readonly faults: readonly DrillFault[] }
  /** A signal from outside, once the rank spins at its point. */
  | { readonly by: "signal"; readonly signal: "SIGKILL" | "SIGSTOP"; readonly to: "launcher" | "coordinator" }
  /** A SIGKILL from outside, as soon as the rank's process exists. */
  | { readonly by: "start" };

/** A fault of `RANKWISE_TEST_FAULT`: the victim's. */
export interface DrillFault {
  readonly name: string;
  /** Acts on the link from the victim to the rank after it. */
  readonly link?: boolean;
  readonly ms?: number;
}

/** What must come of it. */
export interface Outcome {
  /** The job goes on as if nothing had happened. */
  readonly ok?: boolean;
  /** Codes that the first cause may have; empty when nobody is left to name one. */
  readonly codes: readonly ErrorCode[];
  /** Who may be named: the victim, either end of their link, or the victim as missing. */
  readonly named: "victim" | "either" | "missing" | "nobody";
  /** Ranks that cannot settle their calls. */
  readonly mute: readonly "victim"[];
  /** What detection may take beside the bounds: the liveness, the deadline of a wait. */
  readonly detection: "at once" | "liveness" | "wait";
}

export interface Scenario {
  readonly name: string;
  readonly summary: string;
  readonly injector: Injector;
  readonly outcome: Outcome;
  /** What the program of a rank does when the group has ended. */
  readonly handler?: "abort" | "block";
  /** Collectives that it needs; by default any. */
  readonly calls?: readonly string[];
}

/** The collectives that drills run. */
export const drilledCalls = ["all_to_all", "allreduce", "all_to_all_v", "indexed_all_to_all_v"] as const;

function rank(name: string): Injector {
  return { by: "rank", faults: [{ name }] };
}

function link(name: string, ms?: number): Injector {
  return { by: "rank", faults: [{ name, link: true, ...(ms === undefined ? {} : { ms }) }] };
}

function victim(code: ErrorCode, detection: Outcome["detection"] = "at once"): Outcome {
  return { codes: [code], named: "victim", mute: ["victim"], detection };
}

const goesOn: Outcome = { ok: true, codes: [], named: "nobody", mute: [], detection: "at once" };
const linkLost: Outcome = { codes: ["ERR_PEER_LOST"], named: "either", mute: [], detection: "at once" };

/** Every scenario, in the order in which `all` runs them. */
export const scenarios: readonly Scenario[] = [
  {
    name: "kill",
    summary: "a rank is killed by SIGKILL",
    injector: rank("kill"),
    outcome: victim("ERR_RANK_KILLED"),
  },
  {
    name: "stop",
    summary: "a rank is stopped by SIGSTOP",
    injector: rank("stop"),
    outcome: victim("ERR_RANK_STOPPED", "liveness"),
  },
  {
    name: "exit",
    summary: "a rank exits with a code of its own",
    injector: rank("exit"),
    outcome: victim("ERR_RANK_EXITED"),
  },
  {
    name: "throw",
    summary: "a rank's program throws",
    injector: rank("throw"),
    outcome: { ...victim("ERR_PROGRAM_THREW"), mute: [] },
  },
  {
    name: "hang",
    summary: "a rank never makes its call; a wait's deadline passes",
    injector: rank("hang"),
    outcome: { codes: ["ERR_WAIT_TIMEOUT"], named: "missing", mute: ["victim"], detection: "wait" },
  },
  {
    name: "slow",
    summary: "a rank computes for longer than --liveness, without yielding",
    injector: { by: "rank", faults: [{ name: "slow", ms: 1500 }] },
    outcome: goesOn,
  },
  {
    name: "abort-in-handler",
    summary: "a rank is killed, and the others abort in their clean-up",
    injector: rank("kill"),
    outcome: victim("ERR_RANK_KILLED"),
    handler: "abort",
  },
  {
    name: "kill-coordinator",
    summary: "the coordinator is killed while a rank is in an endless loop",
    injector: { by: "signal", signal: "SIGKILL", to: "coordinator" },
    outcome: { codes: [], named: "nobody", mute: ["victim"], detection: "at once" },
  },
  {
    name: "stop-coordinator",
    summary: "the coordinator is stopped while a rank is in an endless loop",
    injector: { by: "signal", signal: "SIGSTOP", to: "coordinator" },
    outcome: { codes: [], named: "nobody", mute: ["victim"], detection: "liveness" },
  },
  {
    name: "cut-link",
    summary: "what a rank sends to another vanishes, and nobody is told",
    injector: link("cut_link"),
    outcome: { ...linkLost, detection: "liveness" },
  },
  {
    name: "half-close",
    summary: "a rank ends its half of a link",
    injector: link("half_close"),
    outcome: linkLost,
  },
  {
    name: "reset-link",
    summary: "a link is reset",
    injector: link("reset_link"),
    outcome: linkLost,
  },
  {
    name: "delay-link",
    summary: "a link stands still for a while",
    injector: link("delay_link", 700),
    outcome: goesOn,
  },
  {
    name: "corrupt-frame",
    summary: "bytes that are no frame arrive from a rank",
    injector: link("corrupt_frame"),
    outcome: { codes: ["ERR_BAD_FRAME"], named: "victim", mute: [], detection: "at once" },
  },
  {
    name: "bad-count",
    summary: "a rank announces more rows than its peer has room for",
    injector: rank("bad_count"),
    outcome: { codes: ["ERR_BAD_FRAME"], named: "victim", mute: [], detection: "at once" },
    calls: ["all_to_all_v", "indexed_all_to_all_v"],
  },
  {
    name: "kill-launcher",
    summary: "the launcher is killed while a rank is in an endless loop",
    injector: { by: "signal", signal: "SIGKILL", to: "launcher" },
    outcome: { codes: [], named: "nobody", mute: ["victim"], detection: "at once" },
  },
  {
    name: "kill-during-start",
    summary: "a rank is killed as soon as its process exists",
    injector: { by: "start" },
    outcome: victim("ERR_RANK_KILLED"),
  },
  {
    name: "fork-grandchild",
    summary: "a rank is killed and leaves a child that ignores SIGTERM",
    injector: rank("fork"),
    outcome: victim("ERR_RANK_KILLED"),
  },
  {
    name: "ignore-sigterm",
    summary: "a rank is killed, and the others do not react to SIGTERM",
    injector: rank("kill"),
    outcome: victim("ERR_RANK_KILLED"),
    handler: "block",
  },
];
