/** The control connections of a job: who is on the line, and what is told to whom. */
import { present } from "../shared/assert.ts";
import { RankwiseError } from "../shared/errors.ts";
import { type LivenessCheck, watchLiveness } from "../shared/liveness.ts";
import type { Message } from "../shared/messages.ts";
import type { ControlConnection } from "./connection.ts";
import type { ControlHello } from "./server.ts";

/** Connections that have said hello, by their id, and those of ranks, by rank. */
export class Switchboard {
  readonly #connections = new Map<number, ControlConnection>();
  readonly #hellos = new Map<number, ControlHello>();
  readonly #ranks = new Map<number, ControlConnection>();
  readonly #liveness = new Map<number, LivenessCheck>();

  /** A connection waits for an answer to its hello. */
  greet(connection: ControlConnection, hello: ControlHello): void {
    this.#connections.set(connection.id, connection);
    this.#hellos.set(connection.id, hello);
  }

  connection(id: number): ControlConnection {
    return present(this.#connections.get(id), `connection ${id}`);
  }

  hello<T extends ControlHello["type"]>(id: number, type: T): Extract<ControlHello, { type: T }> {
    const hello = this.#hellos.get(id);
    return present(hello?.type === type ? hello : undefined, `${type} of connection ${id}`) as never;
  }

  /** The connection is that of a rank. */
  admitRank(id: number, rank: number): void {
    const connection = this.connection(id);
    connection.role = { kind: "rank", rank };
    this.#ranks.set(rank, connection);
  }

  /**
   * The connection is that of a supervisor, which never computes: it is lost when it does not answer pings.
   * In a further epoch it is admitted again.
   */
  admitSupervisor(id: number, livenessMs: number, silent: () => void): void {
    const connection = this.connection(id);
    if (connection.role !== undefined) return;
    connection.role = { kind: "supervisor" };
    const { socket } = connection;
    const check = watchLiveness(
      livenessMs,
      () => {
        if (socket.readyState === socket.OPEN) socket.ping();
      },
      () => {
        silent();
        socket.terminate();
      },
    );
    socket.on("pong", check.heard);
    this.#liveness.set(id, check);
  }

  /** Something came from a connection. */
  heard(id: number): void {
    this.#liveness.get(id)?.heard();
  }

  /** The connection is closed, or will be. */
  forget({ id, role }: ControlConnection): void {
    this.#connections.delete(id);
    this.#hellos.delete(id);
    this.#liveness.get(id)?.stop();
    this.#liveness.delete(id);
    if (role?.kind === "rank") this.#ranks.delete(role.rank);
  }

  tellRanks(message: Message): void {
    for (const connection of this.#ranks.values()) connection.send(message);
  }

  tellRank(rank: number, message: Message): void {
    this.#ranks.get(rank)?.send(message);
  }

  tellSupervisors(message: Message): void {
    for (const connection of this.#supervisors()) connection.send(message);
  }

  /** Sends a last message and waits, for a bounded time, until it has left this process. */
  async deliverToSupervisors(message: Message): Promise<void> {
    await Promise.all(this.#supervisors().map((connection) => connection.deliver(message)));
  }

  /** Ends the connections of all ranks; nothing of them is heard any more. */
  dropRanks(): void {
    for (const [rank, connection] of this.#ranks) {
      connection.refuse(new RankwiseError("ERR_STALE_EPOCH", `the epoch of rank ${rank} is over`));
      this.forget(connection);
    }
  }

  /** Ranks that are on the line. */
  get ranks(): number[] {
    return [...this.#ranks.keys()];
  }

  /** Ids of supervisors that are on the line. */
  get supervisors(): number[] {
    return this.#supervisors().map(({ id }) => id);
  }

  /** Stops the timers. */
  close(): void {
    for (const check of this.#liveness.values()) check.stop();
  }

  #supervisors(): ControlConnection[] {
    return [...this.#connections.values()].filter(({ role }) => role?.kind === "supervisor");
  }
}
