import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadProgram } from "../../../rank/program.ts";
import { expectRefusal } from "../../helpers/sim.ts";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "rankwise-program-"));
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

let programs = 0;
/** Path of a program with this source; each has a name of its own, since modules are imported once. */
async function program(source: string): Promise<string> {
  const path = join(directory, `program-${programs++}.mjs`);
  await writeFile(path, source);
  return path;
}

describe("loadProgram", () => {
  it("returns the default export", async () => {
    const main = await loadProgram(await program("export default (comm) => comm * 2;"), "builtin");
    expect(main(21 as never)).toBe(42);
  });

  it("asks whether the program declares the mode", async () => {
    const path = await program('export const modes = ["hand", "host"]; export default () => {};');
    await loadProgram(path, "hand");
    const error = await expectRefusal(() => loadProgram(path, "builtin"), "ERR_PROGRAM_INVALID");
    expect(error.message).toBe("the program runs in mode hand or host, not in mode builtin; choose with --mode");
  });

  it.each([
    ["no default export", "export const main = () => {};"],
    ["a default export that is no function", "export default { main() {} };"],
    ["modes that are no list", 'export const modes = "hand"; export default () => {};'],
    ["modes that do not exist", 'export const modes = ["hand", "foot"]; export default () => {};'],
    ["modes that are none", "export const modes = null; export default () => {};"],
  ])("refuses a program with %s", async (_, source) => {
    const path = await program(source);
    await expectRefusal(() => loadProgram(path, "hand"), "ERR_PROGRAM_INVALID");
  });

  it("says what a module threw at its import", async () => {
    const path = await program('throw new TypeError("at import");');
    const error = await expectRefusal(() => loadProgram(path, "hand"), "ERR_PROGRAM_THREW");
    expect(error.message).toContain("the program's module threw at import: TypeError: at import");
    expect(error.cause).toBeInstanceOf(TypeError);
  });
});
