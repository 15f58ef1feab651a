/** Headers of the frames that primitives and builtins send. */
import { blankHeader, FrameFlag, type FrameHeader, type FrameKind } from "../shared/frame.ts";
import type { Span } from "../shared/shape.ts";
import type { CallContext } from "./group.ts";
import type { Allocation } from "./memory/registry.ts";
import { NotifyOp } from "./primitives.ts";

/** A change of one cell of a signal. */
export interface CellChange {
  readonly signal: Allocation;
  readonly cell: number;
  readonly op: NotifyOp;
  readonly value: number;
  /** A number for the receiver of a builtin's credit, e.g. how many rows will follow. */
  readonly note?: number;
}

/** The header of a frame about a region of a window, in the context of a call. */
export function contextHeader(
  ctx: CallContext,
  kind: FrameKind,
  target: { readonly groupId: number; readonly ordinal: number },
  span: Span,
): FrameHeader {
  const header = callHeader(ctx, kind, target.groupId);
  header.window = target.ordinal;
  header.offset = span.offset;
  header.rowBytes = span.rowBytes;
  header.rows = span.rows;
  header.strideBytes = span.strideBytes;
  return header;
}

/** A header in the context of a call: all that its receiver compares, and nothing of a region. */
export function callHeader(ctx: CallContext, kind: FrameKind, groupId: number): FrameHeader {
  const header = blankHeader(kind);
  header.lane = ctx.lane;
  header.group = groupId;
  header.seq = ctx.seq;
  header.round = ctx.round;
  header.fingerprint = ctx.fingerprint;
  return header;
}

/** Lets the frame change a cell behind what it carries. */
export function addChange(header: FrameHeader, change: CellChange | undefined): void {
  if (change === undefined) return;
  header.flags |= FrameFlag.Signal | (change.op === NotifyOp.AtomicAdd ? FrameFlag.SignalAdd : 0);
  header.signal = change.signal.ordinal;
  header.cell = change.cell;
  header.value = change.value;
}
