import { deferred } from "../shared/async.ts";
import { encodePublication } from "../shared/codec.ts";
import type { DType } from "../shared/dtype.ts";
import { RankwiseError } from "../shared/errors.ts";
import { FrameFlag, frameHeader, FrameKind } from "../shared/frame.ts";
import type { Publication } from "../shared/messages.ts";
import type { Shape } from "../shared/shape.ts";
import type { Engine } from "./engine.ts";
import { type Group, handContext } from "./group.ts";
import { acknowledged, tracked, waitRow } from "./waits.ts";
import type { Allocation } from "./memory/registry.ts";

/**
 * Makes this rank's part of a window or signal and waits until every member has made its own.
 *
 * The part is zeroed and registered before it is published, so a peer that runs ahead finds it.
 */
export async function allocateWindow(
  engine: Engine,
  group: Group,
  kind: "window" | "signal",
  name: string,
  dtype: DType,
  shape: Shape,
): Promise<Allocation> {
  engine.throwIfEnded();
  const allocation = engine.registry.allocate(group.id, kind, name, dtype, shape);
  const { ordinal } = allocation;
  const publication: Publication = {
    members: [...group.members],
    groupOrdinal: group.ordinal,
    kind,
    name,
    ordinal,
    dtype,
    shape: [...shape],
  };
  const { publications } = engine;
  publications.publish(engine.rank, group.id, publication);
  const payload = encodePublication(publication);
  for (const index of group.peers()) {
    const header = frameHeader({ kind: FrameKind.Publish, group: group.id, window: ordinal });
    engine.post(engine.peer(group.world(index)), header, payload);
  }
  await everybody(engine, group, ordinal, `${kind} "${name}"`, name, "publication by", () =>
    publications.missing(group.id, publication),
  );
  return allocation;
}

/**
 * Says that this rank will not touch the window again, waits until every member has said so, and gives the memory
 * back. What peers had sent to it before lies ahead of their word on the link, so it has been applied; and what this
 * rank had sent from it lies ahead of its own word, which they acknowledge.
 */
export async function freeWindow(engine: Engine, group: Group, allocation: Allocation): Promise<void> {
  engine.throwIfEnded();
  const { ordinal, name } = allocation;
  const { publications, registry } = engine;
  const call = `free "${name}"`;
  allocation.closing = true;
  publications.free(engine.rank, group.id, ordinal);
  const acknowledgements = group.peers().map((index) => {
    const peer = engine.peer(group.world(index));
    engine.post(peer, frameHeader({ kind: FrameKind.Free, flags: FrameFlag.AckNow, group: group.id, window: ordinal }));
    return acknowledged(engine, handContext(group, call), peer);
  });
  const word = everybody(engine, group, ordinal, call, name, "free by", () =>
    publications.notFreed(group.id, ordinal, group.members),
  );
  await Promise.all([word, ...acknowledgements]);
  registry.release(allocation);
  publications.forget(group.id, ordinal);
}

/** Waits until `missing` names nobody; it is asked again at every word about this allocation. */
async function everybody(
  engine: Engine,
  group: Group,
  ordinal: number,
  call: string,
  name: string,
  what: string,
  missing: () => number[],
): Promise<void> {
  const arrived = deferred<void>();
  const row = { ...waitRow(handContext(group, call), name, what, -1), missing: [] as number[] };
  const look = (): void => {
    try {
      row.missing = missing();
      if (row.missing.length === 0) arrived.resolve();
    } catch (error) {
      if (!(error instanceof RankwiseError)) throw error;
      engine.fail({ error, call, suspect: null });
    }
  };
  engine.publications.onChange(group.id, ordinal, look);
  look();
  await tracked(engine, row, arrived.promise);
  engine.publications.onChange(group.id, ordinal, undefined);
}
