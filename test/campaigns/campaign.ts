/** A long proof, started by hand: `npm run campaign -- NAME [--seed N] [--runs N]`. */
export interface Campaign {
  /** Runs without `--runs`. */
  readonly runs: number;
  /** Rejects at the first failure, naming the seed that repeats it. */
  readonly start: (options: CampaignOptions) => Promise<void>;
}

export interface CampaignOptions {
  readonly seed: number;
  readonly runs: number;
  readonly say: (line: string) => void;
}
