/** The files of `--log-dir`. One that cannot be written is given up: a job is worth more than its log. */
import { createWriteStream } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { ignore } from "../shared/async.ts";
import type { LineSink } from "./line-sink.ts";

/** A file that is written as long as that works. */
export interface LogFile {
  write(chunk: Buffer): void;
  end(): void;
}

/** An open folder. Its first failure is told at once, how many followed when all is closed. */
export class LogFolder {
  readonly #folder: string;
  readonly #flags: "a" | "w";
  readonly #sink: LineSink;
  readonly #closed: Promise<void>[] = [];
  #failures = 0;

  private constructor(folder: string, append: boolean, sink: LineSink) {
    this.#folder = folder;
    this.#flags = append ? "a" : "w";
    this.#sink = sink;
  }

  /** Makes the folder; undefined, once that was told, when it cannot be made. */
  static async open(folder: string, append: boolean, sink: LineSink): Promise<LogFolder | undefined> {
    try {
      await mkdir(folder, { recursive: true });
      return new LogFolder(folder, append, sink);
    } catch (error) {
      tell(sink, `cannot make ${folder}: ${(error as Error).message}; the job goes on without logs`);
      return undefined;
    }
  }

  file(name: string): LogFile {
    const path = join(this.#folder, name);
    const file = createWriteStream(path, { flags: this.#flags });
    file.on("error", (error) => this.#failed(path, error));
    this.#closed.push(finished(file).catch(ignore)); // its error is told as it comes
    return {
      write: (chunk) => {
        if (!file.destroyed) file.write(chunk);
      },
      end: () => {
        file.end();
      },
    };
  }

  /** Resolves when every file is closed. */
  async closed(): Promise<void> {
    await Promise.all(this.#closed);
    if (this.#failures > 1) tell(this.#sink, `${this.#failures} logs in all could not be written`);
  }

  #failed(path: string, error: Error): void {
    this.#failures += 1;
    if (this.#failures > 1) return;
    tell(this.#sink, `cannot write ${path}: ${error.message}; the job goes on without this log`);
  }
}

function tell(sink: LineSink, message: string): void {
  sink.write(Buffer.from(`rankwise: ERR_FILE_WRITE: --log-dir: ${message}\n`));
}
