"""A range of delays between data centers: the far end is what is optimized, both ends and the middle are shown.

With more latency on a wire no fixed schedule or program is quicker, so each is slowest at the far end, and what is
quickest there has the best worst case over the range.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.simulate import simulate_file
from hetesynth.engine.time_verdict import bounds_of
from hetesynth.errors import HetesynthError
from hetesynth.model.target import Target
from hetesynth.model.topology import WAN_LATENCY, Rank, Topology
from hetesynth.topology.language.units import parse_quantity

Range = tuple[Fraction, Fraction]


def delay_range(text: str) -> Range:
    """Return both ends, in seconds, of ``20ms..60ms`` or one delay. HetesynthError HS307 where a part is no time,
    HS626 where the range ends before it begins, or begins below ``WAN_LATENCY``."""
    low, dots, high = text.partition("..")
    first = parse_quantity(low, "time", "--delay")
    last = parse_quantity(high, "time", "--delay") if dots else first
    if not WAN_LATENCY <= first <= last:
        message = f"--delay: {text!r} is no range of delays from {float(WAN_LATENCY * 10**6):g} us on"
        raise HetesynthError(message, code="HS626", help="for example 20ms..60ms")
    return first, last


def delayed(topology: Topology, delay: Fraction) -> Topology:
    """Return ``topology`` with this delay on every wire between data centers, which counts the router that the
    wire enters. HetesynthError HS626: there is no such wire."""
    far = {i for i, wire in enumerate(topology.wires) if wire.latency >= WAN_LATENCY}
    if not far:
        raise HetesynthError(
            f"{topology.name} has no wire of {float(WAN_LATENCY * 10**6):g} us or more, to which --delay applies",
            code="HS626",
            help="state the latency, or the length, of the lines between data centres in the topology",
        )
    wires = tuple(replace(w, latency=delay) if i in far else w for i, w in enumerate(topology.wires))
    links = tuple(
        replace(link, latency=sum((wires[w].latency for w in link.wires), Fraction(0)))
        if not far.isdisjoint(link.wires)
        else link
        for link in topology.links
    )
    note = f"delay {float(delay * 1000):g} ms on {len(far)} wires between data centres"
    return replace(topology, wires=wires, links=links, notes=(*topology.notes, note))


def at_delays(
    file: Path, topology: Topology, root: Rank | None, ends: Range, size: int, options: CostOptions, target: Target
) -> Sequence[dict[str, Any]]:
    """Return a row of figures at both ends and in the middle: the microseconds of ``file``, the proved limit
    there, and the percent of the limit that is reached, with both at line rate."""
    rows = []
    for delay in dict.fromkeys((ends[0], sum(ends, Fraction(0)) / 2, ends[1])):
        there = delayed(topology, delay)
        predicted, at_line_rate = (
            simulate_file(file, there, [size], rates, target).predictions[0]
            for rates in (options, options.line_rate)
        )
        limit = bounds_of(there, predicted.collective, root, options.line_rate).seconds(size)
        rows.append(
            {
                "delay_us": float(delay * 10**6),
                "predicted_us": predicted.seconds * 1e6,
                "limit_us": limit * 1e6,
                "percent_of_limit": 100 * limit / at_line_rate.seconds,
            }
        )
    return rows
