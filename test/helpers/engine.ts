/** Container engines for tests: finds one, builds the project's image without a registry, runs compose. */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmod, copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { execa } from "execa";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** A container engine that answers. */
export interface Engine {
  /** `docker compose`, or `docker-compose` where that is all there is. */
  readonly compose: readonly [command: string, ...leading: string[]];
}

/**
 * The engine of this machine; undefined, with the reason printed, where tests that need one are to be skipped.
 *
 * @throws where RANKWISE_REQUIRE_ALL=1 lets no test be skipped
 */
export async function engineOrSkip(): Promise<Engine | undefined> {
  const found = await findEngine();
  if (typeof found !== "string") return found;
  if (process.env.RANKWISE_REQUIRE_ALL === "1") throw new Error(`container tests cannot run: ${found}`);
  console.warn(`container tests are skipped: ${found}`);
  return undefined;
}

async function findEngine(): Promise<Engine | string> {
  if (process.platform !== "linux") return "their base image is made from this machine's Node, which is not for Linux";
  const version = await execa("docker", ["version"], { reject: false, timeout: 10_000 });
  if (version.failed) return `no engine answers to docker: ${version.stderr.trim() || version.shortMessage}`;
  for (const compose of [["docker", "compose"], ["docker-compose"]] as const) {
    const [command, ...leading] = compose;
    if (!(await execa(command, [...leading, "version"], { reject: false })).failed) return { compose };
  }
  return "there is neither docker compose nor docker-compose";
}

/** The project's image, until it is disposed of. */
export interface Image extends AsyncDisposable {
  readonly name: string;
}

/** Builds the project's image as the compose file says, on a base that needs no registry. */
export async function buildImage(engine: Engine): Promise<Image> {
  const name = `rankwise-test:${randomBytes(4).toString("hex")}`;
  await compose(engine, ["build"], { RANKWISE_IMAGE: name, NODE_IMAGE: await baseImage() });
  return {
    name,
    async [Symbol.asyncDispose]() {
      await execa("docker", ["image", "rm", "--force", name]);
    },
  };
}

/**
 * An image with this machine's Node, what Node is linked with, a shell and /tmp. It is kept, as a cache, by version.
 */
async function baseImage(): Promise<string> {
  const name = `rankwise-test-node:${process.version}`;
  if (!(await execa("docker", ["image", "inspect", name], { reject: false })).failed) return name;
  const folder = await mkdtemp(join(tmpdir(), "base-image-"));
  try {
    const place = async (source: string, path: string): Promise<void> => {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      await copyFile(source, join(folder, path));
    };
    await place(process.execPath, "/usr/local/bin/node");
    await place("/bin/sh", "/bin/sh");
    const { stdout: linked } = await promisify(execFile)("ldd", [process.execPath, "/bin/sh"]);
    const libraries = new Set([...linked.matchAll(/(\/\S+) \(0x/gu)].map(([, path = ""]) => path));
    for (const library of libraries) await place(library, library);
    await mkdir(join(folder, "etc"));
    await writeFile(join(folder, "etc/passwd"), "root:x:0:0::/:/bin/sh\n");
    await mkdir(join(folder, "tmp"));
    await chmod(join(folder, "tmp"), 0o1777);
    const open = ["--owner=0", "--group=0", "--mode=a+rX"]; // readable for every user, whatever our umask
    await execa("tar", ["-C", folder, ...open, "-cf", "-", "."], { buffer: false }).pipe("docker", [
      "import",
      "--change",
      "ENV PATH=/usr/local/bin:/bin",
      "-",
      name,
    ]);
  } finally {
    await rm(folder, { recursive: true });
  }
  return name;
}

/** Variables of the compose file that would otherwise be those of whoever runs the tests. */
const defaults = { RANKS: "4", MODE: "hand", PROGRAM: "all_to_all", PROGRAM_DIR: "./examples" };

/** Runs compose on the project's file. What it does is decided by the variables given, whoever runs the tests. */
export async function compose(
  engine: Engine,
  args: readonly string[],
  variables: Readonly<Record<string, string>>,
  { reject = true }: { reject?: boolean } = {},
): Promise<{ exitCode: number | undefined; output: string }> {
  const [command, ...leading] = engine.compose;
  const { exitCode, all } = await execa(command, [...leading, "--file", join(root, "docker-compose.yml"), ...args], {
    cwd: root,
    env: { RANKWISE_TOKEN: randomBytes(16).toString("hex"), COMPOSE_ANSI: "never", ...defaults, ...variables },
    all: true,
    reject,
  });
  return { exitCode, output: all };
}
