/**
 * What is left of a supervisor that was killed: a shell that waits for the end of a pipe.
 *
 * A supervisor ends its ranks by itself, and ranks that lose their coordinator end themselves; neither helps when the
 * supervisor is killed while a rank is in an endless loop or has left children. The pipe's end is the news of that
 * death which nothing can suppress.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { ORPHAN_MS } from "../shared/constants.ts";

/** Reads lists of process groups, the latest of which counts; at the pipe's end kills them and removes the folder. */
const SCRIPT = `
groups=
while read -r line; do
  [ "$line" = dismissed ] && exit 0
  groups=$line
done
sleep "$1"
for group in $groups; do kill -KILL "-$group" 2>/dev/null; done
rm -rf -- "$2"
`;

/** A warden at its post. Where there is no shell, there is none, and all else works as before. */
export class Warden {
  readonly #child: ChildProcess;

  /** Posts a warden that in the end also removes a folder. */
  constructor(folder: string) {
    const args = ["-c", SCRIPT, "rankwise-warden", String(ORPHAN_MS / 1000), folder];
    this.#child = spawn("/bin/sh", args, { cwd: "/", detached: true, stdio: ["pipe", "ignore", "ignore"] });
    this.#child.on("error", () => undefined);
    this.#child.stdin?.on("error", () => undefined);
    this.#child.unref();
  }

  /** Names the process groups to kill, all of them. */
  watch(groups: readonly number[]): void {
    this.#child.stdin?.write(`${groups.join(" ")}\n`);
  }

  /** Nothing is left to watch. */
  dismiss(): void {
    this.#child.stdin?.end("dismissed\n");
  }
}
