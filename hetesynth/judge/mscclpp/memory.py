"""The memory of the GPUs of a plan, which write into each other: what an access knows, and races in plans' words.

In: accesses with what their maker knows. Out: values, and findings: undefined data, races, and accesses that may
reach a GPU after its kernel has ended.

An actor is a thread block or the engine of a port channel. A vector clock has an entry for each actor, the last
of its segments (of its puts, for an engine) known to be complete, and one for each GPU, 1 when its kernel is
known to run. The operations of a thread block between two synchronizations of its threads are one segment,
unordered among themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hetesynth.judge.layout import Layout
from hetesynth.judge.mscclpp.findings import PlanFindings, PlanPlace
from hetesynth.judge.race_detection import Conflict, Kind, Memory, Part
from hetesynth.model.topology import Rank

Clock = npt.NDArray[np.int32]


@dataclass(slots=True)
class PlanAccess:
    """Who touches memory: ``actor`` at ``stamp``, issued by thread block ``block`` in ``segment``, knowing
    ``clock``. ``before``: of an engine, how many of its puts surely go before this one."""

    actor: int
    stamp: int
    block: int
    segment: int
    operation: int
    clock: Clock
    place: PlanPlace
    before: int = 0

    def knows(self, actor: int, stamp: int, part: Part, position: int) -> bool:
        """Whether an access stamped so happened before that to ``position``, or the same threads make both."""
        if actor == self.block:
            return stamp < self.segment or (actor == self.actor and part == (self.operation, position))
        return (actor == self.actor and stamp <= self.before) or bool(self.clock[actor] >= stamp)


class PlanMemory(Memory[PlanAccess, str]):
    """The cells of one GPU; ``names`` says who an actor is, ``hints`` of some why it is not waited for."""

    BY_POSITION = True

    def __init__(
        self, layout: Layout, rank: Rank, findings: PlanFindings, names: list[str], hints: dict[int, str]
    ) -> None:
        super().__init__(layout, rank)
        self._findings = findings
        self._names = names
        self._hints = hints

    def _undefined(self, access: PlanAccess, where: str, position: int) -> None:
        text = f"reads {where}, of which nothing is written yet"
        self._findings.add("plan-undefined-data", text, access.place)

    def _report_race(self, access: PlanAccess, kind: Kind, other: Conflict, where: str, position: int) -> None:
        if other.actor == access.actor == access.block and other.part[0] == access.operation:
            text = f"{kind}s {where}, of which its other threads {other.kind} parts"
            self._findings.add(
                "plan-missing-nop", f"{text}: slices of an operation must not overlap", access.place
            )
        elif other.actor == access.actor:
            text = f"{kind}s {where}, which an operation before it {other.kind}s: a nop must stand between them"
            self._findings.add("plan-missing-nop", text, access.place)
        else:
            text = f"{kind}s {where}, which {self._names[other.actor]} {other.kind}s: nothing orders the two"
            self._findings.add("plan-race", text + self._why(other.actor), access.place)

    def _why(self, actor: int) -> str:
        return f" ({self._hints[actor]})" if actor in self._hints else ""

    def outlived(self, clock: Clock, own: range) -> None:
        """At the end of the GPU's kernel, whose thread blocks together know ``clock``: nothing may still come."""
        late: set[int] = set()
        for record in self._cells.values():
            if record.writer not in own and clock[record.writer] < record.written:  # 0 where nobody wrote
                late.add(record.writer)
            late |= {a for a, stamp, _ in record.reads() if a not in own and clock[a] < stamp}
        for actor in sorted(late):
            text = (
                f"its kernel may end while {self._names[actor]} still uses its memory: no wait or flush covers it"
            )
            self._findings.add("plan-late-access", text + self._why(actor), PlanPlace(self._rank))
