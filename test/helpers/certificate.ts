/** Certificates that tests make for themselves, with openssl. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** Makes `path`.key and `path`.pem, a certificate of its own authority for `host`, e.g. `IP:127.0.0.1`. */
export async function makeCertificate(path: string, host: string): Promise<void> {
  const key = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=test";
  await promisify(execFile)("openssl", [
    ...key.split(" "),
    ...["-addext", `subjectAltName=${host}`, "-keyout", `${path}.key`, "-out", `${path}.pem`],
  ]);
}
