/** The life of one rank process: join, open links, run the program, say goodbye, end. */
import { hostname } from "node:os";
import { deferred, delay, ignore, withDeadline } from "../shared/async.ts";
import { ORPHAN_MS } from "../shared/constants.ts";
import { RankwiseError, toWireError } from "../shared/errors.ts";
import { frameHeader, FrameKind } from "../shared/frame.ts";
import type { Cause } from "../shared/messages.ts";
import { CallBook } from "./collectives/call.ts";
import { Comm } from "./comm.ts";
import { Control } from "./control.ts";
import { Engine } from "./engine.ts";
import { Faults } from "./faults.ts";
import { handContext } from "./group.ts";
import { quiet } from "./issue.ts";
import { loadProgram } from "./program.ts";
import { FrameServer } from "./serve.ts";
import { WebSocketTransport } from "./transport/websocket/transport.ts";

/** Everything a rank process is told by its environment. */
export interface RankProcessOptions {
  readonly coordinator: string;
  readonly token: string;
  readonly job: string;
  readonly epoch: number;
  readonly rank: number;
  readonly nranks: number;
  readonly program: string;
  readonly listen: { readonly bind: string; readonly advertise: string } | { readonly directory: string };
  readonly joinTimeoutMs: number;
  readonly testFault: string | undefined;
}

let groupEnded = false;

/** Whether the group of this process has ended, well or not. */
export function groupHasEnded(): boolean {
  return groupEnded;
}

/** Runs one rank from its join to its end; resolves with the exit code: 0 after a good run, else 1. */
export async function runRank(options: RankProcessOptions): Promise<number> {
  const faults = options.testFault === undefined ? undefined : new Faults(options.testFault, options.rank);
  const ended = deferred<void>();
  void ended.promise.then(() => (groupEnded = true));
  let engine: Engine | undefined;
  let firstCause: Cause | undefined;
  let transport: WebSocketTransport | undefined;

  const control = await Control.connect(
    { ...options, host: hostname() },
    {
      abort: (cause) => {
        firstCause ??= cause;
        if (engine !== undefined) {
          control.lastWords(engine.state());
          engine.end(cause);
        }
        ended.resolve();
      },
      end: () => {
        engine?.leave();
        ended.resolve();
      },
      lost: (error) => {
        firstCause ??= causeOf(options.rank, error);
        engine?.end(firstCause);
        ended.resolve();
        // a program that does not come to its end is ended
        void delay(ORPHAN_MS).then(() => process.kill(process.pid, "SIGKILL"));
      },
    },
  );
  const leave = async (): Promise<void> => {
    engine?.leave();
    await transport?.close();
    await withDeadline(control.close(), 500, () => new Error("control")).catch(ignore);
  };

  try {
    engine = new Engine({ rank: options.rank, nranks: options.nranks, ...(faults === undefined ? {} : { faults }) });
    transport = await WebSocketTransport.open(
      {
        identity: options,
        listen: options.listen,
        joinTimeoutMs: options.joinTimeoutMs,
        counters: engine.counters,
      },
      new FrameServer(engine),
    );
    engine.attach(transport, (failure) => {
      control.failed(failure);
    });
    const { addresses, settings } = await control.join(transport.address);
    engine.waitTimeoutMs = settings.waitTimeoutMs;
    await transport.connect(addresses);
    await control.ready();
    transport.unlink();
    const main = await loadProgram(options.program, settings.mode);
    await main(new Comm({ engine, book: new CallBook(engine), settings }, engine.world));
    await sayGoodbye(engine, control);
    await ended.promise;
  } catch (error) {
    await reportFailure(engine, control, options.rank, error);
    await ended.promise;
  }
  await leave();
  return firstCause === undefined ? 0 : 1;
}

/** Everything sent has been applied, and every peer knows that no more will come. */
async function sayGoodbye(engine: Engine, control: Control): Promise<void> {
  await quiet(engine, handContext(engine.world, "goodbye"));
  for (const peer of engine.world.peers()) {
    engine.post(engine.peer(peer), frameHeader({ kind: FrameKind.Goodbye }));
  }
  control.goodbye(engine.state());
}

/** An error that left the program: the group ends, unless this is only its echo. */
async function reportFailure(
  engine: Engine | undefined,
  control: Control,
  rank: number,
  thrown: unknown,
): Promise<void> {
  const error =
    thrown instanceof RankwiseError
      ? thrown
      : new RankwiseError("ERR_PROGRAM_THREW", toWireError(thrown).message, { rank }, thrown);
  const failure = { error, call: engine?.currentCall() ?? null, suspect: null };
  if (engine === undefined) control.failed(failure);
  else engine.fail(failure);
  await Promise.resolve();
}

function causeOf(rank: number, error: RankwiseError): Cause {
  return { rank, pid: process.pid, host: hostname(), code: error.code, message: error.message, call: null };
}
