/**
 * The builtin calls of one group on one rank, by sequence number, and what peers say about theirs.
 *
 * Every frame of a builtin carries its call's sequence number and a fingerprint of everything the ranks must agree
 * on. A rank that sees another fingerprint for the same number has found a mismatch.
 */
import { RankwiseError } from "../../shared/errors.ts";
import { takeOut } from "../list.ts";
import type { CurrentCall } from "../../shared/messages.ts";

/** Finished calls whose fingerprints are still remembered; a slower peer is behind by no more. */
const FINISHED_CALLS_KEPT = 64;

/** Calls a peer may be ahead before this rank has entered them. */
const EARLY_CALLS_MAX = 64;

/** Bytes that one peer may have staged here for calls that have not taken them yet. */
const STAGED_BYTES_MAX = 256 * 1024 * 1024;

/** A block that a peer has sent ahead for a round of a call. */
interface StagedBlock {
  readonly seq: number;
  readonly round: number;
  readonly memory: Uint8Array;
  /** Bytes of memory that it waits in; none once it has landed where it belongs. */
  readonly held: number;
}

/** What one peer has staged: a block or two, mostly. */
interface Staged {
  bytes: number;
  readonly blocks: StagedBlock[];
}

/** What a peer has announced of a call that this rank has not entered. */
interface Announcement {
  readonly seq: number;
  readonly peer: number;
  readonly fingerprint: number;
}

/** What a frame says of its call. */
export interface Announced {
  readonly seq: number;
  readonly round: number;
  readonly fingerprint: number;
}

/** One builtin call. */
export interface LedgerCall {
  readonly op: string;
  readonly seq: number;
  readonly fingerprint: number;
  /** The arguments that every rank must agree on, one text. */
  readonly arguments: string;
  /**
   * Where a staged block of a peer (world rank) may land at once, now that the call runs, so that nobody has to move it;
   * undefined for blocks that are to be kept.
   */
  landing: ((peer: number, round: number) => Uint8Array | undefined) | undefined;
}

export class CallLedger {
  #lastSeq = 0;
  /** The last calls, finished or not, each at its number modulo FINISHED_CALLS_KEPT. */
  readonly #recent: LedgerCall[] = [];
  /** Calls that this rank is in, oldest first. */
  readonly #active: LedgerCall[] = [];
  /** By peer (world rank): the last call of which something has come from it. It has entered all those before, too. */
  readonly #heard: number[] = [];
  /** Notes that came with credits: seq → peer → value. */
  readonly #notes = new Map<number, Map<number, number>>();
  /** What peers (world ranks) have sent ahead for a call of theirs and ours, until that call takes it. */
  readonly #staged = new Map<number, Staged>();
  readonly #early: Announcement[] = [];

  /** Enters the next call. @throws {ERR_MISMATCH} when a peer has already announced another one. */
  enter(op: string, args: string, fingerprint: number): LedgerCall {
    const seq = this.#lastSeq + 1;
    const call: LedgerCall = { op, seq, fingerprint, arguments: args, landing: undefined };
    this.#lastSeq = seq;
    this.#recent[seq % FINISHED_CALLS_KEPT] = call;
    this.#active.push(call);
    const other = this.#takeAnnouncements(call);
    if (other !== undefined) throw mismatch(call, other);
    return call;
  }

