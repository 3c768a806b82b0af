"""What runtimes select a program by, as it stands in the program's file.

In: the bytes of a program and its target. Out: a ``ProgramFile``, which a cell's record keeps as plain values, so
that a folder is put together without reading its programs again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from hetesynth.errors import InternalError
from hetesynth.model.collective import CollectiveName
from hetesynth.model.plan import Plan
from hetesynth.model.program import Program
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank

WORD = 16
"""Bytes of which plans and tests move whole numbers only."""


@dataclass(frozen=True, slots=True)
class ProgramFile:
    """``name``: of the file; ``title``: of the program in it. ``in_place``, ``out_of_place``: the forms of calls
    that it is for. ``min_bytes``, ``max_bytes``: of calls as the runtime counts, both included, 0: no limit.
    ``chunks``: into which the runtime cuts what it counts; ``input_chunks``, ``output_chunks``: into which it
    cuts the buffers of a rank (0: it does not). ``scratch``: most scratch chunks of a rank."""

    name: str
    title: str
    collective: CollectiveName
    ranks: int
    root: Rank | None
    in_place: bool
    out_of_place: bool
    min_bytes: int
    max_bytes: int
    chunks: int
    channels: int
    scratch: int
    protocol: str
    input_chunks: int = 0
    output_chunks: int = 0

    def __post_init__(self) -> None:
        if self.chunks < 1 or self.ranks < 1 or not (self.in_place or self.out_of_place):
            raise ValueError(f"{self.name}: a program has chunks, ranks and a form")

    def plain(self) -> dict[str, Any]:
        """For JSON; ``of_record`` gives it back."""
        return asdict(self)

    @property
    def unit(self) -> int:
        """A number of bytes: the runtime takes the program for whole buffers of its multiples, inside its range,
        whatever the type of their elements, and every rank's block is one of whole words."""
        blocks = self.ranks if self.collective in ("gather", "scatter") else 1
        parts = [WORD * self.ranks, WORD * self.chunks * blocks]
        parts.append(WORD * self.input_chunks * (self.ranks if self.collective in ("allgather", "gather") else 1))
        parts.append(
            WORD * self.output_chunks * (self.ranks if self.collective in ("reducescatter", "scatter") else 1)
        )
        return math.lcm(*(part for part in parts if part))

    @property
    def last(self) -> int | None:
        """The largest call, None: there is no largest."""
        return self.max_bytes or None


_NAMES = {field.name for field in fields(ProgramFile)}
_OPTIONAL = {field.name for field in fields(ProgramFile) if field.default is not MISSING}
_TEXTS, _FLAGS = ("name", "title", "collective", "protocol"), ("in_place", "out_of_place")


def of_record(values: dict[str, Any]) -> ProgramFile:
    """The program that ``plain`` described. ValueError where it is none."""
    if values.keys() - _NAMES or _NAMES - _OPTIONAL - values.keys():
        raise ValueError("a program in its record has other fields than a build writes")
    for name, value in values.items():
        kind = str if name in _TEXTS else bool if name in _FLAGS else int
        if type(value) is not kind and (name, value) != ("root", None):
            raise ValueError(f"{name}: {value!r} is no {kind.__name__}")
    return ProgramFile(**values)


def program_at(programs: Sequence[ProgramFile], counted: int, calls: tuple[int, int]) -> str | None:
    """The program that runs out of place for ``counted`` bytes, or for the nearest of ``calls``, the first and the
    last (0: none); None: the library's own."""
    least, most = calls
    counted = max(least, min(counted, most) if most else counted)
    fitting = (p.name for p in programs if p.out_of_place and p.min_bytes <= counted <= (p.last or counted))
    return next(fitting, None)


def program_file(name: str, data: bytes, target: Target, root: Rank | None) -> ProgramFile:
    """What the program in ``data`` says of itself. InternalError where there is none."""
    return _plan_file(name, data, root) if target.format == "mscclpp-json" else _xml_file(name, data, target)


def _xml_file(name: str, data: bytes, target: Target) -> ProgramFile:
    from hetesynth.judge.msccl.reader import read_program

    program: Program | None = read_program(data, name).program
    if program is None:
        raise InternalError(f"{name}: there is no program in its file")
    scratch = max((gpu.scratch_chunks for gpu in program.gpus), default=0)
    most = program.max_bytes if target.max_bytes_inclusive else program.max_bytes - 1
    return ProgramFile(
        name, program.name, program.collective, program.ranks, program.root, program.in_place,
        program.out_of_place, program.min_bytes, 0 if program.max_bytes == target.open_max_bytes else most,
        program.chunks_per_loop, program.channels, scratch, program.protocol,
    )  # fmt: skip


def _plan_file(name: str, data: bytes, root: Rank | None) -> ProgramFile:
    from hetesynth.judge.mscclpp.reader import read_plan_json
    from hetesynth.model.collective import COLLECTIVE_NAMES
    from hetesynth.model.plan import OPEN_MAX_BYTES

    plan = read_plan_json(data, name)
    collective = next((c for c in COLLECTIVE_NAMES if c == plan.collective), None)
    if collective is None:
        raise InternalError(f"{name}: the plan is for {plan.collective!r}")
    return ProgramFile(
        name, plan.name, collective, plan.ranks, root, plan.in_place, not plan.in_place, plan.min_bytes,
        0 if plan.max_bytes == OPEN_MAX_BYTES else _largest_call(plan), 1, 0,
        max(gpu.scratch_chunks for gpu in plan.gpus), plan.protocol,
        math.lcm(*(gpu.input_chunks for gpu in plan.gpus)), math.lcm(*(gpu.output_chunks for gpu in plan.gpus)),
    )  # fmt: skip


def _largest_call(plan: Plan) -> int:
    """The runtime compares ``max_bytes`` with the message of each rank, which of a scatter is all blocks at the
    root and one elsewhere; ranges of cells count one block."""
    messages = [gpu.output_chunks if plan.collective == "allgather" else gpu.input_chunks for gpu in plan.gpus]
    return -(-plan.max_bytes * min(messages) // max(messages))
