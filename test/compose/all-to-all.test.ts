import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readPage } from "../helpers/markdown.ts";
import { ComposeProject } from "../helpers/compose-project.ts";
import { buildImage, compose, engineOrSkip, type Image } from "../helpers/engine.ts";

const NRANKS = 4;

/** From the loss of a container to the end of the last other one: 1 s of grace, and what the engine takes. */
const END_MS_MAX = 5000;

/** Its ranks print that they wait, and then do so for ever. */
const endless = join(import.meta.dirname, "../fixtures/programs/misbehave.ts");

const found = await engineOrSkip();

describe.skipIf(found === undefined)("all_to_all in containers", () => {
  const engine = found!;
  let image: Image;

  beforeAll(async () => {
    image = await buildImage(engine);
  });

  afterAll(async () => {
    await image[Symbol.asyncDispose]();
  });

  test.each(["hand", "builtin"] as const)("%s: prints OK, every rank in a container of its own", async (mode) => {
    await using project = new ComposeProject(engine, image, { nranks: NRANKS, mode });
    const { exitCode, output } = await project.up();
    expect(exitCode, output).toBe(0);

    const [coordinator] = await project.outputs("coordinator");
    expect(coordinator?.stdout).toBe("OK");
    const report = await project.report();
    expect(report).toMatchObject({ ok: true, mode, nranks: NRANKS, transport: "tcp", failure: null });
    const hosts = report.ranks.map(({ host }) => host);
    const containers = await project.containers("rank");
    expect(new Set(hosts)).toEqual(new Set(containers.map(({ hostname }) => hostname)));
    expect(new Set(hosts).size).toBe(NRANKS);

    const { finishedAtMs } = await project.container("coordinator");
    for (const rank of containers) {
      expect(rank.exitCode).toBe(0);
      expect(rank.finishedAtMs, "ranks leave after the coordinator").toBeGreaterThan(finishedAtMs);
    }
  });

  test("ranks listen on every address and advertise their container's name", async () => {
    await using project = new ComposeProject(engine, image, { nranks: NRANKS, program: endless });
    await project.start();
    await project.everyRankPrints(/waits as/u);
    for (const { address, host } of await project.job()) expect(address).toMatch(new RegExp(`^ws://${host}:\\d+`, "u"));
  });

  test("a killed rank container ends the job, which names its host first", async () => {
    await using project = new ComposeProject(engine, image, { nranks: NRANKS, program: endless });
    const run = project.up();
    await project.everyRankPrints(/waits as/u);
    const victim = await project.container("rank");
    await project.kill(victim);

    const { exitCode, output } = await run;
    expect(exitCode, output).toBe(1);
    await expectLostHost(project, victim.hostname);
    const [coordinator] = await project.outputs("coordinator");
    expect(certainRows(coordinator?.stderr ?? "")).toEqual(certainRows(await failureInGuide()));
  });

  test("without compose's help, a killed rank container ends all others", async () => {
    await using project = new ComposeProject(engine, image, { nranks: NRANKS, program: endless });
    await project.start();
    await project.everyRankPrints(/waits as/u);
    const victim = await project.container("rank");
    await project.kill(victim);

    await expectEnd(project, victim.id);
    await expectLostHost(project, victim.hostname);
  });

  test("a killed coordinator container ends all ranks", async () => {
    await using project = new ComposeProject(engine, image, { nranks: NRANKS, program: endless });
    await project.start();
    await project.everyRankPrints(/waits as/u);
    const victim = await project.container("coordinator");
    await project.kill(victim);

    await expectEnd(project, victim.id);
    for (const { stderr } of await project.outputs("rank")) expect(stderr).toContain("ERR_COORDINATOR_LOST");
  });

  test("a container cut off from the network ends, and so do all others", async () => {
    await using project = new ComposeProject(engine, image, { nranks: NRANKS, program: endless });
    await project.start();
    await project.everyRankPrints(/waits as/u);
    const victim = await project.container("rank");
    await project.cutOff(victim);

    const containers = await project.ended();
    expect(containers.map(({ exitCode }) => exitCode)).toEqual(containers.map(() => 1));
    await expectLostHost(project, victim.hostname);
  });

  test("the compose file asks for a token", async () => {
    const { exitCode, output } = await compose(
      engine,
      ["config", "--quiet"],
      { RANKWISE_TOKEN: "" },
      { reject: false },
    );
    expect(exitCode).not.toBe(0);
    expect(output).toMatch(/RANKWISE_TOKEN.*export it first/u);
  });
});

/** All containers have ended, with an error, soon after the one that was killed. */
async function expectEnd(project: ComposeProject, killed: string): Promise<void> {
  const containers = await project.ended();
  const lostAtMs = containers.find(({ id }) => id === killed)?.finishedAtMs ?? NaN;
  for (const { id, running, exitCode, finishedAtMs } of containers) {
    expect(running).toBe(false);
    expect(exitCode).toBe(id === killed ? 137 : 1);
    expect(finishedAtMs - lostAtMs).toBeLessThan(END_MS_MAX);
  }
}

/** The lost container is the first cause, in what the coordinator printed and in its report. */
async function expectLostHost(project: ComposeProject, host: string): Promise<void> {
  const { failure, ranks } = await project.report();
  const lost = ranks.find((entry) => entry.host === host)?.rank;
  expect(lost).toBeDefined();
  expect(failure).toMatchObject({ code: "ERR_HOST_LOST", host });
  const [coordinator] = await project.outputs("coordinator");
  expect(coordinator?.stdout).toBe("");
  const firstError = coordinator?.stderr.split("\n").find((line) => line.includes("ERR_"));
  expect(firstError).toContain(`ERR_HOST_LOST: the supervisor of host ${host} (rank ${lost}) is lost`);
}

/** What the coordinator prints of a killed container, as the guide shows it. */
async function failureInGuide(): Promise<string> {
  const { blocks } = await readPage("docs/guides/containers.md");
  const shown = blocks.find(({ text }) => text.includes("ERR_HOST_LOST"))?.text ?? "";
  return [...shown.matchAll(/^coordinator\S* +\| (.*)$/gmu)].map(([, line]) => line).join("\n");
}

/** The rows of a failure that every such failure has, without what differs each time. */
function certainRows(text: string): string[] {
  const lines = text.split("\n").filter((line) => !/^rankwise: job|^ {2}(?:consequence|waiting) /u.test(line));
  return lines.map((line) => line.replace(/[0-9a-f]{12}/gu, "HOST").replace(/is lost: .*|[\d.]+/gu, "…")).sort();
}
