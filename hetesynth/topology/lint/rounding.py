"""Rates that whole chunks a step distort (HS247), with the options that mend it.

In: the cluster. Out: one finding with the worst rate and the options with which the error is below the threshold.
What is suggested has been tried: the very text that is shown, read as the command line reads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import Diagnostic
from hetesynth.model.topology import Topology
from hetesynth.search.chunking import ROUNDINGS, Chunking, ChunkingOptions, chunk
from hetesynth.topology.language.inspection import Inspection
from hetesynth.topology.language.quantity import parse_quantity

MAX_MULTIPLE = 64  # steps of so many chunks of the slowest link are tried
_DIGITS = 4


def distorted(inspection: Inspection, threshold: float) -> Iterator[Diagnostic]:
    """The worst error of rounding, if it is above ``threshold``."""
    topology, cluster = inspection.topology, inspection.cluster
    if cluster is None or not topology.links:
        return
    chunking = chunk(topology)
    worst = chunking.worst_error()
    if worst is None or abs(worst.error) <= threshold:
        return
    name = f"{worst.kind} links" if any(worst is c for c in chunking.link_capacities()) else f"`{worst.name}`"
    message = (
        f"whole chunks a step make {name} {abs(float(worst.error)):.0%} too "
        f"{'fast' if worst.error > 0 else 'slow'} (chunk {chunking.chunk_bytes} bytes, rounding up)"
    )
    help_ = "steps of whole chunks do not suit these rates: use a strategy that plans in seconds"
    if mend := mended(topology, chunking, threshold):
        percent = math.ceil(abs(mend[1]) * 100)
        help_ = f"where the fewest steps are asked for, use {mend[0]}: at most {percent} % off then"
    yield Diagnostic("HS247", cluster.name.span, message, help_, "note")


def mended(topology: Topology, chunking: Chunking, threshold: float) -> tuple[str, Fraction] | None:
    """Return the first options that help, with the largest error that is left then."""
    for text, options in _trials(chunking):
        try:
            worst = chunk(topology, options).worst_error()
        except HetesynthError:
            continue
        if worst is not None and abs(worst.error) <= threshold:
            return text, worst.error
    return None


def _trials(chunking: Chunking) -> Iterator[tuple[str, ChunkingOptions]]:
    """Another rounding, the time of a link type, then longer steps."""
    for rounding in ROUNDINGS:
        if rounding != chunking.options.rounding:
            yield f"--rounding {rounding}", ChunkingOptions(rounding=rounding)
    for multiple in range(2, MAX_MULTIPLE + 1):
        text = _time(chunking.tau_ref * multiple)
        reference = parse_quantity(text, "time", "--tau-ref")
        yield f"--tau-ref {text}", ChunkingOptions(reference=reference)


def _time(seconds: Fraction) -> str:
    """A time that the command line reads, rounded down: rounding up is what makes the error."""
    micro = seconds * 10**6
    if micro < 10:
        return f"{max(1, math.floor(micro * 1000))}ns"
    places = max(0, _DIGITS - len(str(int(micro))))
    whole, part = divmod(math.floor(micro * 10**places), 10**places)
    fraction = f"{part:0{places}d}".rstrip("0") if places else ""
    return f"{whole}.{fraction}us" if fraction else f"{whole}us"
