"""One row of the peers table on gloo, through torch.distributed: `gloo.py OPERATION BYTES RANKS`.

BYTES and the way of measuring are those of mpi.c. Rank 0 prints one line of JSON.
"""

import json
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

WARMUP_CALLS, CALLS_MIN, CALLS_MAX = 5000, 10, 20000
WARMUP_S, TOGETHER_S = 0.7, 0.7


def named(source, destination, count):
    """Values that name source, destination and element."""
    elements = torch.arange(count, dtype=torch.int64) * 31
    return ((source * 1_000_003 + destination * 10_007 + elements + 1) % 2_147_483_647).to(torch.int32)


def operand(source, count):
    """Operands small enough that their float sum is exact."""
    return ((source * 5 + torch.arange(count, dtype=torch.int64) * 3) % 11).to(torch.float32)


def prepare(operation, size, rank, nranks):
    """The call, the tensor that it fills (or None), what that must hold, and what sets it back."""
    count = size // 4
    if operation == "barrier":
        return dist.barrier, None, None, lambda: None
    if operation == "allreduce":
        # in place: its operands are restored before the checked call, the measured ones add to their own results
        own, golden = operand(rank, count), sum(operand(source, count) for source in range(nranks))
        data = own.clone()
        return (lambda: dist.all_reduce(data)), data, golden, (lambda: data.copy_(own))
    output = torch.zeros(count * nranks, dtype=torch.int32)
    if operation == "allgather":
        own = named(rank, 0, count)
        golden = torch.cat([named(source, 0, count) for source in range(nranks)])
        return (lambda: dist.all_gather_into_tensor(output, own)), output, golden, (lambda: output.fill_(-1))
    if operation == "all_to_all":
        own = torch.cat([named(rank, destination, count) for destination in range(nranks)])
        golden = torch.cat([named(source, rank, count) for source in range(nranks)])
        return (lambda: dist.all_to_all_single(output, own)), output, golden, (lambda: output.fill_(-1))
    sys.exit(f"gloo has no {operation}")


def together(call, calls):
    """Seconds that the slowest rank needs for so many calls between two barriers."""
    dist.barrier()
    started = time.perf_counter()
    for _ in range(calls):
        call()
    dist.barrier()
    seconds = torch.tensor([time.perf_counter() - started], dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    return float(seconds)


def main(rank, nranks, operation, size, store):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=nranks)
    call, data, golden, restore = prepare(operation, size, rank, nranks)
    warm, passed, each, batch = 0, 0.0, 0.0, 1
    while warm < WARMUP_CALLS and passed < WARMUP_S:
        fits = batch if each == 0 else max(1, int((WARMUP_S - passed) / each))
        calls = min(batch, fits, WARMUP_CALLS - warm)
        seconds = together(call, calls)
        warm, passed, each, batch = warm + calls, passed + seconds, seconds / calls, batch * 2
    calls = min(CALLS_MAX, max(CALLS_MIN, int(TOGETHER_S / each)))
    us = together(call, calls) * 1e6 / calls
    dist.barrier()
    restore()
    dist.barrier()
    call()
    wrong = torch.tensor([0 if data is None else int((data != golden).sum())], dtype=torch.int64)
    dist.all_reduce(wrong)
    if rank == 0:
        print(json.dumps({"us": us, "calls": calls, "warmupCalls": warm, "wrong": int(wrong)}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        ranks = int(sys.argv[3])
        args = (ranks, sys.argv[1], int(sys.argv[2]), os.path.join(folder, "store"))
        processes.spawn(main, args, nprocs=ranks)
