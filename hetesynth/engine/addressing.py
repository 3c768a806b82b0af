"""Sizes that a target cannot address: told before a search for them, and of programs that came out of one.

In: a request or what was made of it, and the size of the collective's buffer. Out: HetesynthError HS509, or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetesynth.model.cost import runtime_bytes
from hetesynth.model.plan import MAX_BUFFER_BYTES

if TYPE_CHECKING:
    from hetesynth.engine.artifacts import Synthesis
    from hetesynth.engine.request import Request


def addressable(request: Request, size: int) -> bool:
    """Whether some file of ``request`` may be of use for a buffer of ``size`` bytes."""
    kept_short = [t.format == "mscclpp-json" for t in request.targets]
    return size <= MAX_BUFFER_BYTES or request.schedule_only or not all(kept_short)


def demand_addressable(request: Request, size: int) -> None:
    """Every target must be able to address a buffer of ``size`` bytes."""
    from hetesynth.programs.mscclpp.lower import too_large

    plans = not request.schedule_only and any(t.format == "mscclpp-json" for t in request.targets)
    if plans and size > MAX_BUFFER_BYTES:
        raise too_large(size)


def demand_carried(synthesis: Synthesis, size: int) -> None:
    """Every program must be of use for a buffer of ``size`` bytes."""
    from hetesynth.programs.mscclpp.lower import too_large

    call = runtime_bytes(synthesis.problem.collective.name, synthesis.problem.ranks, size)
    limit = carried(synthesis)
    if limit is not None and call > limit:
        raise too_large(size, limit if call == size else limit * synthesis.problem.ranks)


def carried(synthesis: Synthesis) -> int | None:
    """The largest call, as runtimes count, for which all programs are of use; None: any."""
    return min((p.carries for p in synthesis.programs.values() if p.carries is not None), default=None)
