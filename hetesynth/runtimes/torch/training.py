"""Our collectives in PyTorch's two ways to train on many GPUs."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from hetesynth.runtimes.torch.collective import Collective


def ddp_hook(collective: Collective) -> Callable[[Any, Any], Any]:
    """Return the hook that averages gradients: ``model.register_comm_hook(group, hook)``; group None: default."""

    def hook(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        tensor = bucket.buffer()
        handle = collective.all_reduce(tensor, dist.ReduceOp.AVG, group, async_op=True)
        return handle.get_future().then(lambda future: future.value()[0])

    return hook


def use_in_fsdp(module: Any, collective: Collective) -> None:
    """All-gather and reduce-scatter ``module``, given to ``fully_shard``, and all below it by ``collective``."""
    from torch.distributed.fsdp import FSDPModule

    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.set_custom_all_gather(_AllGather(collective))
            part.set_custom_reduce_scatter(_ReduceScatter(collective))


class _Comm:
    """The base of our collectives for FSDP, which gives FSDP the memory that it asks for."""

    def __init__(self, collective: Collective) -> None:
        self._collective = collective

    def allocate(self, size: Any, *, dtype: Any, device: Any) -> Any:
        return torch.empty(*size, dtype=dtype, device=device)


class _AllGather(_Comm):
    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, async_op: bool = False) -> Any:
        return self._collective.all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


class _ReduceScatter(_Comm):
    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False) -> Any:
        return self._collective.reduce_scatter_tensor(output_tensor, input_tensor, op, group, async_op)
