import js from "@eslint/js";
import { defineConfig, globalIgnores } from "eslint/config";
import tseslint from "typescript-eslint";

export default defineConfig(
  globalIgnores(["dist/", "coverage/", "docs/", "test/fixtures/broken/", "rank/memory/simd/"]),
  js.configs.recommended,
  tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      // Where the house differs from strictTypeChecked.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-unnecessary-condition": ["error", { allowConstantLoopConditions: true }],
      // A callback may answer now or later: void | Promise<void>.
      "@typescript-eslint/no-invalid-void-type": "off",
      // Loops over ranks index typed arrays: a checked `!` is how noUncheckedIndexedAccess is answered there.
      "@typescript-eslint/no-non-null-assertion": "off",
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],

      "@typescript-eslint/consistent-type-imports": ["error", { fixStyle: "inline-type-imports" }],
      "@typescript-eslint/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
      "no-undef": "off", // tsc knows better
      eqeqeq: "error",
      "no-restricted-syntax": [
        "error",
        { selector: "TSEnumDeclaration", message: "Use an as-const object." },
        { selector: "TSModuleDeclaration[kind='namespace']", message: "Use a module." },
        { selector: "ExportDefaultDeclaration", message: "Use named exports." },
      ],
    },
  },
  {
    // A program is a module whose default export is main(comm); tools are told by theirs what to do.
    files: [
      "examples/**",
      "rank/conformance.ts",
      "rank/drill.ts",
      "rank/bench/program.ts",
      "test/fixtures/**",
      "*.config.*",
    ],
    rules: { "no-restricted-syntax": "off" },
  },
  {
    // JSDoc casts are types to tsc, which checks the tools, and invisible to these two.
    files: ["tools/**"],
    rules: { "@typescript-eslint/no-unsafe-assignment": "off", "@typescript-eslint/no-unsafe-member-access": "off" },
  },
  {
    files: ["test/**"],
    rules: {
      // Tests hand over what the types forbid, on purpose, and doubles are async without awaiting.
      "@typescript-eslint/no-unsafe-argument": "off",
      "@typescript-eslint/no-unsafe-assignment": "off",
      "@typescript-eslint/no-unsafe-member-access": "off",
      "@typescript-eslint/no-empty-function": "off",
      "@typescript-eslint/require-await": "off",
      "@typescript-eslint/unbound-method": "off",
    },
  },
  {
    files: [".dependency-cruiser.cjs"],
    languageOptions: { sourceType: "commonjs", globals: { module: "writable" } },
  },
);
