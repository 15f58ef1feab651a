/** Short-lived memory of one rank: pieces are taken, used by a builtin call, and given back to be used again. */

/** Pieces of one size that are kept; more are left to the collector. */
const KEPT_MAX = 32;

/** Bytes that are kept in all. */
const KEPT_BYTES_MAX = 256 * 1024 * 1024;

export class Scratch {
  /** Pieces that nobody uses, by size. */
  readonly #free = new Map<number, Uint8Array[]>();
  #freeBytes = 0;

  /** So many bytes, with whatever they held. */
  take(bytes: number): Uint8Array {
    const piece = this.#free.get(bytes)?.pop();
    if (piece === undefined) return new Uint8Array(bytes);
    this.#freeBytes -= bytes;
    return piece;
  }

  /** A copy. */
  copy(bytes: Uint8Array): Uint8Array {
    const piece = this.take(bytes.byteLength);
    piece.set(bytes);
    return piece;
  }

  /** Gives back what `take` or `copy` returned; nobody may use it any more. */
  give(piece: Uint8Array): void {
    const bytes = piece.byteLength;
    let free = this.#free.get(bytes);
    if (free === undefined) this.#free.set(bytes, (free = []));
    if (free.length >= KEPT_MAX || this.#freeBytes + bytes > KEPT_BYTES_MAX) return;
    free.push(piece);
    this.#freeBytes += bytes;
  }
}
