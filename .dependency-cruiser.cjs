// The floors of the house: imports go down only. test/unit/floors.test.ts proves that these rules bite.

/** The files (or folders) of shared/, lowest first: each may import only what stands before it. */
const sharedOrder =
  "constants errors assert async liveness random auth half dtype shape frame messages codec config cost stats trace report log".split(
    " ",
  );

/** @param {string[]} units */
const sharedUnits = (units) => `^shared/(${units.join("|")})(/|\\.ts$)`;

const sharedRules = sharedOrder.map((unit, at) => ({
  name: `shared-order-${unit}`,
  comment: `shared/${unit} may import only what stands before it: ${sharedOrder.slice(0, at).join(" ") || "nothing"}`,
  severity: "error",
  from: { path: sharedUnits([unit]) },
  to: { path: "^shared/", pathNot: sharedUnits(sharedOrder.slice(0, at + 1)) },
}));

/** @type {import("dependency-cruiser").IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: "no-circular",
      severity: "error",
      from: {},
      to: { circular: true },
    },
    {
      name: "no-unresolvable",
      severity: "error",
      from: {},
      to: { couldNotResolve: true },
    },
    {
      name: "shared-is-lowest",
      severity: "error",
      from: { path: "^shared/" },
      to: { path: "^(rank|coordinator|examples|test|tools)/" },
    },
    {
      name: "shared-has-an-order",
      comment: "A new file of shared/ takes its place in sharedOrder above, and in floors.test.ts",
      severity: "error",
      from: {},
      to: { path: "^shared/", pathNot: sharedUnits(sharedOrder) },
    },
    ...sharedRules,
    {
      name: "rank-meets-coordinator-over-the-wire",
      severity: "error",
      from: { path: "^rank/" },
      to: { path: "^(coordinator|examples|test|tools)/" },
    },
    {
      name: "coordinator-meets-rank-over-the-wire",
      severity: "error",
      from: { path: "^coordinator/", pathNot: "^coordinator/cli/" },
      to: { path: "^(rank|coordinator/cli|examples|test|tools)/" },
    },
    {
      name: "cli-is-above-rank-and-coordinator",
      severity: "error",
      from: { path: "^coordinator/cli/" },
      to: { path: "^(examples|test|tools)/" },
    },
    {
      name: "examples-import-only-rankwise",
      comment: 'By its name, as a user would: import … from "rankwise"',
      severity: "error",
      from: { path: "^examples/" },
      to: { pathNot: "^rank/index\\.ts$" },
    },
    {
      name: "examples-import-rankwise-by-name",
      severity: "error",
      from: { path: "^examples/" },
      to: { dependencyTypesNot: ["aliased"] },
    },
    {
      name: "only-the-cli-parses-commands",
      severity: "error",
      from: { pathNot: "^(coordinator/cli|test)/" },
      to: { path: "(^|node_modules/)commander(/|$)" },
    },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    exclude: { path: "^(dist|test/fixtures/broken|rank/memory/simd)/" },
    tsConfig: { fileName: "tsconfig.json" },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["import", "node", "default", "types"],
      extensions: [".ts", ".mjs", ".js", ".cjs", ".json"],
    },
  },
};
