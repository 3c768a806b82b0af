"""How a schedule was made, as its document keeps it, so that a repair need not search all of it again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, get_args

from hetesynth.engine.request import Exclusion, Request
from hetesynth.engine.steady_programs import LibraryProgram, Pipeline, SteadyPlan, SteadyState
from hetesynth.errors import HetesynthError
from hetesynth.model.target import TARGETS
from hetesynth.model.topology import Topology
from hetesynth.search.chunking import ROUNDINGS, ChunkingOptions, Rounding

if TYPE_CHECKING:
    from hetesynth.files.schedule_json import JsonValue, ScheduleDocument

Way = Literal["steps", "trees", "rings"]
MOST = 2**53
"""Integers in a document are no larger."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """``by_time``: the schedule was chosen for a size, ``size`` or, None, that of ``chunks`` chunks per rank of
    ``chunk_bytes`` (None: the topology's). ``way``: how its program was lowered; ``trees``, ``division``,
    ``turn``, ``pieces``: of one along trees in steady state."""

    by_time: bool
    size: int | None
    chunks: int
    chunk_bytes: int | None
    tau_ref: str
    rounding: Rounding
    exclusion: Exclusion
    max_peers: int | None
    targets: tuple[str, ...]
    runtime_costs: bool
    programs: bool
    way: Way
    trees: int | None = None
    division: str | None = None
    turn: float | None = None
    pieces: int | None = None

    def plain(self) -> dict[str, JsonValue]:
        """For JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @property
    def chunking(self) -> ChunkingOptions:
        """As it was asked for."""
        stated = self.tau_ref[:1].isdigit()
        return ChunkingOptions(self.chunk_bytes, Fraction(self.tau_ref) if stated else self.tau_ref, self.rounding)


def recipe_of(request: Request, steady: Pipeline | None, *, by_time: bool, trees: int | None) -> Recipe:
    """Of a schedule for ``request`` whose program is lowered in this way."""
    way: Way = "steps"
    if isinstance(steady, LibraryProgram):
        way = "rings"
    elif steady is not None:
        way = "trees"
    arrangement = steady.arrangement if isinstance(steady, SteadyState | SteadyPlan) else None
    divided = steady.arrangement if isinstance(steady, SteadyState) else None
    chunking = request.chunking
    return Recipe(
        by_time=by_time,
        size=request.size,
        chunks=request.chunks,
        chunk_bytes=chunking.chunk_bytes,
        tau_ref=str(chunking.reference),
        rounding=chunking.rounding,
        exclusion=request.exclusion,
        max_peers=request.max_peers,
        targets=tuple(t.name for t in request.targets),
        runtime_costs=request.runtime is not None,
        programs=not request.schedule_only,
        way=way,
        trees=trees,
        division=None if divided is None else divided.division,
        turn=None if divided is None else divided.turn,
        pieces=None if arrangement is None else arrangement.pieces,
    )


def recipe_in(document: ScheduleDocument, name: str) -> Recipe:
    """The recipe in the header of ``document``, the file ``name``; where there is none, what the header tells.

    Raises HetesynthError HS520 for one that cannot be.
    """
    stated = document.header.get("recipe")
    if stated is None:
        return _without_recipe(document, name)
    if not isinstance(stated, dict):
        raise _wrong(name, "it is not an object")
    try:
        return _read(stated)
    except (KeyError, ValueError, OverflowError, ZeroDivisionError) as error:
        raise _wrong(name, str(error)) from None


def _without_recipe(document: ScheduleDocument, name: str) -> Recipe:
    """Of a schedule of the fewest steps, or of whatever a document says no more of."""
    size, rounding = document.header.get("chunk_bytes"), document.header.get("rounding", "ceil")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MOST):
        raise _wrong(name, "chunk_bytes is no size")
    if rounding not in ROUNDINGS:
        raise _wrong(name, "there is no such rounding")
    return Recipe(
        by_time=False,
        size=None,
        chunks=document.chunks_per_rank,
        chunk_bytes=size,
        tau_ref="slowest",
        rounding=rounding,
        exclusion="auto",
        max_peers=None,
        targets=("portable",),
        runtime_costs=True,
        programs=True,
        way="steps",
    )


def _wrong(name: str, reason: str) -> HetesynthError:
    return HetesynthError(
        f"{name}: the recipe in its header cannot be: {reason}"[:300],
        code="HS520",
        help="give a schedule JSON that `hetesynth synth` wrote",
    )


def _read(values: Mapping[str, Any]) -> Recipe:
    """The recipe that ``values`` say; KeyError or ValueError where it is none."""

    def checked(key: str, holds: Callable[[Any], bool], wrong: str) -> Any:
        if not holds(values[key]):
            raise ValueError(wrong)
        return values[key]

    def flag(key: str) -> Any:
        return checked(key, lambda v: isinstance(v, bool), f"{key} is neither true nor false")

    def integer(key: str) -> Any:
        def holds(value: Any) -> bool:
            return value is None or (type(value) is int and 1 <= value <= MOST)

        return checked(key, holds, f"{key} is no positive integer")

    def text(key: str) -> Any:
        return checked(key, lambda v: v is None or (isinstance(v, str) and len(v) <= 40), f"{key} is no word")

    def one_of(key: str, words: tuple[Any, ...]) -> Any:
        return checked(key, lambda v: v in words, f"there is no such {key}")

    def reference() -> str:
        stated = text("tau_ref") or "slowest"
        if stated[:1].isdigit() and (
            re.fullmatch(r"[0-9]+([./][0-9]+)?", stated) is None or Fraction(stated) <= 0
        ):
            raise ValueError("tau_ref is no time")
        return str(stated)

    def are_targets(named: Any) -> bool:
        if not isinstance(named, list) or not named:
            return False
        return all(isinstance(name, str) and name in TARGETS for name in named)

    def is_number(value: Any) -> bool:
        return value is None or (isinstance(value, int | float) and not isinstance(value, bool))

    return Recipe(
        by_time=flag("by_time"),
        size=integer("size"),
        chunks=integer("chunks") or 1,
        chunk_bytes=integer("chunk_bytes"),
        tau_ref=reference(),
        rounding=one_of("rounding", ROUNDINGS),
        exclusion=one_of("exclusion", get_args(Exclusion)),
        max_peers=integer("max_peers"),
        targets=tuple(dict.fromkeys(checked("targets", are_targets, "there is no such target"))),
        runtime_costs=flag("runtime_costs"),
        programs=flag("programs"),
        way="steps" if values["way"] == "throttled" else one_of("way", get_args(Way)),
        trees=integer("trees"),
        division=text("division"),
        turn=None if checked("turn", is_number, "turn is no number") is None else float(values["turn"]),
        pieces=integer("pieces"),
    )


def topology_hash(topology: Topology) -> str:
    """SHA-256 of what schedules depend on: GPUs by name, wires, groups, how many links."""
    digest = hashlib.sha256()
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
