/** Rejections that nobody handles in the turns of the event loop that follow some work. */
export async function unhandledIn(work: () => void): Promise<unknown[]> {
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection").on("unhandledRejection", note);
  try {
    work();
    for (let turns = 0; turns < 3; turns++) await new Promise(setImmediate);
  } finally {
    process.off("unhandledRejection", note);
    for (const other of others) process.on("unhandledRejection", other);
  }
  return unhandled;
}
