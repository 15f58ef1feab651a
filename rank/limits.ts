/** The sizes at which a rank cuts, bounds and queues what it sends. Tests make them small. */
import {
  FRAME_PAYLOAD_BYTES_MAX,
  GET_IN_FLIGHT_BYTES_MAX,
  LINK_QUEUE_BYTES_MAX,
  LINK_QUEUE_FRAMES_MAX,
  MESH_CHUNK_BYTES,
} from "../shared/constants.ts";

export interface Limits {
  /** Most payload of one frame that this rank sends or asks for. */
  readonly framePayloadBytes: number;
  /** Most bytes that stand unflushed on a link before further frames wait. */
  readonly linkQueueBytes: number;
  /** Most frames that wait on a link. */
  readonly linkQueueFrames: number;
  /** Most payload requested by get from one peer and not yet received. */
  readonly getInFlightBytes: number;
  /** What one round of the allreduce mesh moves from each peer; the same on every rank. */
  readonly meshChunkBytes: number;
}

export const defaultLimits: Limits = {
  framePayloadBytes: FRAME_PAYLOAD_BYTES_MAX,
  linkQueueBytes: LINK_QUEUE_BYTES_MAX,
  linkQueueFrames: LINK_QUEUE_FRAMES_MAX,
  getInFlightBytes: GET_IN_FLIGHT_BYTES_MAX,
  meshChunkBytes: MESH_CHUNK_BYTES,
};
