"""HeteCCL, appendix K: what cutting a link into K sub-links costs, by its equations and simulated.

In: a path of H hops, a message in batches. Out: seconds. A schedule sends the batches of the message along the
path, ``sublinks`` of them at once over each link.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hetesynth.engine.predictors import SchedulePredictor
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Link, Topology, Vertex, Wire
from hetesynth.search.chunking import chunk
from hetesynth.search.collectives import collective


@dataclass(frozen=True, slots=True)
class BatchedPath:
    """``hops`` links of ``rate`` bytes a second, ``latency`` seconds each; ``batches`` of ``batch`` bytes, as many
    at once as there are ``sublinks``."""

    hops: int
    sublinks: int
    batches: int
    batch: int = 10**6
    rate: int = 50 * 10**9
    latency: Fraction = Fraction(1, 10**6)

    @property
    def message(self) -> int:
        """Bytes in all."""
        return self.batches * self.batch

    @property
    def sequential(self) -> float:
        """Equation 9."""
        startup = self.hops * self.latency + Fraction((self.hops - 1) * self.batch, self.rate)
        return float(startup + Fraction(self.message - self.batch, self.rate))

    @property
    def heteccl(self) -> float:
        """Equation 10."""
        startup = self.hops * self.latency + Fraction((self.hops - 1) * self.batch * self.sublinks, self.rate)
        return float(startup + Fraction(self.message - self.batch, self.rate))

    @property
    def left_out(self) -> float:
        """What both equations leave out: the first batch has to cross the last hop too."""
        return self.batch / self.rate

    def simulated(self, sublinks: int | None = None) -> float:
        """The schedule in the simulator, with ``sublinks`` batches at once, by default those of the path."""
        together = self.sublinks if sublinks is None else sublinks
        topology = _path(self)
        problem = chunk(topology).problem(collective("broadcast", self.hops + 1, self.batches, 0))
        transfers = [
            Transfer(start, start + 1, batch, hop)
            for hop in range(self.hops)
            for batch in range(self.batches)
            for start in (hop + batch // together,)
        ]
        makespan = self.hops + -(-self.batches // together) - 1
        return SchedulePredictor(topology, problem, Schedule.of(transfers, makespan)).predict(self.message).seconds


def _path(path: BatchedPath) -> Topology:
    """GPUs in a row, each with a link to the next."""
    gpus = path.hops + 1
    rate = Fraction(path.rate)
    wires = tuple(Wire(i, i + 1, "nvlink", rate, latency=path.latency) for i in range(path.hops))
    links = tuple(Link.over(i, i + 1, (i,), wires) for i in range(path.hops))
    vertices = tuple(Vertex(f"gpu{i}", "gpu", "a") for i in range(gpus))
    return Topology("path", vertices, gpus, wires, links, chunk_bytes=path.batch)
