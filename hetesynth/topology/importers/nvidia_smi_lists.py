"""``nvidia-smi -L`` and ``nvidia-smi nvlink -s``: lines in, models of GPUs and states of their NVLinks out.

Both print ``GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)`` for each GPU; ``nvlink -s`` has lines for its links
below.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.topology.importers.tool_text import refused

MAX_GPUS = 256
MAX_LINKS = 64

_GPU = re.compile(r"\s*GPU (\d{1,4}): ?(\S.{0,200}?) *\(UUID: *([\w-]{1,80})\)\s*")
_LINK = re.compile(
    r"\s*Link (\d{1,3}): +(?:(\d{1,6}(?:\.\d{1,6})?) GB/s|<inactive>|(?:inactive|Not Supported))\s*", re.I
)
_NONE = re.compile(r"\s*(?:NVML: )?Unable to retrieve NVLink information.*")


@dataclass(frozen=True, slots=True)
class ListedGpu:
    """A GPU of a list. ``links``: the raw GB/s of each NVLink that is named, None where it is inactive."""

    index: int
    model: str
    uuid: str
    links: tuple[tuple[int, Fraction | None], ...] = ()
    states: bool = False  # whether the list says anything of its links

    def __post_init__(self) -> None:
        if len({number for number, _ in self.links}) != len(self.links):
            raise ValueError(f"GPU {self.index} has a link twice")

    @property
    def active(self) -> int:
        """How many NVLinks work."""
        return sum(rate is not None for _, rate in self.links)

    @property
    def inactive(self) -> int:
        """How many NVLinks are named and do not work."""
        return len(self.links) - self.active


@dataclass(frozen=True, slots=True)
class GpuList:
    """The GPUs of one list, in its order; ``of_links``: it is of ``nvlink -s``."""

    line: int
    gpus: tuple[ListedGpu, ...]

    @property
    def of_links(self) -> bool:
        """Whether the list is of ``nvlink -s``."""
        return any(gpu.states for gpu in self.gpus)


def gpu_lists(lines: Sequence[str], name: str) -> list[GpuList]:
    """Every list in ``lines``; a new one begins where the numbers of GPUs do not go on, or links follow none."""
    lists: list[list[ListedGpu]] = []
    begins: list[int] = []
    for number, line in enumerate(lines, 1):
        if match := _GPU.fullmatch(line):
            gpu = ListedGpu(int(match[1]), match[2], match[3])
            if not lists or gpu.index in {other.index for other in lists[-1]}:
                lists.append([])
                begins.append(number)
            lists[-1].append(gpu)
            if len(lists[-1]) > MAX_GPUS:
                raise refused(
                    name, f"line {number}: more than {MAX_GPUS} GPUs in a list", "give one server's output"
                )
        elif lists and (state := _state(line)) is not None:
            lists[-1][-1] = _with(lists[-1][-1], state, number, name)
    return [GpuList(begin, tuple(gpus)) for begin, gpus in zip(begins, lists, strict=True)]


def _state(line: str) -> tuple[int, Fraction | None] | tuple[()] | None:
    """(link, raw rate or None) of a line; () where all links are inactive; None where it says nothing of links."""
    if match := _LINK.fullmatch(line):
        return int(match[1]), Fraction(match[2]) if match[2] else None
    return () if _NONE.fullmatch(line) else None


def _with(gpu: ListedGpu, state: tuple[int, Fraction | None] | tuple[()], line: int, name: str) -> ListedGpu:
    """``gpu`` with one more link."""
    links = gpu.links
    if state:
        if state[0] in dict(links) or len(links) >= MAX_LINKS:
            raise refused(name, f"line {line}: link {state[0]} of GPU {gpu.index} twice", "give the output once")
        links = (*links, state)
    return ListedGpu(gpu.index, gpu.model, gpu.uuid, links, True)
