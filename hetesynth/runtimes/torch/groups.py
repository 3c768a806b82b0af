"""What is kept for a process group, and what its ranks tell each other before data moves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from hetesynth.errors import HetesynthError
from hetesynth.model.table import MAX_OPERATIONS
from hetesynth.runtimes.torch.executor import Add
from hetesynth.runtimes.torch.handles import Worker
from hetesynth.runtimes.torch.steps import Part


@dataclass(slots=True)
class Plan:
    """The way calls of one kind are made. ``part`` None: by the backend, for ``reason``. ``chunk``: elements."""

    part: Part | None
    reason: str = ""
    chunk: int = 0
    add: Add | None = None


_WORKERS: WeakKeyDictionary[Any, Worker] = WeakKeyDictionary()
"""One for each process group, whoever calls: its messages have one order."""


class Group:
    """The state that a ``Collective`` keeps for a process group. ``parts``: by the identity of their tables."""

    def __init__(self, group: Any) -> None:
        self.group, self.rank, self.size = group, group.rank(), group.size()
        self.plans: dict[object, Plan] = {}
        self.parts: dict[int, Part] = {}
        self.met = False
        self.worker = _WORKERS.setdefault(group, Worker())
        self._memory: dict[object, Any] = {}

    def memory(self, use: str, like: Any, elements: int) -> Any:
        """Return a flat tensor of the type of ``like``, kept by device, stream and use, grown if too small."""
        device, width = like.device, like.element_size()
        key = use, device, torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
        kept = self._memory.get(key)
        if kept is None or kept.numel() < elements * width:
            self._memory[key] = kept = torch.empty(elements * width, dtype=torch.uint8, device=device)
        return kept[: elements * width].view(like.dtype)

    def gathered(self, numbers: Sequence[int], device: Any) -> list[list[int]]:
        """Return the numbers of all ranks."""
        mine = torch.tensor(numbers, dtype=torch.int64, device=device)
        all_of_them = [torch.empty_like(mine) for _ in range(self.size)]
        self.group.allgather([all_of_them], [mine]).wait()
        return [one.tolist() for one in all_of_them]

    def meet(self, digest: int, pairs: Iterable[tuple[int, int]], device: Any) -> None:
        """Check at the first call that all ranks have the same tables, and connect all that send to each other."""
        said = [numbers[0] for numbers in self.gathered([digest], device)]
        others = [rank for rank, number in enumerate(said) if number != said[0]]
        if others:
            text = f"other tables or options than those of rank 0: {ranks_named(others)}"
            raise HetesynthError(text, code="HS817", help="give all ranks the same folder", exit_code=1)
        self.met = True
        if device.type == "cpu":  # connected from the start
            return
        meeting, byte = set(pairs), torch.zeros(2, dtype=torch.uint8, device=device)
        per_group = MAX_OPERATIONS // 2
        for first in range(1, self.size, per_group):
            moves: list[Any] = []
            for distance in range(first, min(first + per_group, self.size)):
                to, source = (self.rank + distance) % self.size, (self.rank - distance) % self.size
                for use, pair, call, peer in (
                    (0, (self.rank, to), dist.isend, to),
                    (1, (source, self.rank), dist.irecv, source),
                ):
                    if pair in meeting:
                        there = dist.get_global_rank(self.group, peer)
                        moves.append(dist.P2POp(call, byte.narrow(0, use, 1), there, self.group))
            for work in dist.batch_isend_irecv(moves) if moves else ():
                work.wait()


def ranks_named(numbers: Sequence[int]) -> str:
    """Return the ranks in words, for a message."""
    return f"rank{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
