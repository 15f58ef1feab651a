/** A long proof, started by hand: `npm run campaign -- NAME [--seed N] [--runs N] [arguments]`. */
export interface Campaign {
  /** What its arguments are, if it takes any. */
  readonly takes?: string;
  /** Runs without `--runs`. */
  readonly runs: number;
  /** Rejects at the first failure, naming the seed that repeats it. */
  readonly start: (options: CampaignOptions) => Promise<void>;
}

export interface CampaignOptions {
  /** What stands behind the name. */
  readonly args: readonly string[];
  readonly seed: number;
  readonly runs: number;
  readonly say: (line: string) => void;
}
