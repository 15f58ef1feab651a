/** Broken control messages, handshakes and frames, half of each run; and that memory stays flat meanwhile. */
import { Random } from "../../shared/random.ts";
import { fuzzFrames, fuzzMessages } from "../helpers/fuzz.ts";
import type { Campaign } from "./campaign.ts";

const STEP = 2000;

/** Growth of memory in use that counts as a leak. */
const GROWTH_BYTES_MAX = 64 * 1024 * 1024;

export const campaign: Campaign = {
  runs: 100_000,
  async start({ seed, runs, say }) {
    let settledBytes: number | undefined;
    for (let done = 0; done < runs; done += STEP) {
      const random = new Random(seed + done);
      fuzzMessages(random, STEP / 2);
      await fuzzFrames(random, STEP / 2);
      const usedBytes = process.memoryUsage().heapUsed + process.memoryUsage().arrayBuffers;
      if (done === 5 * STEP) settledBytes = usedBytes;
      if ((done / STEP) % 10 === 9) say(`${done + STEP} inputs, ${Math.round(usedBytes / 2 ** 20)} MiB in use`);
      if (settledBytes !== undefined && usedBytes > settledBytes + GROWTH_BYTES_MAX) {
        throw new Error(`memory grew from ${settledBytes} to ${usedBytes} bytes`);
      }
    }
  },
};
