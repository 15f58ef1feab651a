import { once } from "node:events";
import { type AddressInfo, connect } from "node:net";
import { describe, expect, it } from "vitest";
import { authorized, bearer, isTlsFault, makeServer, readTls } from "../../../shared/auth.ts";

describe("authorized", () => {
  it("takes the header that bearer makes", () => {
    expect(bearer("s3cret")).toBe("Bearer s3cret");
    expect(authorized(bearer("s3cret"), "s3cret")).toBe(true);
  });

  // the comparison is of digests, so that headers of any length can be compared in constant time
  it.each([
    undefined,
    "",
    "Bearer",
    "Bearer ",
    "s3cret",
    "bearer s3cret",
    "Bearer s3cre",
    "Bearer s3cret ",
    "Basic s3cret",
  ])("refuses %o", (header) => {
    expect(authorized(header, "s3cret")).toBe(false);
  });
});

describe("makeServer", () => {
  it("sends away what exceeds its connections, naming the limit, and has room again when one goes", async () => {
    const server = makeServer(undefined, 2);
    server.on("request", (_, response) => response.end("served"));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const held = [connect(port, "127.0.0.1"), connect(port, "127.0.0.1")];
    await Promise.all(held.map((socket) => once(socket, "connect")));
    const refused = connect(port, "127.0.0.1");
    let answer = "";
    refused.on("data", (chunk: Buffer) => (answer += chunk.toString()));
    await once(refused, "close");
    expect(answer).toMatch(/^HTTP\/1\.1 503 [^]*ERR_LIMIT: CONNECTIONS_MAX 2 are open already/u);
    held[0]?.destroy();
    await expect.poll(async () => await (await fetch(`http://127.0.0.1:${port}`)).text()).toBe("served");
    held[1]?.destroy();
    server.closeAllConnections();
    server.close();
  });

  it("refuses a certificate that is none", () => {
    const junk = Buffer.from("no certificate");
    expect(() => makeServer({ cert: junk, key: junk, ca: junk })).toThrow("--tls-cert, --tls-key: ");
  });
});

it("readTls names the option whose file cannot be read", () => {
  expect(() => readTls({ cert: import.meta.filename, key: "no-such-file", ca: "" })).toThrow(
    "--tls-key: cannot read no-such-file",
  );
});

it.each([
  ["DEPTH_ZERO_SELF_SIGNED_CERT", true],
  ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", true],
  ["CERT_HAS_EXPIRED", true],
  ["ERR_TLS_CERT_ALTNAME_INVALID", true],
  ["EPROTO", true],
  ["ECONNREFUSED", false],
  ["ECONNRESET", false],
])("%s is about TLS: %s", (code, expected) => {
  expect(isTlsFault(Object.assign(new Error(code), { code }))).toBe(expected);
});
