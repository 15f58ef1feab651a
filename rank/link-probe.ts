/**
 * Notices a link over which nothing comes any more although nobody has closed it.
 *
 * As long as this rank waits for a peer, it asks that peer for an acknowledgement again and again. Silence alone
 * proves nothing, because a peer that computes is silent, too; so it is only reported, and the coordinator, whom the
 * peer answers or not, tells the one from the other. Looks are counted rather than time: after this rank itself has
 * computed for long, answers are waiting to be read.
 */
import { LINK_LOOKS, LINK_PROBES_MAX, LINK_SILENT_LOOKS } from "../shared/constants.ts";
import { frameHeader, FrameKind } from "../shared/frame.ts";
import type { Engine } from "./engine.ts";

/** A running probe. */
export interface LinkProbe {
  readonly stop: () => void;
}

/** `moved` tells how much has come from a peer so far; `silent` is called again while a silence lasts. */
export function probeLinks(
  engine: Engine,
  livenessMs: number,
  moved: (peer: number) => number,
  silent: (peer: number, silentMs: number) => void,
): LinkProbe {
  const periodMs = livenessMs / LINK_LOOKS;
  const links = engine.world.peers().map((peer) => ({ peer, moved: -1, looks: 0 }));
  const stride = Math.ceil(links.length / LINK_PROBES_MAX);
  let turn = 0;
  const timer = setInterval(() => {
    turn += 1;
    const awaited = engine.ended ? new Set<number>() : engine.pending.awaited(periodMs);
    for (const link of links) {
      if (awaited !== "anybody" && !awaited.has(link.peer)) {
        link.looks = 0;
        continue;
      }
      // a wait that anybody may satisfy would cost each rank a word with every peer at every look
      if (awaited === "anybody" && (link.peer + turn) % stride !== 0) continue;
      const now = moved(link.peer);
      const quiet = now === link.moved;
      link.looks = quiet ? link.looks + 1 : 0;
      link.moved = now;
      // where all wait for anybody, they hear of one another by the words of half of them
      if (quiet || awaited !== "anybody") engine.post(engine.peer(link.peer), frameHeader({ kind: FrameKind.Fence }));
      if (link.looks >= LINK_SILENT_LOOKS) silent(link.peer, Math.round(link.looks * periodMs));
    }
  }, periodMs);
  timer.unref();
  return {
    stop: () => {
      clearInterval(timer);
    },
  };
}
