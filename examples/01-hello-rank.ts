/**
 * Hello, rank: one program, started P times, and the least that ranks can tell each other.
 *
 * Each rank rings a bell at every peer, waits until every peer has rung its own, and knows who is there.
 */
import { type Comm, NotifyOp, WaitCmp } from "rankwise";

export default async function main(comm: Comm): Promise<void> {
  const { rank, nranks, peers } = comm;
  if (comm.args.includes("aloud")) console.log(`rank ${rank} of ${nranks}, its peers: ${peers.join(", ")}`);

  // Cell s belongs to rank s, on every rank: no two ranks ever write to the same cell.
  const hello = await comm.signal("hello", [nranks]);
  // A cell starts at 0, so rank 0 must not say 0.
  for (const peer of peers) await hello.notify(peer, [rank], rank + 1, NotifyOp.Set);
  for (const peer of peers) await hello.wait([peer], 1, WaitCmp.Ge);

  await comm.check(hello, (peer) => (peer === rank ? 0 : peer + 1), {
    decode: (value) => (Number(value) > 0 ? `the hello of rank ${Number(value) - 1}` : undefined),
  });
}
