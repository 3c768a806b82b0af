"""Programs for one root: which runtimes would run them for every root, and what to say of it.

In: targets, a collective and its root. Out: a refusal, or warnings for the reports. A runtime that selects files
by ranks, collective, size and in-place form runs a broadcast from root 3 for a call with root 0 as well, and the
data is wrong; whoever writes such a file must promise that all calls have its root.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.topology import Rank

PROMISE = "--single-root"


@dataclass(frozen=True, slots=True)
class Warned:
    """What may go wrong with programs for ``targets``, and what to do about it."""

    targets: tuple[str, ...]
    message: str
    help: str

    def plain(self) -> dict[str, str | list[str]]:
        """For JSON."""
        return {"targets": list(self.targets), "message": self.message, "help": self.help}


def demand_single_root(
    targets: Sequence[Target], collective: CollectiveName, *, promised: bool, every: bool = False
) -> None:
    """HetesynthError HS514 when a runtime among ``targets`` would run a program for one root for every root.

    ``promised``: the user says that all calls have that root. ``every``: programs for all roots are asked for, of
    which such a runtime would always take the first. ``portable`` is no runtime: there reports carry a warning.
    """
    if collective not in ROOTED or (promised and not every):
        return
    blind = [t for t in targets if not t.tells_roots and t.name != PORTABLE.name]
    if not blind:
        return
    who = ", ".join(f"{t.name} ({t.runtime})" for t in blind)
    looks = "does" if len(blind) == 1 else "do"
    what = f"{who} {looks} not look at the root of a call"
    other = "--target mscclpp is for runtimes whose selector sees the root"
    if every:
        message = f"{what}: of {collective} files for several roots the first would run for every root"
        way_out = f"name one root, and {PROMISE} if all calls of the job have it; {other}"
    else:
        message = f"{what}: a {collective} file for one root would run for every root and deliver wrong data"
        way_out = f"add {PROMISE} if every {collective} of the job has that root; {other}"
    raise HetesynthError(message, code="HS514", help=way_out)


def call_warnings(
    targets: Sequence[Target], collective: CollectiveName, root: Rank | None, *, every: bool = False
) -> tuple[Warned, ...]:
    """What an operator must know before programs for ``root`` are installed. ``every``: one of those for all."""
    return tuple(_warnings(targets, collective, root, every)) if root is not None else ()


def _warnings(
    targets: Sequence[Target], collective: CollectiveName, root: Rank | None, every: bool
) -> Iterator[Warned]:
    whose = "one root" if every else f"root {root}"
    blind = tuple(t.name for t in targets if not t.tells_roots)
    if blind and collective in ROOTED:
        yield Warned(
            blind,
            f"runtimes of MSCCL XML do not look at the root of a call: installed, this {collective} for {whose} "
            "runs for every root, and delivers wrong data for all others",
            f"install it only where every {collective} of the job has {'that root' if every else whose}",
        )
    if PORTABLE.name in blind and collective in ("gather", "scatter"):
        yield Warned(
            (PORTABLE.name,),
            f"of all runtimes only RCCL runs a file for a {collective}",
            "the MSCCL executor has no such call, and the research runtime refuses the file",
        )
    selecting = tuple(t.name for t in targets if t.tells_roots)
    if selecting and collective == "broadcast":  # those of the other collectives are named by who runs them
        yield Warned(
            selecting,
            f"the built-in selector of MSCCL++ runs a plan for {whose} for every broadcast",
            "register plans for all roots, and a selector that chooses by "
            + ('request.hints["root"]' if every else 'request.hints["root"]; --root all writes them'),
        )
