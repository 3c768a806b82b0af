"""The problem of a topology file, its solver, and the candidate that strategy cegis begins with."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.request import MANY_RANKS, PEER_SHARE, Request
from hetesynth.errors import HetesynthError
from hetesynth.model.collective import Collective
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.topology import Rank, Topology
from hetesynth.model.usable_links import usable
from hetesynth.policy import Policy
from hetesynth.search.chunking import Chunking, chunk
from hetesynth.search.collectives import collective
from hetesynth.search.search import Candidate, Strategy
from hetesynth.search.solve import Solver
from hetesynth.topology.believable import load_topology

CEGIS = "cegis"  # beside it only a repair begins with a candidate


def demand_first_candidate(request: Request) -> None:
    """Raise HetesynthError HS624 if the strategy begins with no candidate, HS625 if it takes none of a file."""
    if request.first_candidate is None:
        return
    if request.strategy != CEGIS:
        message = f"strategy {request.strategy} begins with no candidate"
        way_out = "use --strategy cegis with --from; auto chooses what its CEGIS begins with"
        raise HetesynthError(message, code="HS624", help=way_out)
    if isinstance(request.first_candidate, Path) and request.collective == "allreduce":
        raise HetesynthError(
            "cegis synthesizes an allreduce as two phases, and a file has one schedule for both",
            code="HS625",
            help="use --from greedy, flood or nothing, which each phase begins with, "
            "or synthesize reducescatter and allgather, each --from a file",
        )


def first_candidate(request: Request, problem: Problem, topology: Topology) -> Candidate:
    """Return the candidate that ``request`` states for ``problem`` on ``topology``: by default one pass of greedy,
    as in the paper. HetesynthError HS520, HS540: a file that is no schedule, HS625: one of another problem."""
    stated = request.first_candidate
    if not isinstance(stated, Path):
        return stated or "greedy"
    from hetesynth.engine.schedule_replay import foreign_link, read_schedule

    document = read_schedule(stated, "--from takes greedy, flood, nothing, or a schedule JSON")
    asked, whole = problem.collective, topology.whole or topology
    number = {old: new for new, old in enumerate(topology.numbers or range(len(problem.arcs)))}
    other = foreign_link(document, whole.links)
    unused = next((i for i, _, _ in document.links if i not in number), None)
    compared = (
        ("collective", document.collective, asked.name),
        ("ranks", document.ranks, asked.ranks),
        ("chunks per rank", document.chunks_per_rank, asked.chunks_per_rank),
        ("root", document.root, asked.root),
    )
    differences = (f"{what} {theirs}, here {ours}" for what, theirs, ours in compared if theirs != ours)
    difference = next(differences, None if other is None else other[1])
    if difference is None and unused is not None:
        difference = f"it uses link {unused}, which programs for the target do not"
    if difference is not None:
        raise HetesynthError(
            f"{stated} is a schedule of another problem: {difference}",
            code="HS625",
            help="give a schedule JSON of the same collective, ranks, chunks per rank and links; "
            "it need not keep any law",
        )
    moved = (replace(t, link=number[t.link]) for t in document.schedule.transfers)
    return Schedule.of(moved, document.schedule.makespan)


def verified_solver(strategy: Strategy, budget: Budget, policy: Policy, **others: Any) -> Solver:
    """Return the solver that offers what ``strategy`` finds to the judge; ``others``: more of its fields."""
    from hetesynth.judge.schedule.judge import schedule_violations

    return Solver(strategy, budget, schedule_violations, policy=policy, **others)


def unbounded_solver(strategy: Strategy, request: Request) -> Solver:
    """Return a verified solver without budget and bound, for schedules that are not told by their steps."""
    return verified_solver(strategy, Budget(seed=request.budget.seed), request.policy, bounded=False)


@dataclass(frozen=True, slots=True)
class ProblemFactory:
    """The problems of one request on one topology, which differ in their capacities and chunks per rank."""

    topology: Topology
    request: Request

    def collective(self, chunks: int = 1) -> Collective:
        """Return the collective, with ``chunks`` chunks per rank. HetesynthError where the root does not fit."""
        return collective(self.request.collective, self.topology.ranks, chunks, self.request.root)

    @property
    def root(self) -> Rank | None:
        """The root of the collective; None where it has none."""
        return self.collective().root

    def problem(self, chunking: Chunking, chunks: int | None = None) -> Problem:
        """Return the problem with these capacities; ``chunks`` per rank, by default those of the request."""
        request, ranks = self.request, self.topology.ranks
        goal = self.collective(request.chunks if chunks is None else chunks)
        step = request.exclusion == "step" or (request.exclusion == "auto" and goal.name == "allreduce")
        peers = request.max_peers
        if peers is None and ranks > MANY_RANKS and not request.schedule_only:
            peers = int(PEER_SHARE * min(t.thread_blocks for t in request.targets))
        return chunking.problem(goal, exclusive_reduction=step and goal.reduces, max_peers=peers)


def usable_topology(request: Request) -> Topology:
    """Return the cluster with the links that programs for the targets use (all links where no program is asked
    for) and that the sketch allows."""
    topology = load_topology(request.topology)
    if not request.schedule_only:
        topology = usable(topology, request.targets)
    return topology if request.sketch is None else topology.part(request.sketch.links(topology))


def load_problem(request: Request, timer: PhaseTimer) -> tuple[Chunking, Problem]:
    """Return the chunking and the problem of ``request``, parsed and quantized from its topology file."""
    with timer.phase("parse"):
        topology = usable_topology(request)
    with timer.phase("chunking"):
        factory = ProblemFactory(topology, request)
        factory.collective(request.chunks)  # does the root fit?
        demand_several_ranks(topology)
        chunking = chunk(topology, request.chunking)
        return chunking, factory.problem(chunking)


def demand_several_ranks(topology: Topology) -> None:
    """Raise HetesynthError HS404 for a cluster of one GPU."""
    if topology.ranks == 1:
        message = "this cluster has one GPU: nothing to communicate"
        raise HetesynthError(message, code="HS404", help="add GPUs or instances")


def no_schedule(reason: str) -> HetesynthError:
    """Return the error, HS601 with exit code 1, that says that there is no schedule, and the ``reason``."""
    message = f"there is no schedule: {reason}"
    way_out = "check the direction of the links; `hetesynth topo show --all` lists them"
    return HetesynthError(message, code="HS601", exit_code=1, help=way_out)
