"""Programs that hang where their messages pass NICs: what an operator must know of those that were made.

In: programs as they were made, which know the servers of their ranks. Out: warnings for the reports.
"""

from __future__ import annotations

from collections.abc import Iterable

from hetesynth.engine.formats import Emitted
from hetesynth.engine.roots import Warned


def network_warnings(programs: Iterable[Emitted]) -> tuple[Warned, ...]:
    """At most one: of several programs and their targets the first says between which ranks."""
    hanging = [p for p in programs if p.over_nics]
    if not hanging:
        return ()
    targets = tuple(dict.fromkeys(p.target.name for p in hanging))
    way_out = "use it inside one server, or write LL for Simple into it and verify it again (docs/targets.md)"
    return (Warned(targets, hanging[0].over_nics, way_out),)
