"""Rates that whole chunks a step distort (HS247), with the options that mend it.

In: the cluster. Out: one finding with the worst rate and the options with which the error is below the threshold.
What is suggested has been tried: the very text that is shown, read as the command line reads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import Diagnostic
from hetesynth.model.topology import Topology
from hetesynth.search.chunking import LARGE_ROUNDING_ERROR, ROUNDINGS, Chunking, ChunkingOptions, chunk
from hetesynth.topology.language.inspection import Inspection
from hetesynth.topology.language.units import parse_quantity

MAX_MULTIPLE = 64  # steps of so many chunks of the slowest link are tried
_DIGITS = 4


def distorted(inspection: Inspection) -> Iterator[Diagnostic]:
    """The worst error of rounding, if it is large."""
    topology, cluster = inspection.topology, inspection.cluster
    if cluster is None or not topology.links:
        return
    chunking = chunk(topology)
    worst = chunking.worst_error()
    if worst is None or abs(worst.error) <= LARGE_ROUNDING_ERROR:
        return
    name = f"{worst.kind} links" if any(worst is c for c in chunking.link_capacities()) else f"`{worst.name}`"
    message = (
        f"whole chunks a step make {name} {abs(float(worst.error)):.0%} too "
        f"{'fast' if worst.error > 0 else 'slow'} (chunk {chunking.chunk_bytes} bytes, rounding up)"
    )
    help_ = "steps of whole chunks do not suit these rates: use a strategy that plans in seconds"
    if mend := mended(topology, chunking, LARGE_ROUNDING_ERROR):
        percent = math.ceil(abs(mend[1]) * 100)
        help_ = f"where the fewest steps are asked for, use {mend[0]}: at most {percent} % off then"
    yield Diagnostic("HS247", cluster.name.span, message, help_, "note")


def mended(topology: Topology, chunking: Chunking, threshold: float) -> tuple[str, Fraction] | None:
    """Return the first options that help, with the largest error that is left then.

    Another rounding is tried first, then longer steps. Times are rounded down: rounding up makes the error.
    """
    others = [rounding for rounding in ROUNDINGS if rounding != chunking.options.rounding]
    trials = [(f"--rounding {rounding}", ChunkingOptions(rounding=rounding)) for rounding in others]
    for multiple in range(2, MAX_MULTIPLE + 1):
        micro = chunking.tau_ref * multiple * 10**6
        places = max(0, _DIGITS - len(str(int(micro))))
        number = f"{Decimal(math.floor(micro * 10**places)).scaleb(-places).normalize():f}us"
        if micro < 10:
            number = f"{max(1, math.floor(micro * 1000))}ns"
        trials.append(
            (f"--tau-ref {number}", ChunkingOptions(reference=parse_quantity(number, "time", "--tau-ref")))
        )
    for text, options in trials:
        try:
            worst = chunk(topology, options).worst_error()
        except HetesynthError:
            continue
        if worst is not None and abs(worst.error) <= LARGE_ROUNDING_ERROR:
            return text, worst.error
    return None
