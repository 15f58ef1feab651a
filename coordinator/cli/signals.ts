/**
 * Signals that ask this process to end. They are heeded from the moment this module is loaded, which is the first of
 * all: until a command takes over, one ends the process, and says so.
 */
import { constants } from "node:os";
import type { Interrupt } from "../monitor-events.ts";

let heed = (signal: Interrupt): void => {
  process.stderr.write(`rankwise: ERR_INTERRUPTED: got ${signal}\n`);
  process.exit(128 + constants.signals[signal]);
};

// SIGHUP: the terminal has gone
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => heed(signal));

/** Calls back for each such signal from now on. */
export function onSignals(interrupt: (signal: Interrupt) => void): void {
  heed = interrupt;
}
