/**
 * What is left of a supervisor that was killed or stopped: a shell that waits for the end of a pipe.
 *
 * A supervisor ends its ranks by itself, and ranks that lose their coordinator end themselves; neither helps when the
 * supervisor is killed, or stopped for good, while a rank is in an endless loop or has left children. The pipe's end is
 * the news of a death which nothing can suppress. A stop closes no pipe, so a second shell looks at the supervisor's
 * state now and then: what it costs is one `sleep` a look.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { LIVENESS_MISSES_MAX, ORPHAN_MS } from "../shared/constants.ts";

/**
 * Reads lists of process groups, the latest of which counts; at the pipe's end kills them and removes the folders.
 * A supervisor that is found stopped for as long as it takes its ranks to give it up has only its groups killed: it
 * may go on, and then has something to tell. A trap ends a `read`, in some shells with a failure.
 */
const SCRIPT = `
orphan=$1 supervisor=$2 pause=$3 looks=$4
shift 4
groups= trapped=
strike() { for group in $groups; do kill -KILL "-$group" 2>/dev/null; done; }
stopped() {
  read -r stat <"/proc/$supervisor/stat" || exit 0
  case \${stat##*) } in [Tt]*) return 0 ;; esac
  return 1
}
trap 'trapped=yes; strike' USR1
(
  seen=0
  while sleep "$pause"; do
    if stopped; then seen=$((seen + 1)); else seen=0; fi
    [ "$seen" -ge "$looks" ] && sleep "$orphan" && stopped && kill -USR1 $$ && exit 0
  done
) 2>/dev/null &
while read -r line || [ -n "$trapped" ]; do
  trapped=
  case $line in
    dismissed) kill -KILL 0 ;;
    '') ;;
    *) groups=$line ;;
  esac
done
sleep "$orphan"
strike
rm -rf -- "$@"
kill -KILL 0
`;

/** A warden at its post. Where there is no shell, there is none, and all else works as before. */
export class Warden {
  readonly #child: ChildProcess;

  /** Posts a warden over this process; in the end it also removes folders. */
  constructor(folders: readonly string[], livenessMs: number) {
    const looks = LIVENESS_MISSES_MAX + 1;
    const numbers = [ORPHAN_MS / 1000, process.pid, livenessMs / looks / 1000, looks];
    const args = ["-c", SCRIPT, "rankwise-warden", ...numbers.map(String), ...folders];
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
