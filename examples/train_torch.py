"""Trains a small model on CPUs over tables, by DistributedDataParallel and by FSDP.

    for coll in allreduce allgather reducescatter; do
        hetesynth synth topo.dsl --coll $coll --target torch --size 1MB -o tables/$coll
    done
    python examples/train_torch.py tables --ranks 8

Gradients of the first step and losses of all steps are compared with those of torch's own collectives.
"""

import argparse
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import hetesynth.torch

STEPS = 10


def model() -> nn.Module:
    """The same on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))


def train(net: nn.Module, rank: int) -> tuple[list[float], torch.Tensor]:
    """The losses of all steps, and this rank's gradients of the first."""
    draw = torch.Generator().manual_seed(rank)
    x = torch.randn(256, 30, generator=draw)
    y = x.square().mean(1, keepdim=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    losses, first = [], torch.empty(0)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        if step == 0:
            grads = [p.grad.to_local() if hasattr(p.grad, "to_local") else p.grad for p in net.parameters()]
            first = torch.cat([grad.reshape(-1) for grad in grads])
        optimizer.step()
        losses.append(loss.item())
    return losses, first


def sharded(collective: hetesynth.torch.Collective | None) -> nn.Module:
    """The model under FSDP, by torch's own collectives or by ours."""
    net = model()
    for layer in (*net, net):
        if list(layer.parameters()):
            fully_shard(layer)
    if collective is not None:
        hetesynth.torch.use_in_fsdp(net, collective)
    return net


def main(rank: int, ranks: int, tables: str, store: str) -> None:
    """One rank."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    collective = hetesynth.torch.load(tables, always=True)
    replicated = DistributedDataParallel(model())
    replicated.register_comm_hook(None, hetesynth.torch.ddp_hook(collective))
    for name, own, ours in (
        ("DDP", DistributedDataParallel(model()), replicated),
        ("FSDP", sharded(None), sharded(collective)),
    ):
        (losses, gradients), (our_losses, our_gradients) = train(own, rank), train(ours, rank)
        torch.testing.assert_close(our_gradients, gradients)
        torch.testing.assert_close(our_losses, losses)
        assert our_losses[-1] < our_losses[0]
        if rank == 0:
            print(f"{name}: loss {our_losses[0]:.4f} to {our_losses[-1]:.4f}, gradients as torch's own")
    if rank == 0:
        print(f"calls: {dict(collective.stats)}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables")
    parser.add_argument("--ranks", type=int, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arguments = (options.ranks, options.tables, f"{folder}/store")
        processes.start_processes(main, arguments, nprocs=options.ranks, start_method="fork")
