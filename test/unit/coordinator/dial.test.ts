import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { WebSocketServer } from "ws";
import { dialCoordinator } from "../../../coordinator/dial.ts";

let server: Server | undefined;

afterEach(() => {
  server?.closeAllConnections();
  server?.close();
  server = undefined;
});

/** A server that answers upgrades with one status after the other, and accepts when there is none left. */
async function serve(port: number, ...statuses: number[]): Promise<number> {
  server = createServer();
  const sockets = new WebSocketServer({ noServer: true });
  server.on("upgrade", (request, socket, head) => {
    const status = request.headers.authorization === "Bearer right" ? statuses.shift() : 401;
    if (status === undefined) sockets.handleUpgrade(request, socket, head, () => {});
    else socket.end(`HTTP/1.1 ${status} No\r\nConnection: close\r\n\r\n`);
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

async function freePort(): Promise<number> {
  const port = await serve(0);
  server?.close();
  return port;
}

test("tells by which address this host reaches the coordinator", async () => {
  const port = await serve(0);
  const { socket, localAddress } = await dialCoordinator(`ws://127.0.0.1:${port}`, "right", 5000);
  expect(localAddress).toBe("127.0.0.1");
  socket.terminate();
});

test("waits for a coordinator that starts later, and for one that is full", async () => {
  const port = await freePort();
  const dialled = dialCoordinator(`ws://127.0.0.1:${port}`, "right", 5000);
  await sleep(50);
  await serve(port, 503);
  (await dialled).socket.terminate();
});

test("does not try a wrong token twice", async () => {
  const port = await serve(0);
  const startMs = performance.now();
  await expect(dialCoordinator(`ws://127.0.0.1:${port}`, "wrong", 5000)).rejects.toMatchObject({
    code: "ERR_UNAUTHORIZED",
    message: expect.stringContaining("RANKWISE_TOKEN"),
  });
  expect(performance.now() - startMs).toBeLessThan(1000);
});

test.each([
  ["nobody listens", "ws://127.0.0.1:9"],
  ["the name does not resolve", "ws://no-such-host.invalid:7000"],
])("gives up in time where %s", async (_name, url) => {
  const startMs = performance.now();
  await expect(dialCoordinator(url, "right", 300)).rejects.toMatchObject({
    code: "ERR_COORDINATOR_UNREACHABLE",
    message: expect.stringContaining(`${url} within 0.3 s (--join-timeout)`),
  });
  expect(performance.now() - startMs).toBeLessThan(2000);
});

test("gives up in time where somebody listens and never answers", async () => {
  const port = await serve(0);
  server?.removeAllListeners("upgrade");
  server?.on("upgrade", () => {});
  const startMs = performance.now();
  const url = `ws://127.0.0.1:${port}`;
  await expect(dialCoordinator(url, "right", 300)).rejects.toMatchObject({ code: "ERR_COORDINATOR_UNREACHABLE" });
  expect(performance.now() - startMs).toBeLessThan(1000);
});
