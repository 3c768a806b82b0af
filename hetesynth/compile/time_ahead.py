"""What work on programs takes, in seconds, said before it begins: what would end too late is not begun.

In: a request, a number of ranks, operations of a program (transfers times pieces). Out: seconds by the prices of
``LeastTimePolicy``, which are those of an idle core. Nothing but clock decisions depends on them.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from hetesynth.compile.formats import variants
from hetesynth.compile.least_time import transfers
from hetesynth.compile.request import Request
from hetesynth.compile.steady_programs import Pipeline, SteadyState
from hetesynth.model.collective import PERSONALIZED, REDUCING, CollectiveName
from hetesynth.model.schedule import Schedule
from hetesynth.policy import Policy
from hetesynth.policy.least_time import LeastTimePolicy


@dataclass(frozen=True, slots=True)
class TimeAhead:
    """Of programs for ``name`` on a cluster of ``ranks``, each in so many ``forms`` that are written."""

    name: CollectiveName
    ranks: int
    forms: int
    policy: Policy

    @classmethod
    def of(cls, request: Request, ranks: int) -> TimeAhead:
        """Of the programs that ``request`` asks for."""
        forms = 0 if request.schedule_only else len([*variants(request.targets, request.collective)])
        return cls(request.collective, ranks, forms, request.policy)

    @property
    def _prices(self) -> LeastTimePolicy:
        return self.policy.least_time

    @property
    def _adding(self) -> float:
        return self._prices.adding if self.name in REDUCING else 1.0

    def transfers(self, chunks: int) -> int:
        """About how many a schedule has with ``chunks`` per rank."""
        return transfers(self.name, self.ranks, chunks)

    def files(self, operations: float, *, timed: bool = False) -> float:
        """To lower and to judge every form of a program, and to write and to replay its schedule. ``timed``: each
        form is the quickest of the variants of lowering it."""
        prices = self._prices
        each = (prices.lower + prices.judge) * self._adding * operations
        each += self.variants(operations) if timed else 0.0
        return prices.replay * operations + self.forms * each

    def trial(self, operations: float) -> float:
        """To lower a program and to simulate it."""
        return self._prices.lower * self._adding * operations + self.simulation(operations)

    def to_the_files(self, operations: float, *, kept: bool) -> float:
        """To try a program and to make its files; ``kept``: the one out of place is the tried one."""
        lowering = self._prices.lower * self._adding * operations if kept and self.forms else 0.0
        return self.trial(operations) + self.files(operations) - lowering

    def variants(self, operations: float) -> float:
        """To try the variants of lowering a schedule."""
        return self._prices.variants * self.trial(operations)

    def simulation(self, operations: float) -> float:
        """To simulate a program: one loop of few flows in many pieces, or as many loops of few pieces."""
        simulate = self.policy.simulate
        tasks = 2.0 * operations * self._prices.loops
        loading = self._loading(tasks)
        if self.name not in PERSONALIZED:
            return loading + self._prices.simulate * min(tasks, simulate.max_tasks + 2.0 * operations)
        pairs = min(self.ranks * (self.ranks - 1), operations)  # all may send at once
        return loading + self._prices.simulate_crowded * min(tasks * pairs, float(simulate.max_work))

    def _loading(self, tasks: float) -> float:
        """To load machine code, where so many tasks are simulated by it and it is not there yet."""
        interpreted = "numba" in sys.modules or tasks <= self.policy.machine_code.simulated_tasks.load
        return 0.0 if interpreted else self._prices.load

    def packing(self) -> float:
        """To pack trees or paths and to round them, once."""
        personalized = self.name in PERSONALIZED
        price = self._prices.balance if personalized else self._prices.pack * self._adding
        return price * self.ranks**2

    def arranging(self) -> float:
        """To list the arrangements of the programs of one packing, and to verify its schedule."""
        return self._prices.arrange * self.ranks**2

    def time_bounds(self) -> float:
        """To bound a collective in seconds, and to recheck the bounds."""
        return self._prices.time_bounds * self._adding * self.ranks**2

    def schedule(self, chunks: int) -> float:
        """To bound a problem and to find one schedule for it."""
        prices, number = self._prices, self.transfers(chunks)
        bound = prices.problem * (prices.composed if self.name == "allreduce" else 1.0)
        return bound * self.ranks**2 + prices.schedule * number * self.ranks / 100

    def library(self) -> float:
        """To search NCCL's rings, and to simulate one program on them; of direct sends, to simulate one."""
        if self.name in PERSONALIZED:
            return self.simulation(self.transfers(1))
        return self._prices.rings * self._adding * self.ranks**2


def operations_of(schedule: Schedule, pipeline: Pipeline | None) -> int:
    """Transfers of a program, once for each piece."""
    pieces = pipeline.arrangement.pieces if isinstance(pipeline, SteadyState) else 1
    return len(schedule.transfers) * pieces


def within(seconds: float, left: float) -> bool:
    """Whether what takes ``seconds`` ends in time; always where there is no limit."""
    return math.isinf(left) or seconds <= left
