import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { bearer } from "../../shared/auth.ts";
import { encodeHello, encodeMessage } from "../../shared/codec.ts";
import { CLOSE_CODES, HANDSHAKES_MAX, HELLO_TIMEOUT_MS, PROTOCOL_VERSION } from "../../shared/constants.ts";
import type { MessageOf } from "../../shared/messages.ts";
import { Random } from "../../shared/random.ts";
import { makeCertificate } from "../helpers/certificate.ts";
import { runCli } from "../helpers/cli.ts";
import { startCluster } from "../helpers/cluster.ts";
import { sendBroken } from "../helpers/fuzz.ts";
import { fixtureProgram } from "../helpers/run.ts";

/** How a stranger's connection ended: refused at the upgrade with a status, or closed with a code. */
async function knock(url: string, token: string | undefined, message?: Uint8Array): Promise<string> {
  const headers = token === undefined ? {} : { authorization: bearer(token) };
  const socket = new WebSocket(url, { headers });
  socket.on("open", () => {
    if (message !== undefined) socket.send(message);
  });
  return await new Promise((resolve) => {
    socket.on("unexpected-response", (request, response) => {
      request.destroy();
      resolve(`HTTP ${response.statusCode}`);
    });
    socket.on("error", () => undefined); // the close follows
    socket.on("close", (code, reason) => resolve(`${code} ${reason.toString().split(":")[0]}`));
  });
}

describe("strangers are refused, each with its code, while the group goes on undisturbed", () => {
  test("at the coordinator and at a rank", { timeout: 90_000 }, async () => {
    await using cluster = await startCluster({
      program: fixtureProgram("until-told"),
      nranks: 2,
      coordinatorArgs: ["--transport", "tcp", "--timeout", "80s"],
      timeoutMs: 85_000,
    });
    const { job, epoch, ranks } = await cluster.joined();
    const { url, token } = cluster;
    // before its links stand, whoever has the token and comes first is the rank that it says it is
    await cluster.supervisors[0]?.says(/the first round is over/u);
    const rankUrl = `${ranks[0]?.address ?? ""}/link`;

    const join = (fields: Partial<MessageOf<"join_rank">>): Uint8Array => {
      const own = {
        rank: 1,
        host: "h",
        pid: 1,
        address: "ws://h:1",
        processors: 1,
        version: PROTOCOL_VERSION,
        job,
        epoch,
      };
      return encodeMessage({ type: "join_rank", ...own, ...fields });
    };
    const hello = (fields: object): Uint8Array =>
      encodeHello({ version: PROTOCOL_VERSION, role: "peer", job, epoch, rank: 1, ...fields });
    const said: Record<string, string> = {
      "no token": await knock(url, undefined),
      "wrong token": await knock(url, `${token}x`),
      "wrong job": await knock(url, token, join({ job: "another" })),
      "wrong epoch": await knock(url, token, join({ epoch: epoch + 1 })),
      "foreign version": await knock(url, token, join({ version: PROTOCOL_VERSION + 1 })),
      "duplicate rank": await knock(url, token, join({})),
      "no hello": await knock(url, token, Uint8Array.of(1, 2, 3)),
      "link: no token": await knock(rankUrl, undefined),
      "link: wrong token": await knock(rankUrl, `${token}x`),
      "link: wrong job": await knock(rankUrl, token, hello({ job: "another" })),
      "link: wrong epoch": await knock(rankUrl, token, hello({ epoch: epoch + 1 })),
      "link: foreign version": await knock(rankUrl, token, hello({ version: PROTOCOL_VERSION + 1 })),
      "link: duplicate rank": await knock(rankUrl, token, hello({})),
      "link: no hello": await knock(rankUrl, token, Uint8Array.of(1, 2, 3)),
    };
    const refused = (code: keyof typeof CLOSE_CODES): string => `${CLOSE_CODES[code]} ${code}`;
    for (const at of ["", "link: "]) {
      expect(said[`${at}no token`]).toBe("HTTP 401");
      expect(said[`${at}wrong token`]).toBe("HTTP 401");
      expect(said[`${at}wrong job`]).toBe(refused("ERR_FOREIGN_JOB"));
      expect(said[`${at}wrong epoch`]).toBe(refused("ERR_STALE_EPOCH"));
      expect(said[`${at}foreign version`]).toBe(refused("ERR_PROTOCOL_VERSION"));
      expect(said[`${at}duplicate rank`]).toBe(refused("ERR_DUPLICATE_RANK"));
      expect(said[`${at}no hello`]).toBe(refused("ERR_BAD_HELLO"));
    }

    // the two listen on their own, so each can be kept waiting while the other is
    const keepWaiting = async (target: string): Promise<void> => {
      // whoever is in the handshake says nothing: the next one finds no room, and all of them are sent away in time
      const silent = Array.from({ length: HANDSHAKES_MAX }, () => knock(target, token));
      await expect.poll(() => knock(target, token), { timeout: HELLO_TIMEOUT_MS }).toBe("HTTP 503");
      expect(new Set(await Promise.all(silent))).toEqual(new Set([refused("ERR_HELLO_TIMEOUT")]));
      expect(await slowLoris(new URL(target.replace(/^ws/u, "http"))), "a request without end").toMatch(
        /^HTTP\/1\.1 408/u,
      );
    };
    await Promise.all([url, rankUrl].map(keepWaiting));

    const random = new Random(21);
    for (const [target, path, first] of [
      [url, "/", join({ job: "another" })],
      [rankUrl, "/link", hello({ job: "another" })],
    ] as const) {
      const port = Number(new URL(target.replace(/^ws/u, "http")).port);
      for (let round = 0; round < 15; round++) {
        const one = { port, token, path, hello: first, next: new Uint8Array(80) };
        await Promise.all(Array.from({ length: 10 }, () => sendBroken(random, one)));
      }
    }

    const pids = ranks.map(({ pid }) => pid ?? Number.NaN);
    expect((await cluster.job()).ranks.map(({ pid }) => pid)).toEqual(pids);
    for (const pid of pids) process.kill(pid, "SIGUSR1"); // they were only waiting for that
    const [coordinator] = await cluster.ended();
    expect(coordinator?.stdout, coordinator?.text).toBe("OK\n");
  });
});

