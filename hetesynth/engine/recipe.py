"""The way a schedule was made, as its document keeps it, so that a repair need not search all of it again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import Any, Literal, get_args

from hetesynth.engine.request import Exclusion, Request
from hetesynth.engine.steady_programs import Pipeline
from hetesynth.errors import HetesynthError
from hetesynth.files.schedule_json import JsonValue, ScheduleDocument
from hetesynth.model.target import TARGETS
from hetesynth.model.topology import Topology
from hetesynth.search.chunking import ROUNDINGS, ChunkingOptions, Rounding

Way = Literal["steps", "trees"]
RINGS = "rings"  # what earlier versions called a way that is along trees too
MOST = 2**53
"""Integers in a document are no larger."""


def _positive(value: object) -> bool:
    return value is None or (type(value) is int and 1 <= value <= MOST)


def _word(value: object) -> bool:
    return value is None or (isinstance(value, str) and len(value) <= 40)


def _reference(value: object) -> bool:
    if not isinstance(value, str) or not _word(value):
        return False
    return not value[:1].isdigit() or (re.fullmatch(r"[0-9]+([./][0-9]+)?", value) and Fraction(value) > 0) is True


HOLDS: dict[str, Callable[[Any], bool]] = {
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: value is not None and _positive(value),
    "int | None": _positive,
    "str": _reference,
    "str | None": _word,
    "tuple[str, ...]": lambda value: isinstance(value, list) and value != [] and {*value} <= {*TARGETS},
    "Rounding": lambda value: value in ROUNDINGS,
    "Exclusion": lambda value: value in get_args(Exclusion),
    "Way": lambda value: value in (*get_args(Way), RINGS),
}
"""What a value of a recipe in a document has to be, by its type in ``Recipe``."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The options of a schedule. ``by_time``: chosen for ``size`` or, None, for the size of ``chunks`` chunks per
    rank of ``chunk_bytes`` (None: the topology's). ``way``: how it was lowered, along how many ``trees``."""

    chunks: int
    chunk_bytes: int | None
    rounding: Rounding
    by_time: bool = False  # what has a default is of a schedule of the fewest steps
    size: int | None = None
    tau_ref: str = "slowest"
    exclusion: Exclusion = "auto"
    max_peers: int | None = None
    targets: tuple[str, ...] = ("portable",)
    runtime_costs: bool = True
    programs: bool = True
    way: Way = "steps"
    trees: int | None = None

    def plain(self) -> dict[str, JsonValue]:
        """Return the recipe as values for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @property
    def chunking(self) -> ChunkingOptions:
        """The chunking options that were asked for."""
        stated = self.tau_ref[:1].isdigit()
        return ChunkingOptions(self.chunk_bytes, Fraction(self.tau_ref) if stated else self.tau_ref, self.rounding)


def recipe_of(
    request: Request, steady: Pipeline | None, size: int | None, *, by_time: bool, trees: int | None
) -> Recipe:
    """Return the recipe of a schedule for ``request`` and ``size`` bytes, with its program along ``steady``."""
    way: Way = "steps" if steady is None else "trees"
    return Recipe(
        by_time=by_time,
        size=size,
        chunks=request.chunks,
        chunk_bytes=request.chunking.chunk_bytes,
        tau_ref=str(request.chunking.reference),
        rounding=request.chunking.rounding,
        exclusion=request.exclusion,
        max_peers=request.max_peers,
        targets=tuple(t.name for t in request.targets),
        runtime_costs=request.runtime is not None,
        programs=not request.schedule_only,
        way=way,
        trees=trees,
    )


def recipe_in(document: ScheduleDocument, name: str) -> Recipe:
    """Return the recipe in the header of ``document``, the file ``name``; without one, what the header tells."""
    header = document.header
    stated: Any = header.get("recipe")
    if stated is None:  # of a schedule of the fewest steps, or of whatever a document says no more of
        size, rounding = header.get("chunk_bytes"), header.get("rounding", "ceil")
        of_steps = Recipe(document.chunks_per_rank, None, "ceil").plain()
        stated = of_steps | {"chunk_bytes": size, "rounding": rounding}
    try:
        values: dict[str, Any] = {one.name: stated[one.name] for one in fields(Recipe)}
        for one in fields(Recipe):
            if not HOLDS[str(one.type)](values[one.name]):
                raise ValueError(f"{one.name} is {str(values[one.name])[:40]}")
        values["way"] = "trees" if values["way"] == RINGS else values["way"]
        values["targets"] = tuple(dict.fromkeys(values["targets"]))
        return Recipe(**values)
    except (KeyError, TypeError, ValueError, OverflowError, ZeroDivisionError) as error:
        message = f"{name}: the recipe in its header cannot be: {error}"[:300]
        way_out = "give a schedule JSON that `hetesynth synth` wrote"
        raise HetesynthError(message, code="HS520", help=way_out) from None


def topology_hash(topology: Topology) -> str:
    """Return the SHA-256 of what schedules depend on: GPUs by name, wires, groups, how many links."""
    topology, digest = topology.whole or topology, hashlib.sha256()
    digest.update(repr([vertex.name for vertex in topology.vertices]).encode())
    for wire in topology.wires:
        rate = None if wire.bandwidth is None else str(wire.bandwidth)
        digest.update(repr((wire.src, wire.dst, wire.kind, rate, wire.lanes, str(wire.latency))).encode())
    digest.update(repr(len(topology.links)).encode())
    if topology.measured:
        digest.update(repr(topology.measured).encode())
    for group in topology.groups:
        digest.update(repr((group.name, str(group.bandwidth), group.links, group.lanes)).encode())
    return digest.hexdigest()
