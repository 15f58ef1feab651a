import { createHash, timingSafeEqual } from "node:crypto";

/** The `Authorization` header that carries a job's token. */
export function bearer(token: string): string {
  return `Bearer ${token}`;
}

/** Whether an `Authorization` header carries the token, compared in constant time. */
export function authorized(header: string | undefined, token: string): boolean {
  return timingSafeEqual(digest(header ?? ""), digest(bearer(token)));
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
