"""Which program of a folder runs when a job calls a collective: the runtime's rule, and a check that one does.

In: the programs of a folder, a call. Out: the programs that fit it, in the order in which the runtime looks. For
MSCCL XML the rule is the runtimes' own, for plans that of the folder's ``load_plans.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hetesynth.deploy.folder.programs import WORD, ProgramFile
from hetesynth.errors import HetesynthError
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.cost import runtime_bytes
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank

ELEMENT = 4
"""Bytes of a float, the type of elements in tests."""


@dataclass(frozen=True, slots=True)
class Call:
    """A collective as a job calls it: ``size`` bytes of the whole buffer, of elements of ``element`` bytes."""

    collective: CollectiveName
    ranks: int
    size: int
    in_place: bool
    root: Rank | None = None
    element: int = ELEMENT

    def __post_init__(self) -> None:
        if self.size < 1 or self.ranks < 1 or self.element < 1:
            raise ValueError(f"{self.collective}: a call has bytes, ranks and elements")

    @property
    def counted(self) -> int:
        """The bytes that runtimes compare with the range of a file."""
        return runtime_bytes(self.collective, self.ranks, self.size)


def selected(programs: Sequence[ProgramFile], call: Call, target: Target) -> tuple[ProgramFile, ...]:
    """The programs that fit ``call``; the runtime takes the first."""
    return tuple(p for p in sorted(programs, key=lambda p: p.name) if _fits(p, call, target))


def _fits(program: ProgramFile, call: Call, target: Target) -> bool:
    low, high = program.min_bytes, program.last
    if program.ranks != call.ranks or program.collective != call.collective:
        return False
    if not (program.in_place if call.in_place else program.out_of_place):
        return False
    if call.counted < low or (high is not None and call.counted > high):
        return False
    if target.tells_roots and call.collective in ROOTED and program.root != call.root:
        return False
    return _divides(program, call)


def _divides(program: ProgramFile, call: Call) -> bool:
    """Whether the runtime can cut the buffers of ``call`` as the program does."""
    if program.input_chunks:
        block = call.size // call.ranks
        sent = block if call.collective in ("allgather", "gather") else call.size
        received = block if call.collective in ("reducescatter", "scatter") else call.size
        return sent % (WORD * program.input_chunks) == 0 and received % (WORD * program.output_chunks) == 0
    return call.counted % call.element == 0 and (call.counted // call.element) % program.chunks == 0


def check_selection(cells: Sequence[tuple[str, Sequence[ProgramFile]]], target: Target) -> None:
    """That each call has one program at most, which is of the cell that is meant for it.

    HetesynthError HS870 where two cells, or two files of one, are meant for the same calls.
    """
    every = [(cell, program) for cell, programs in cells for program in programs]
    for place, (cell, program) in enumerate(every):
        for other_cell, other in every[:place]:
            if _overlap(program, other, target):
                _refuse(cell, program, other_cell, other)
    titles = [(program.collective, program.title) for _, program in every]
    if target.format == "mscclpp-json" and len(set(titles)) < len(titles):
        raise _odd("two plans of one folder have the same name, by which the runtime keeps them apart")
    for cell, programs in cells:
        for program in programs:
            for call in boundary_calls(program):
                chosen = [p.name for p in selected([p for _, p in every], call, target)]
                if chosen != [program.name]:
                    raise _odd(f"{cell}: {call.size} bytes are for {program.name}, not {chosen}")


def boundary_calls(program: ProgramFile) -> Iterator[Call]:
    """The smallest and the largest call of whole words that ``program`` is for, in each of its forms."""
    blocks = program.ranks if program.collective in ("gather", "scatter") else 1
    unit = program.unit
    first = max(unit, -(-program.min_bytes * blocks // unit) * unit)
    last = 2 * first if program.last is None else program.last * blocks // unit * unit
    for size in sorted({first, last}) if last >= first else ():
        for in_place in (False, True):
            if program.in_place if in_place else program.out_of_place:
                yield Call(program.collective, program.ranks, size, in_place, program.root)


def _overlap(one: ProgramFile, other: ProgramFile, target: Target) -> bool:
    if (one.collective, one.ranks) != (other.collective, other.ranks):
        return False
    if target.tells_roots and one.collective in ROOTED and one.root != other.root:
        return False
    if not ((one.in_place and other.in_place) or (one.out_of_place and other.out_of_place)):
        return False
    return all(a.last is None or b.min_bytes <= a.last for a, b in ((one, other), (other, one)))


def _refuse(cell: str, program: ProgramFile, other_cell: str, other: ProgramFile) -> None:
    if cell == other_cell:
        raise _odd(f"{cell}: {program.name} and {other.name} are for the same calls")
    raise HetesynthError(
        f"{other_cell} and {cell} are for the same calls, of which a runtime gives all to one",
        code="HS870",
        help="give them sizes that do not overlap, or leave one out",
    )


def _odd(message: str) -> HetesynthError:
    """Of files that no build gives together."""
    help_ = "the index of the folder was changed: remove the folder and build again"
    return HetesynthError(message, code="HS870", help=help_)
