/** Where lines go; `process.stderr` is one. */
export interface LineSink {
  write(bytes: Buffer): unknown;
}
