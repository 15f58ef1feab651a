/** Whole groups in one scratch, which must be empty after each round. */
import { randomUUID } from "node:crypto";
import { DRILL_MARK, Observer } from "../../coordinator/drill/observer.ts";
import { CliProcess, Scratch } from "./cli.ts";

/**
 * Runs so many groups at once, over TCP and Unix sockets in turn, and looks for what they leave: processes, sockets,
 * files, ports.
 */
export async function runGroups(count: number): Promise<void> {
  const mark = randomUUID();
  const observer = new Observer(mark);
  const scratches = await Promise.all(Array.from({ length: count }, () => Scratch.make()));
  const commands = scratches.map((scratch, at) => {
    const args = ["run", "drill", "-n", "3", "--transport", at % 2 === 0 ? "unix" : "tcp", "--", "all_to_all", "8"];
    return new CliProcess(args, { env: { [DRILL_MARK]: mark }, timeoutMs: 60_000 }, scratch, false);
  });
  const watching = setInterval(() => {
    observer.running();
    observer.notePorts();
  }, 50);
  const results = await Promise.all(commands.map(({ ended }) => ended));
  clearInterval(watching);
  await observer.gone(performance.now() + 2000);
  const left = scratches.flatMap((scratch) => observer.leftovers(scratch.folder));
  for (const scratch of scratches) await scratch.dispose("");
  const texts = results.map(({ text }) => text).join("\n");
  if (results.some(({ stdout }) => stdout !== "OK\n")) throw new Error(`a group failed\n${texts}`);
  if (left.length > 0) throw new Error(`left behind: ${left.join(", ")}\n${texts}`);
}
