/** Private folders for what a job needs on disk: its program, its sockets. */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ENV } from "../shared/config.ts";
import { SOCKET_PATH_BYTES_MAX } from "../shared/constants.ts";
import { RankwiseError } from "../shared/errors.ts";

/** Slash and name of a rank's socket in its folder: job, epoch and rank. */
const SOCKET_NAME_BYTES = 20;

/**
 * Makes a folder in the temporary one, for the caller to remove.
 *
 * @throws {ERR_TEMP_DIR}
 */
export function makeTempFolder(prefix: string): Promise<string> {
  return make(tmpdir(), prefix, "TMPDIR");
}

/**
 * Makes a folder for sockets in the one that several supervisors share.
 *
 * @throws {ERR_TEMP_DIR}
 */
export function makeSocketFolder(shared: string): Promise<string> {
  return make(shared, "s-", ENV.socketDir);
}

/** Whether sockets in a folder below this one have paths that the platform takes whole. */
export function fitsSockets(parent: string): boolean {
  return Buffer.byteLength(join(parent, "rw-XXXXXX")) + SOCKET_NAME_BYTES <= SOCKET_PATH_BYTES_MAX;
}

/** @throws {ERR_TEMP_DIR} unless sockets fit below the folder. */
export function checkSocketFolder(parent: string, variable: string): void {
  if (fitsSockets(parent)) return;
  throw new RankwiseError(
    "ERR_TEMP_DIR",
    `the folder ${parent} has ${Buffer.byteLength(parent)} bytes, so that paths of sockets in it exceed SOCKET_PATH_BYTES_MAX ${SOCKET_PATH_BYTES_MAX}; name a shorter one by ${variable}, or use --transport tcp`,
  );
}

/** The error of a temporary folder that is full, or is none, saying which variable names another one. */
export function tempFolderError(folder: string, variable: string, error: unknown): RankwiseError {
  const { code, message } = error as NodeJS.ErrnoException;
  const what = code === "ENOSPC" || code === "EDQUOT" ? "is full" : "cannot be used";
  return new RankwiseError(
    "ERR_TEMP_DIR",
    `the folder ${folder} ${what} (${message}); make room there, or name another one by ${variable}`,
    {},
    error,
  );
}

async function make(parent: string, prefix: string, variable: string): Promise<string> {
  try {
    return await mkdtemp(join(parent, prefix));
  } catch (error) {
    throw tempFolderError(parent, variable, error);
  }
}
