/** Entry of a rank process, started by a supervisor; everything it needs stands in its environment. */
import { hostname } from "node:os";
import { readTls, type Tls } from "../shared/auth.ts";
import { delay, ignore } from "../shared/async.ts";
import { ENV } from "../shared/config.ts";
import { RankwiseError, toWireError } from "../shared/errors.ts";
import { failUncaught, groupHasEnded, type RankProcessOptions, runRanks } from "./process.ts";

/** Time after a SIGTERM in which the group's end must reach this rank; without one, the signal was meant for it alone. */
const SIGTERM_ALONE_MS = 250;

process.once("SIGTERM", () => {
  // the group's end lets the program clean up, and the supervisor's SIGKILL ends it if it does not
  process.on("SIGTERM", ignore);
  void delay(SIGTERM_ALONE_MS).then(() => {
    if (groupHasEnded()) return;
    process.removeListener("SIGTERM", ignore);
    process.kill(process.pid, "SIGTERM");
  });
});
process.on("uncaughtException", (error: unknown, origin) => {
  if (process.listenerCount("uncaughtException") > 1) return; // the program catches them by itself
  const what = origin === "unhandledRejection" ? "unhandled rejection" : "uncaught exception";
  if (failUncaught(error, what)) return;
  console.error(`rankwise: ${what} ${groupHasEnded() ? "after the end of the group" : "before the program"}:`, error);
  if (!groupHasEnded()) process.exit(1);
});
try {
  process.exit(await runRanks(readEnvironment(process.env)));
} catch (error) {
  const { code, message } = toWireError(error);
  console.error(`rankwise: ${code}: ${message}`);
  process.exit(1);
}

function readEnvironment(env: NodeJS.ProcessEnv): RankProcessOptions {
  const read = (name: keyof typeof ENV): string => {
    const value = env[ENV[name]];
    if (value !== undefined && value !== "") return value;
    throw new RankwiseError(
      "ERR_USAGE",
      `a rank process needs ${ENV[name]}; ranks are started by rankwise run or rankwise rank`,
    );
  };
  return {
    coordinator: read("coordinator"),
    token: read("token"),
    job: read("job"),
    epoch: Number(read("epoch")),
    ranks: read("rank").split(",").map(Number),
    nranks: Number(read("nranks")),
    program: read("program"),
    listen: readListen(env, read),
    joinTimeoutMs: Number(read("joinTimeoutMs")),
    tls: readTlsFrom(env),
    testFault: env[ENV.testFault],
    exit: (code) => process.exit(code),
  };
}

function readTlsFrom(env: NodeJS.ProcessEnv): Tls | undefined {
  const [cert, key, ca] = [env[ENV.tlsCert], env[ENV.tlsKey], env[ENV.tlsCa]];
  return cert === undefined || key === undefined || ca === undefined ? undefined : readTls({ cert, key, ca });
}

function readListen(env: NodeJS.ProcessEnv, read: (name: keyof typeof ENV) => string): RankProcessOptions["listen"] {
  const transport = env[ENV.transport];
  if (transport === "inproc") return { inproc: true };
  if (transport === "unix") return { directory: read("socketDir") };
  const bind = env[ENV.bind] ?? "127.0.0.1";
  const wildcard = bind === "0.0.0.0" || bind === "::";
  return { bind, advertise: env[ENV.advertise] ?? (wildcard ? hostname() : bind) };
}
