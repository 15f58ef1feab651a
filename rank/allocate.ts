import { deferred } from "../shared/async.ts";
import { encodePublication } from "../shared/codec.ts";
import type { DType } from "../shared/dtype.ts";
import { RankwiseError } from "../shared/errors.ts";
import { frameHeader, FrameKind } from "../shared/frame.ts";
import type { Publication } from "../shared/messages.ts";
import type { Shape } from "../shared/shape.ts";
import type { Engine } from "./engine.ts";
import { type Group, handContext } from "./group.ts";
import { tracked, waitRow } from "./issue.ts";
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
  const published = deferred<void>();
  const row = {
    ...waitRow(handContext(group, `${kind} "${name}"`), name, "publication by", -1),
    missing: [] as number[],
  };
  const look = (): void => {
    try {
      row.missing = publications.missing(group.id, publication);
      if (row.missing.length === 0) published.resolve();
    } catch (error) {
      if (!(error instanceof RankwiseError)) throw error;
      engine.fail({ error, call: row.call, suspect: null });
    }
  };
  publications.onChange(group.id, ordinal, look);
  look();
  await tracked(engine, row, published.promise);
  publications.onChange(group.id, ordinal, undefined);
  return allocation;
}
