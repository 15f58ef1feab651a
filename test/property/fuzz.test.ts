import fc from "fast-check";
import { expect, test } from "vitest";
import { encodeHello, encodeMessage } from "../../shared/codec.ts";
import { PROTOCOL_VERSION } from "../../shared/constants.ts";
import { Random } from "../../shared/random.ts";
import { ControlServer } from "../../coordinator/server.ts";
import { fuzzFrames, fuzzMessages, sendBroken, type Target } from "../helpers/fuzz.ts";
import { identity, Links } from "../helpers/links.ts";
import { sampleMessages } from "../helpers/messages.ts";

const seed = fc.nat(2 ** 32 - 1);

test("2500 changed control messages and handshakes: decoded, or refused with a reason", () => {
  fc.assert(
    fc.property(seed, (start) => {
      fuzzMessages(new Random(start), 25);
    }),
    { numRuns: 100 },
  );
});

test("2500 changed frames: applied where they say, or refused with a reason and nothing changed", async () => {
  await fc.assert(
    fc.asyncProperty(seed, async (start) => {
      await fuzzFrames(new Random(start), 25);
    }),
    { numRuns: 100 },
  );
});

test("200 changed streams at each listener: it goes on, and a good connection is served after them", async () => {
  await using links = new Links();
  const { transport } = await links.open();
  const server = await ControlServer.listen({
    host: "127.0.0.1",
    port: 0,
    token: identity.token,
    onHello: (connection) => connection.socket.close(4000, "hello heard"),
    onMessage: () => undefined,
    onClose: () => undefined,
    describeJob: () => ({}),
  });
  const { job, epoch, token } = identity;
  const hello = encodeHello({ version: PROTOCOL_VERSION, role: "peer", job, epoch, rank: 1 });
  const targets: Target[] = [
    { port: Number(new URL(transport.address).port), token, path: "/link", hello, next: new Uint8Array(64) },
    {
      port: server.port,
      token,
      path: "/",
      hello: encodeMessage(sampleMessages.join_rank),
      next: encodeMessage(sampleMessages.ready),
    },
  ];
  const random = new Random(7);
  for (const target of targets) {
    const ends: string[] = [];
    for (let round = 0; round < 10; round++) {
      const broken = await Promise.all(Array.from({ length: 20 }, () => sendBroken(random, target)));
      ends.push(...broken.filter(({ held }) => !held).map(({ answer }) => answer.slice(0, 12)));
    }
    expect(ends.filter((end) => end === "HTTP/1.1 401").length, "streams with a broken token").toBeGreaterThan(0);
    const response = await fetch(`http://127.0.0.1:${target.port}/job`, {
      headers: { authorization: `Bearer ${token}` },
    });
    expect([200, 426]).toContain(response.status);
  }
  await server.close();
});
