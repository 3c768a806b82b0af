"""From the topology file to the problem and its bounds.

In: a request. Out: capacities, a ``Problem``, lower bounds on its steps and what their judge says of them.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from hetesynth.chunking import Chunking, ChunkingOptions, chunk
from hetesynth.collectives.library import collective
from hetesynth.compile.phases import PhaseTimer
from hetesynth.compile.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.frontend import load_topology
from hetesynth.model.bound import LowerBound
from hetesynth.model.deadline import Cuts
from hetesynth.model.problem import Problem
from hetesynth.model.topology import Topology

if TYPE_CHECKING:
    from hetesynth.verify.bounds.judge import Recheck

MANY_RANKS = 64  # up to here a program has a thread block for every peer

PEER_SHARE = Fraction(3, 4)  # of the thread blocks, beyond: leaves some for second channels and copies

RECHECK_SECONDS = 10.0  # what a second solver gets for the query that proves a bound


def load_chunking(path: Path, options: ChunkingOptions) -> Chunking:
    """Parse and quantize, for a look at the graph."""
    return chunk(load_topology(path), options)


def load_problem(request: Request, clock: PhaseTimer) -> tuple[Chunking, Problem]:
    """Parse and quantize: from the topology file to the problem."""
    with clock.phase("parse"):
        topology = load_topology(request.topology)
    with clock.phase("chunking"):
        collective(request.collective, topology.ranks, request.chunks, request.root)  # does the root fit?
        demand_several_ranks(topology)
        chunking = chunk(topology, request.chunking)
        return chunking, problem_of(request, chunking)


def demand_several_ranks(topology: Topology) -> None:
    """HetesynthError HS404 for a cluster of one GPU."""
    if topology.ranks == 1:
        raise HetesynthError(
            "this cluster has one GPU: nothing to communicate", code="HS404", help="add GPUs or instances"
        )


def problem_of(request: Request, chunking: Chunking) -> Problem:
    """The problem of ``request`` with these capacities."""
    ranks = chunking.topology.ranks
    wanted = collective(request.collective, ranks, request.chunks, request.root)
    step = request.exclusion == "step" or (request.exclusion == "auto" and wanted.name == "allreduce")
    peers = request.max_peers
    if peers is None and ranks > MANY_RANKS and not request.schedule_only:
        peers = int(PEER_SHARE * min(t.thread_blocks for t in request.targets))
    return chunking.problem(wanted, exclusive_reduction=step and wanted.reduces, max_peers=peers)


def bounds(request: Request) -> tuple[Problem, list[LowerBound]]:
    """Every lower bound for ``request``, best first, without a search."""
    from hetesynth.bounds.distance import reach
    from hetesynth.synthesis.solve import bounds_of

    _, problem = load_problem(request, PhaseTimer())
    stranded = reach(problem).stranded
    if stranded is not None:
        raise no_schedule(f"no path leads chunk {stranded[0]} to rank {stranded[1]}")
    return problem, bounds_of(problem)


def recheck_bound(
    problem: Problem, bound: LowerBound, seconds: float = RECHECK_SECONDS, cuts: Cuts | None = None
) -> Recheck:  # fmt: skip
    """What the judge of bounds says of ``bound``; a solver's query is put to a fresh solver for ``seconds``.

    ``cuts``: is told where these were not enough.
    """
    from hetesynth.verify.bounds.judge import recheck

    def unsat(query: str) -> bool | None:
        from hetesynth.synthesis.smt.recheck import unsatisfiable

        answer = unsatisfiable(query, seconds)
        if answer is None and cuts is not None:
            cuts.note("recheck of the bound")
        return answer

    return recheck(problem, bound, unsat=unsat)


def no_schedule(reason: str) -> HetesynthError:
    """The answer is no."""
    return HetesynthError(
        f"there is no schedule: {reason}",
        code="HS601",
        exit_code=1,
        help="check the direction of the links; `hetesynth topo show --all` lists them",
    )
