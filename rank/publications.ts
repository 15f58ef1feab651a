/**
 * Who has published which window or signal: a window exists for a program once every member has published it.
 *
 * Publications of members that run ahead may arrive before this rank has asked for the window, or even for the group.
 */
import { RankwiseError } from "../shared/errors.ts";
import type { Publication } from "../shared/messages.ts";

interface Gathering {
  /** World rank → what it published. */
  readonly published: Map<number, string>;
  /** World rank → has freed it. */
  readonly freed: Set<number>;
  changed: (() => void) | undefined;
}

export class Publications {
  readonly #gatherings = new Map<string, Gathering>();

  publish(from: number, groupId: number, publication: Publication): void {
    const gathering = this.#gathering(groupId, publication.ordinal);
    gathering.published.set(from, describePublication(publication));
    gathering.changed?.();
  }

  free(from: number, groupId: number, ordinal: number): void {
    const gathering = this.#gathering(groupId, ordinal);
    gathering.freed.add(from);
    gathering.changed?.();
  }

  /** Members that have not published; @throws {ERR_MISMATCH} when one has published something else. */
  missing(groupId: number, own: Publication): number[] {
    const { published } = this.#gathering(groupId, own.ordinal);
    const ours = describePublication(own);
    for (const [rank, theirs] of published) {
      if (theirs === ours) continue;
      throw new RankwiseError(
        "ERR_MISMATCH",
        `${own.kind} "${own.name}": rank ${rank} published ${theirs} where this rank published ${ours}; every rank of a group makes the same windows and signals in the same order`,
        { peer: rank, window: own.name },
      );
    }
    return own.members.filter((member) => !published.has(member));
  }

  notFreed(groupId: number, ordinal: number, members: readonly number[]): number[] {
    const { freed } = this.#gathering(groupId, ordinal);
    return members.filter((member) => !freed.has(member));
  }

  /** `listener` is called at each further publication or free of this allocation. */
  onChange(groupId: number, ordinal: number, listener: (() => void) | undefined): void {
    this.#gathering(groupId, ordinal).changed = listener;
  }

  /** Forgets an allocation that all members have freed. */
  forget(groupId: number, ordinal: number): void {
    this.#gatherings.delete(`${groupId}:${ordinal}`);
  }

  #gathering(groupId: number, ordinal: number): Gathering {
    const key = `${groupId}:${ordinal}`;
    let gathering = this.#gatherings.get(key);
    if (gathering === undefined) {
      gathering = { published: new Map(), freed: new Set(), changed: undefined };
      this.#gatherings.set(key, gathering);
    }
    return gathering;
  }
}

function describePublication({ kind, name, dtype, shape, members }: Publication): string {
  return `${kind} "${name}" ${dtype} [${shape.join(", ")}] in group [${members.join(", ")}]`;
}
