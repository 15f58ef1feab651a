/**
 * A window of 2 GiB and 8 bytes, written whole by one put and read back whole, over Unix sockets and TCP: every element is
 * compared. It takes 2 GiB on each of two ranks, and is left out where they are not free. The suite has what lies around
 * the border, which takes none.
 */
import { freemem } from "node:os";
import { runCli } from "../helpers/cli.ts";
import { fixtureProgram } from "../helpers/run.ts";
import type { Campaign } from "./campaign.ts";

const NEEDED_BYTES = 5 * 2 ** 30;

export const campaign: Campaign = {
  runs: 1,
  async start({ runs, say }) {
    for (let run = 0; run < runs; run++) {
      for (const transport of ["unix", "tcp"]) {
        if (freemem() < NEEDED_BYTES) {
          say(`${transport}: left out, ${(freemem() / 2 ** 30).toFixed(1)} GiB are free and 5 are needed`);
          continue;
        }
        const args = ["run", fixtureProgram("large-window"), "-n", "2", "--transport", transport, "--", "whole"];
        const { stdout, text, wallMs } = await runCli(args, { timeoutMs: 300_000 });
        if (stdout !== "OK\n") throw new Error(text);
        say(`${transport}: ${2 ** 31 + 8} bytes there and back are right, ${Math.round(wallMs / 1000)} s`);
      }
    }
  },
};