/** Sends one byte of a request now and then; resolves with what is answered in the end. */
async function slowLoris({ hostname, port }: URL): Promise<string> {
  const socket = connect(Number(port), hostname);
  let answer = "";
  socket.on("data", (chunk: Buffer) => (answer += chunk.toString()));
  socket.on("error", () => undefined);
  socket.write("GET /job HTTP/1.1\r\nHost: x\r\n");
  const timer = setInterval(() => socket.write("a"), 300);
  await once(socket, "close");
  clearInterval(timer);
  return answer;
}

describe("TLS", () => {
  let folder: string;
  const file = (name: string): string => join(folder, name);
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "tls-"));
    for (const [name, host] of [
      ["good", "IP:127.0.0.1"],
      ["foreign", "IP:127.0.0.1"],
      ["elsewhere", "DNS:elsewhere.example"],
    ] as const) {
      await makeCertificate(file(name), host);
    }
  });
  afterAll(() => rm(folder, { recursive: true }));

  const tls = (shown: string, trusted: string): string[] => {
    return ["--tls-cert", file(`${shown}.pem`), "--tls-key", file(`${shown}.key`), "--tls-ca", file(`${trusted}.pem`)];
  };

  test("every TCP connection is wss, and the job passes", async () => {
    const options = tls("good", "good");
    await using cluster = await startCluster({
      program: "all_to_all",
      nranks: 3,
      supervisors: [2, 1],
      coordinatorArgs: options,
      rankArgs: options,
    });
    const [coordinator, ...supervisors] = await cluster.ended();
    expect(coordinator?.stdout, coordinator?.text).toBe("OK\n");
    expect(coordinator?.stderr).toContain("ranks at wss://");
    for (const { exitCode, text } of supervisors) expect(exitCode, text).toBe(0);
  });

  test.each([
    ["an authority that has not signed it", tls0("good", "foreign"), "self-signed certificate"],
    ["another host's certificate", tls0("elsewhere", "elsewhere"), "IP: 127.0.0.1 is not in the cert's list"],
  ])("%s is refused", async (_what, [shown, trusted], message) => {
    const { exitCode, stderr, text } = await runCli(["run", "all_to_all", "-n", "2", ...tls(shown, trusted)]);
    expect(exitCode, text).toBe(3);
    expect(stderr).toMatch(/^rankwise: ERR_TLS: the coordinator at wss:/mu);
    expect(stderr).toContain(message);
  });

  test("who comes without TLS is not heard, and the job goes on", async () => {
    const options = tls("good", "good");
    await using cluster = await startCluster({
      program: "all_to_all",
      nranks: 2,
      supervisors: [],
      coordinatorArgs: options,
      rankArgs: options,
    });
    expect(await knock(cluster.url.replace("wss", "ws"), cluster.token)).toMatch(/^1006/u);
    cluster.addSupervisor(2);
    expect((await cluster.coordinator.ended).stdout).toBe("OK\n");
  });

  test("half of the options are refused, and a file that is not there", async () => {
    const half = await runCli(["run", "all_to_all", "-n", "2", "--tls-cert", file("good.pem")]);
    expect(half.stderr).toContain("ERR_USAGE: --tls-cert, --tls-key and --tls-ca go together");
    const missing = await runCli(["run", "all_to_all", "-n", "2", ...tls("good", "nobody")]);
    expect([half.exitCode, missing.exitCode]).toEqual([2, 2]);
    expect(missing.stderr).toContain("ERR_USAGE: --tls-ca: cannot read");
  });
});

function tls0(shown: string, trusted: string): [string, string] {
  return [shown, trusted];
}
