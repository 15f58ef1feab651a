/** Where the ranks of an epoch run, as each has said when it joined. */
import type { MessageOf } from "../shared/messages.ts";

/** What a rank says of its place. */
type Place = Pick<MessageOf<"join_rank">, "host" | "address" | "processors">;

export class Places {
  readonly #places = new Map<number, Place>();

  add(rank: number, place: Place): void {
    this.#places.set(rank, place);
  }

  /** Address of a rank, or null before it has joined. */
  address(rank: number): string | null {
    return this.#places.get(rank)?.address ?? null;
  }

  /** Addresses of all that have joined. */
  get addresses(): string[] {
    return [...this.#places.values()].map(({ address }) => address);
  }

  /** What all ranks are told alike, once all have joined: they choose their algorithms by it. */
  get placement(): MessageOf<"start">["placement"] {
    const places = [...this.#places.values()];
    return {
      hosts: new Set(places.map(({ host }) => host)).size,
      processors: Math.min(...places.map(({ processors }) => processors)),
    };
  }

  clear(): void {
    this.#places.clear();
  }
}
