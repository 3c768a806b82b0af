"""What a communication library takes: NCCL's rings as a program, with the best number of channels and chunks.

In: a topology, a collective, a size. Out: the quickest of a few programs, or why there is none. Rings are those of
``ring_search``, repeated over more channels, as NCCL repeats them. NCCL does broadcast and reduce along the same
rings as chains, and alltoall, gather and scatter by plain sends; there that is the baseline.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from hetesynth.chunking import chunk
from hetesynth.collectives.library import collective
from hetesynth.compile.predictors import CostOptions, ProgramPredictor
from hetesynth.errors import HetesynthError
from hetesynth.lowering.msccl.library_programs import direct_program, ring_program
from hetesynth.model.collective import PERSONALIZED, CollectiveName
from hetesynth.model.cost import Costs, chunk_bytes, costs
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program
from hetesynth.model.target import PORTABLE
from hetesynth.model.topology import Rank, Topology
from hetesynth.policy import Policy
from hetesynth.synthesis.baselines.ring_search import Wiring, orders, ring_sets
from hetesynth.synthesis.routes import NoRoute
from hetesynth.synthesis.server_groups import ring_servers

NAMES: dict[CollectiveName, str] = {
    "allgather": "NCCL's rings",
    "reducescatter": "NCCL's rings",
    "allreduce": "NCCL's rings",
    "broadcast": "chains along NCCL's rings",
    "reduce": "chains along NCCL's rings",
    "alltoall": "all pairs directly",
    "gather": "direct sends to the root",
    "scatter": "direct sends from the root",
}


@dataclass(frozen=True, slots=True)
class Baseline:
    """The quickest program of its kind. ``rings``: different ones, 0 where there are none. ``orders``: of the
    ranks on each channel, where there are rings."""

    name: str
    seconds: float
    rings: int
    channels: int
    chunks: int
    program: Program = field(repr=False, compare=False)
    orders: tuple[tuple[Rank, ...], ...] = field(default=(), repr=False)

    @property
    def label(self) -> str:
        """``NCCL's rings: 4 on 16 channels, c=16``."""
        if not self.rings:
            return f"{self.name}, c={self.chunks}"
        return f"{self.name}: {self.rings} on {self.channels} channels, c={self.chunks}"


@dataclass(frozen=True, slots=True)
class _Form:
    """One program to try: the order of ranks on each channel, and chunks per rank."""

    rings: int
    orders: tuple[tuple[Rank, ...], ...]
    channels: int
    chunks: int


def ring_baseline(
    topology: Topology, name: CollectiveName, root: Rank | None, size: int, options: CostOptions
) -> Baseline | str:
    """The quickest program of a library for ``size`` bytes, or in words why there is none."""
    question = (topology, name, root, size, options)
    answer = _simulated(*question)
    _asked.append(question)
    return answer


def is_simulated(
    topology: Topology, name: CollectiveName, root: Rank | None, size: int, options: CostOptions
) -> bool:  # fmt: skip
    """Whether ``ring_baseline`` knows the answer already."""
    return (topology, name, root, size, options) in _asked


_Question = tuple[Topology, CollectiveName, "Rank | None", int, CostOptions]
_asked: deque[_Question] = deque(maxlen=64)  # as many as ``_simulated`` remembers


@lru_cache(maxsize=64)
def _simulated(
    topology: Topology, name: CollectiveName, root: Rank | None, size: int, options: CostOptions
) -> Baseline | str:
    policy = options.policy.baselines
    prices = costs(topology, options.calibration, options.alpha)
    try:
        forms = list(_forms(topology, prices, name, options.policy))
    except NoRoute as missing:
        return str(missing)
    best: Baseline | None = None
    spent = 0.0
    for form in forms:
        piece = chunk_bytes(name, topology.ranks, form.chunks, size)
        spent += _work(topology.ranks, name, form, piece)
        if best is not None and (piece < 1 or spent > policy.max_baseline_work):
            continue
        program = _program(topology, name, root, form)
        try:
            seconds = ProgramPredictor(topology, program, options).predict(size).seconds
        except HetesynthError as error:
            return error.message
        if best is None or seconds < best.seconds:
            best = Baseline(
                NAMES[name], seconds, form.rings, form.channels, form.chunks, program, form.orders
            )  # fmt: skip
    return best if best is not None else "there is no program"


def ring_wiring(topology: Topology, prices: Costs, policy: Policy) -> Wiring:
    """What rings are searched on: of the links between two ranks those that programs use, the fastest."""
    best: dict[tuple[Rank, Rank], tuple[float, float]] = {}
    speeds = [(prices.link_rate[i], -prices.link_alpha[i]) for i in range(len(prices.link_ends))]
    for ends, speed in zip(prices.link_ends, speeds, strict=True):
        best[ends] = max(best.get(ends, speed), speed)
    used = [i for i, ends in enumerate(prices.link_ends) if speeds[i] == best[ends]]
    return Wiring(
        ends=tuple(prices.link_ends[i] for i in used),
        uses=tuple(prices.link_resources[i] for i in used),
        rates=prices.resource_rate,
        servers=tuple(ring_servers(_problem(topology), policy.bounds)),
    )


def _problem(topology: Topology) -> Problem:
    """Links with capacities and servers; the collective does not matter."""
    return chunk(topology).problem(collective("broadcast", topology.ranks, 1, 0))


def _forms(
    topology: Topology, prices: Costs, name: CollectiveName, whole: Policy
) -> Iterator[_Form]:  # fmt: skip
    """What to try, the most usual first."""
    policy = whole.baselines
    if name in PERSONALIZED:
        for channels in policy.baseline_repeats:
            yield _Form(0, (), channels, channels)
        return
    wiring = ring_wiring(topology, prices, whole)
    cheapest = min(ring_sets(wiring, policy), key=lambda s: (s.cost, len(s.rings)))
    rings = orders(wiring, cheapest.rings)
    for repeat in policy.baseline_repeats:
        channels = repeat * len(rings)
        if channels <= policy.max_channels or repeat == 1:
            yield _Form(len(rings), rings * repeat, channels, channels)
    if name in ("broadcast", "reduce"):
        for parts in policy.chain_parts:
            yield _Form(len(rings), rings, len(rings), parts * len(rings))


def _work(ranks: int, name: CollectiveName, form: _Form, piece: float) -> float:
    """Tasks of a simulation times connections, about."""
    hops = (ranks - 1) * form.chunks * (2 if name == "allreduce" else 1)
    blocks = 1 if name in ("broadcast", "reduce", "gather", "scatter") else ranks
    connections = form.channels * (ranks if form.rings else blocks * (ranks - 1))
    loops = math.ceil(max(1.0, piece / PORTABLE.fifo("Simple", name).slice_bytes))
    return 2.0 * hops * blocks * loops * connections


def _program(topology: Topology, name: CollectiveName, root: Rank | None, form: _Form) -> Program:
    goal = collective(name, topology.ranks, form.chunks, root)
    if form.rings:
        return ring_program(NAMES[name], goal, form.orders)
    return direct_program(NAMES[name], goal, form.channels)