  leave(call: LedgerCall): void {
    takeOut(this.#active, call);
    if (this.#notes.size > 0) this.#notes.delete(call.seq);
  }

  /** Whether something of a call, or of a later one, has come from a peer (world rank): it has entered the call. */
  heard(peer: number, { seq }: LedgerCall): boolean {
    return (this.#heard[peer] ?? 0) >= seq;
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

  /**
   * Keeps a block that a peer has sent for a round of a call, until that takes it. One that has landed takes no room here.
   *
   * @throws {ERR_BAD_FRAME | ERR_LIMIT}
   */
  stage(peer: number, { seq, round }: Announced, block: Uint8Array, landed: boolean): void {
    let staged = this.#staged.get(peer);
    if (staged === undefined) this.#staged.set(peer, (staged = { bytes: 0, blocks: [] }));
    const known = find(staged, seq, round) !== undefined;
    if (seq === 0 || known || (seq <= this.#lastSeq && !this.#isActive(seq))) {
      throw new RankwiseError("ERR_BAD_FRAME", `a block for round ${round} of call ${seq}, which awaits none`);
    }
    const held = landed ? 0 : block.byteLength;
    if (staged.bytes + held > STAGED_BYTES_MAX) {
      throw new RankwiseError(
        "ERR_LIMIT",
        `rank ${peer} has staged ${staged.bytes} bytes here that no call has taken, and ${held} more would exceed STAGED_BYTES_MAX ${STAGED_BYTES_MAX}; await calls before making more of them`,
      );
    }
    staged.bytes += held;
    staged.blocks.push({ seq, round, memory: block, held });
  }

  /** Where the block that this frame of a peer carries belongs, if its call has entered here and takes just such a block. */
  landingOf(peer: number, { seq, round, fingerprint }: Announced, bytes: number): Uint8Array | undefined {
    const call = this.#active.find((active) => active.seq === seq);
    if (call?.landing === undefined || call.fingerprint !== fingerprint) return undefined;
    const staged = this.#staged.get(peer);
    if (staged !== undefined && find(staged, seq, round) !== undefined) return undefined;
    const memory = call.landing(peer, round);
    return memory?.byteLength === bytes ? memory : undefined;
  }

  /** Takes what a peer has staged for a round of a call; undefined if it has sent nothing. */
  takeStaged(peer: number, seq: number, round: number): Uint8Array | undefined {
    const staged = this.#staged.get(peer);
    const block = staged && find(staged, seq, round);
    if (staged === undefined || block === undefined) return undefined;
    takeOut(staged.blocks, block);
    staged.bytes -= block.held;
    return block.memory;
  }

  /** Takes note of a frame of a peer's call. @throws {ERR_MISMATCH | ERR_LIMIT} */
  observe(peer: number, seq: number, fingerprint: number): void {
    if (seq > this.#lastSeq + EARLY_CALLS_MAX) {
      throw new RankwiseError(
        "ERR_LIMIT",
        `rank ${peer} is in call ${seq}, more than EARLY_CALLS_MAX ${EARLY_CALLS_MAX} ahead of call ${this.#lastSeq} here`,
      );
    }
    if ((this.#heard[peer] ?? 0) < seq) this.#heard[peer] = seq;
    if (seq > this.#lastSeq) {
      this.#announce(peer, seq, fingerprint);
      return;
    }
    const recent = this.#recent[seq % FINISHED_CALLS_KEPT];
    // one that is still open is compared with its peers' however far others have gone on
    const call = recent?.seq === seq ? recent : this.#active.find((active) => active.seq === seq);
    if (call !== undefined && call.fingerprint !== fingerprint) throw mismatch(call, peer);
  }

  /** The calls this rank is in, oldest first. */
  current(): Omit<CurrentCall, "group" | "groupOrdinal">[] {
    return this.#active.map(({ op, seq, arguments: args }) => ({ op, seq, arguments: args }));
  }

  #announce(peer: number, seq: number, fingerprint: number): void {
    const known = this.#early.some((other) => other.seq === seq && other.peer === peer);
    if (!known) this.#early.push({ seq, peer, fingerprint });
  }

  /** Takes what peers have announced of a call; returns one that has announced another. */
  #takeAnnouncements({ seq, fingerprint }: LedgerCall): number | undefined {
    const early = this.#early;
    let other: number | undefined;
    let left = 0;
    for (const announcement of early) {
      if (announcement.seq !== seq) early[left++] = announcement;
      else if (announcement.fingerprint !== fingerprint) other ??= announcement.peer;
    }
    early.length = left;
    return other;
  }

  #isActive(seq: number): boolean {
    return this.#active.some((call) => call.seq === seq);
  }
}

function find({ blocks }: Staged, seq: number, round: number): StagedBlock | undefined {
  for (const block of blocks) if (block.seq === seq && block.round === round) return block;
  return undefined;
}

function mismatch(call: LedgerCall, peer: number): RankwiseError {
  return new RankwiseError(
    "ERR_MISMATCH",
    `${call.op} #${call.seq}: rank ${peer} is in a different call, or in this one with other arguments (here: ${call.arguments})`,
    { peer, collective: call.op, seq: call.seq },
  );
}
