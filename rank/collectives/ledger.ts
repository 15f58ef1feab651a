/**
 * The builtin calls of one group on one rank, by sequence number, and what peers say about theirs.
 *
 * Every frame of a builtin carries its call's sequence number and a fingerprint of everything the ranks must agree
 * on. A rank that sees another fingerprint for the same number has found a mismatch.
 */
import { RankwiseError } from "../../shared/errors.ts";
import type { CurrentCall } from "../../shared/messages.ts";

/** Fingerprints of finished calls that are still remembered; a slower peer is behind by no more. */
const FINISHED_CALLS_KEPT = 64;

/** Calls a peer may be ahead before this rank has entered them. */
const EARLY_CALLS_MAX = 64;

/** Bytes that one peer may have staged here for calls that have not taken them yet. */
const STAGED_BYTES_MAX = 256 * 1024 * 1024;

/** What one peer has staged, by call and round. */
interface Staged {
  bytes: number;
  readonly blocks: Map<number, Uint8Array>;
}

/** One builtin call. */
export interface LedgerCall {
  readonly op: string;
  readonly seq: number;
  readonly fingerprint: number;
  /** The arguments that every rank must agree on, one text. */
  readonly arguments: string;
  /** Peers (world ranks) of whose part in this call something has arrived while it was open here. */
  readonly heard: Set<number>;
}

export class CallLedger {
  #lastSeq = 0;
  readonly #calls = new Map<number, LedgerCall>();
  readonly #active = new Set<LedgerCall>();
  /** Notes that came with credits: seq → peer → value. */
  readonly #notes = new Map<number, Map<number, number>>();
  /** What peers (world ranks) have sent ahead for a call of theirs and ours, until that call takes it. */
  readonly #staged = new Map<number, Staged>();
  /** What peers have announced of calls that this rank has not entered: seq → peer → fingerprint. */
  readonly #early = new Map<number, Map<number, number>>();

  /** Enters the next call. @throws {ERR_MISMATCH} when a peer has already announced another one. */
  enter(op: string, args: string, fingerprint: number): LedgerCall {
    const seq = this.#lastSeq + 1;
    const announced = this.#early.get(seq);
    const call: LedgerCall = { op, seq, fingerprint, arguments: args, heard: new Set(announced?.keys()) };
    this.#lastSeq = seq;
    this.#calls.set(seq, call);
    this.#active.add(call);
    this.#early.delete(seq);
    this.#forget(seq - FINISHED_CALLS_KEPT);
    for (const [peer, other] of announced ?? []) if (other !== fingerprint) throw mismatch(call, peer);
    return call;
  }

  leave(call: LedgerCall): void {
    this.#active.delete(call);
    this.#notes.delete(call.seq);
    if (call.seq <= this.#lastSeq - FINISHED_CALLS_KEPT) this.#forget(call.seq);
  }

  /** Keeps the note that came with a peer's credit, before the credit itself can be seen. */
  note(peer: number, seq: number, value: number): void {
    let notes = this.#notes.get(seq);
    if (notes === undefined) this.#notes.set(seq, (notes = new Map<number, number>()));
    notes.set(peer, value);
  }

  /** The note of a peer (world rank) for a call, or undefined. */
  noteOf(peer: number, seq: number): number | undefined {
    return this.#notes.get(seq)?.get(peer);
  }

  /** Keeps a block that a peer has sent for a round of a call. @throws {ERR_BAD_FRAME | ERR_LIMIT} */
  stage(peer: number, seq: number, round: number, block: Uint8Array): void {
    let staged = this.#staged.get(peer);
    if (staged === undefined) this.#staged.set(peer, (staged = { bytes: 0, blocks: new Map() }));
    const key = stageKey(seq, round);
    if (seq === 0 || staged.blocks.has(key) || (seq <= this.#lastSeq && !this.#isActive(seq))) {
      throw new RankwiseError("ERR_BAD_FRAME", `a block for round ${round} of call ${seq}, which awaits none`);
    }
    if (staged.bytes + block.byteLength > STAGED_BYTES_MAX) {
      throw new RankwiseError(
        "ERR_LIMIT",
        `rank ${peer} has staged ${staged.bytes} bytes here that no call has taken, and ${block.byteLength} more would exceed STAGED_BYTES_MAX ${STAGED_BYTES_MAX}; await calls before making more of them`,
      );
    }
    staged.bytes += block.byteLength;
    staged.blocks.set(key, block);
  }

  /** Takes what a peer has staged for a round of a call; undefined if it has sent nothing. */
  takeStaged(peer: number, seq: number, round: number): Uint8Array | undefined {
    const staged = this.#staged.get(peer);
    const key = stageKey(seq, round);
    const block = staged?.blocks.get(key);
    if (staged === undefined || block === undefined) return undefined;
    staged.blocks.delete(key);
    staged.bytes -= block.byteLength;
    return block;
  }

  /** Takes note of a frame of a peer's call. @throws {ERR_MISMATCH | ERR_LIMIT} */
  observe(peer: number, seq: number, fingerprint: number): void {
    const call = this.#calls.get(seq);
    if (call !== undefined) {
      if (call.fingerprint !== fingerprint) throw mismatch(call, peer);
      if (this.#active.has(call)) call.heard.add(peer);
      return;
    }
    if (seq <= this.#lastSeq) return;
    if (seq > this.#lastSeq + EARLY_CALLS_MAX) {
      throw new RankwiseError(
        "ERR_LIMIT",
        `rank ${peer} is in call ${seq}, more than EARLY_CALLS_MAX ${EARLY_CALLS_MAX} ahead of call ${this.#lastSeq} here`,
      );
    }
    let announced = this.#early.get(seq);
    if (announced === undefined) this.#early.set(seq, (announced = new Map<number, number>()));
    announced.set(peer, fingerprint);
  }

  /** Forgets a finished call; one that is still open is compared with its peers' however far others have gone on. */
  #forget(seq: number): void {
    const call = this.#calls.get(seq);
    if (call !== undefined && !this.#active.has(call)) this.#calls.delete(seq);
  }

  #isActive(seq: number): boolean {
    const call = this.#calls.get(seq);
    return call !== undefined && this.#active.has(call);
  }

  /** The calls this rank is in, oldest first. */
  current(): Omit<CurrentCall, "group" | "groupOrdinal">[] {
    return [...this.#active].map(({ op, seq, arguments: args }) => ({ op, seq, arguments: args }));
  }
}

/** Rounds are 16 bits on the wire, so that this stays a safe integer. */
function stageKey(seq: number, round: number): number {
  return seq * 0x1_0000 + round;
}

function mismatch(call: LedgerCall, peer: number): RankwiseError {
  return new RankwiseError(
    "ERR_MISMATCH",
    `${call.op} #${call.seq}: rank ${peer} is in a different call, or in this one with other arguments (here: ${call.arguments})`,
    { peer, collective: call.op, seq: call.seq },
  );
}
