import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { builtinPrograms, findProgram, prepareProgram } from "../../../coordinator/programs.ts";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "programs-"));
});
afterEach(() => rm(folder, { recursive: true }));

test("built-in programs have the names of their files, without the number", async () => {
  const path = (await builtinPrograms()).get("all_to_all") ?? "";
  expect(path).toMatch(/dist\/examples\/15-all-to-all\.js$/u);
  expect(await findProgram("all_to_all", folder)).toEqual({ kind: "builtin", name: "all_to_all" });
  expect(await prepareProgram({ kind: "builtin", name: "all_to_all" }, folder)).toBe(path);
});

test.each(["program.ts", "./program.ts", "deep/../program.ts"])("%s is a file seen from the folder", async (name) => {
  await mkdir(join(folder, "deep"));
  await writeFile(join(folder, "program.ts"), "export default () => {};");
  expect(await findProgram(name, folder)).toEqual({ kind: "file", path: join(folder, "program.ts") });
});

test("a file is bundled into the folder given", async () => {
  const path = join(folder, "program.ts");
  await writeFile(path, "export default () => {};");
  const bundle = await prepareProgram({ kind: "file", path }, join(folder, "out"));
  expect(bundle).toBe(join(folder, "out", "program.mjs"));
});

test.each([
  ["no_such_program", "write ./no_such_program"],
  ["./missing.ts", "there is no file"],
  [".", "none of the built-in ones"],
  ["deep/", "there is no file"],
])("%s is unknown, and the message says what there is", async (name, advice) => {
  await mkdir(join(folder, "deep"));
  const found = findProgram(name, folder);
  await expect(found).rejects.toMatchObject({ code: "ERR_PROGRAM_NOT_FOUND" });
  await expect(found).rejects.toThrow("all_to_all");
  await expect(found).rejects.toThrow(advice);
});

test("a built-in program that this installation lacks is unknown to it", async () => {
  const prepared = prepareProgram({ kind: "builtin", name: "of_another_version" }, folder);
  await expect(prepared).rejects.toMatchObject({ code: "ERR_PROGRAM_NOT_FOUND" });
});
