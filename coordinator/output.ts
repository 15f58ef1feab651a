/** What ranks print, line by line: prefixed onto our stderr, and into files where that is asked for. */
import type { Readable } from "node:stream";
import { finished } from "node:stream/promises";
import type { LineSink } from "./line-sink.ts";
import { LogFolder } from "./log-folder.ts";

/** A longer line is cut into several. */
export const LINE_BYTES_MAX = 1024 * 1024;

const NEWLINE = 0x0a;

/** Cuts a stream of bytes into lines, which it hands over without their newline. */
export class LineSplitter {
  readonly #onLine: (line: Buffer) => void;
  readonly #parts: Buffer[] = [];
  #bytes = 0;

  constructor(onLine: (line: Buffer) => void) {
    this.#onLine = onLine;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#add(chunk.subarray(start, end));
      this.#emit();
      start = end + 1;
    }
    this.#add(chunk.subarray(start));
  }

  /** Hands over the last line if no newline ended it. */
  flush(): void {
    if (this.#bytes > 0) this.#emit();
  }

  #add(piece: Buffer): void {
    let rest = piece;
    while (this.#bytes + rest.byteLength > LINE_BYTES_MAX) {
      const room = characterStart(rest, LINE_BYTES_MAX - this.#bytes);
      this.#keep(rest.subarray(0, room));
      this.#emit();
      rest = rest.subarray(room);
    }
    this.#keep(rest);
  }

  #keep(piece: Buffer): void {
    if (piece.byteLength === 0) return;
    this.#parts.push(piece);
    this.#bytes += piece.byteLength;
  }

  #emit(): void {
    const [first] = this.#parts;
    this.#onLine(this.#parts.length === 1 && first !== undefined ? first : Buffer.concat(this.#parts));
    this.#parts.length = 0;
    this.#bytes = 0;
  }
}

export interface OutputOptions {
  readonly job: string;
  /** Prefix lines with job, rank and stream, instead of the rank alone. */
  readonly tagged: boolean;
  /** Folder for `rank-N.out` and `rank-N.err`, if any. */
  readonly logDir: string | undefined;
  /** Go on at the end of the files, where an earlier epoch has written. */
  readonly append?: boolean;
  readonly sink: LineSink;
}

/** The two streams of a rank. */
export interface RankStreams {
  readonly stdout: Readable;
  readonly stderr: Readable;
}

/** The output of all ranks of one supervisor. */
export class RankOutput {
  readonly #options: OutputOptions;
  readonly #logs: LogFolder | undefined;
  readonly #ends: Promise<unknown>[] = [];

  private constructor(options: OutputOptions, logs: LogFolder | undefined) {
    this.#options = options;
    this.#logs = logs;
  }

  static async open(options: OutputOptions): Promise<RankOutput> {
    const { logDir, append = false, sink } = options;
    return new RankOutput(options, logDir === undefined ? undefined : await LogFolder.open(logDir, append, sink));
  }

  /** Takes over what a rank prints, until its streams end. */
  attach(rank: number, streams: RankStreams): void {
    this.#follow(rank, "stdout", "out", streams.stdout);
    this.#follow(rank, "stderr", "err", streams.stderr);
  }

  /** Resolves when every stream has ended and every file is closed. */
  async drained(): Promise<void> {
    await Promise.all(this.#ends);
    await this.#logs?.closed();
  }

  #follow(rank: number, name: "stdout" | "stderr", extension: string, stream: Readable): void {
    const { job, tagged, sink } = this.#options;
    const prefix = Buffer.from(tagged ? `[${job},${rank}]<${name}> ` : `[${rank}] `);
    const newline = Buffer.from("\n");
    const splitter = new LineSplitter((line) => sink.write(Buffer.concat([prefix, line, newline])));
    const file = this.#logs?.file(`rank-${rank}.${extension}`);
    stream.on("data", (chunk: Buffer) => {
      splitter.push(chunk);
      file?.write(chunk);
    });
    const ended = finished(stream)
      .catch(() => undefined) // a stream cut off has ended too
      .then(() => {
        splitter.flush();
        file?.end();
      });
    this.#ends.push(ended);
  }
}

/** The last index of at most `limit` where a UTF-8 character starts; `limit` itself in bytes that are no UTF-8. */
function characterStart(bytes: Buffer, limit: number): number {
  for (let index = limit; index > Math.max(limit - 4, 0); index--) {
    if (((bytes[index] ?? 0) & 0xc0) !== 0x80) return index;
  }
  return limit;
}
