import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** Suites in the order they run: a later group starts when the earlier ones are done. */
const suites = [
  { name: "unit", group: 0, workers: 2 },
  { name: "property", group: 0, workers: 2 },
  { name: "compliance", group: 0, workers: 2 },
  { name: "e2e", group: 1, workers: 2 }, // times real processes, so not beside the others
  { name: "compose", group: 2, workers: 1 }, // one engine, one set of networks: last and alone
];

export default defineConfig({
  test: {
    globalSetup: "tools/test-setup.mjs",
    pool: "forks",
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    projects: suites.map(({ name, group, workers }) => ({
      resolve: { alias: { rankwise: fileURLToPath(new URL("rank/index.ts", import.meta.url)) } },
      test: {
        name,
        include: [`test/${name}/**/*.test.ts`],
        pool: "forks",
        maxWorkers: workers,
        fileParallelism: workers > 1,
        testTimeout: name === "compose" ? 180_000 : 30_000,
        hookTimeout: name === "compose" ? 180_000 : 60_000,
        sequence: { groupOrder: group },
      },
    })),
  },
});
