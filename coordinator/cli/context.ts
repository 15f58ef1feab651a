/** What the entry of the command line and its commands share. */
export interface CliContext {
  /** Everything behind `--`. */
  readonly programArgs: readonly string[];
  /** Set by the command that ran. */
  exitCode: number;
}
