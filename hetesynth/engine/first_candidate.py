"""What strategy cegis begins with, as a request states it: a name, or a schedule file, which need not be valid."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hetesynth.engine.formats import contents
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.model.problem import Problem
from hetesynth.search.search import Candidate

if TYPE_CHECKING:
    from hetesynth.files.schedule_json import ScheduleDocument

STRATEGY = "cegis"  # beside it only a repair begins with a candidate


def demand_first_candidate(request: Request) -> None:
    """HetesynthError HS624 where the strategy begins with no candidate, HS625 where none of a file is taken."""
    if request.first_candidate is None:
        return
    if request.strategy != STRATEGY:
        raise HetesynthError(
            f"strategy {request.strategy} begins with no candidate",
            code="HS624",
            help="use --strategy cegis with --from; auto chooses what its CEGIS begins with",
        )
    if isinstance(request.first_candidate, Path) and request.collective == "allreduce":
        raise HetesynthError(
            "cegis synthesizes an allreduce as two phases, and a file has one schedule for both",
            code="HS625",
            help="use --from greedy, flood or nothing, which each phase begins with, "
            "or synthesize reducescatter and allgather, each --from a file",
        )


def first_candidate(request: Request, problem: Problem) -> Candidate:
    """The candidate that ``request`` states for ``problem``: by default the paper's one pass of greedy.

    Raises HetesynthError HS520, HS540 for a file that is no schedule, HS625 for one of another problem.
    """
    stated = request.first_candidate
    if not isinstance(stated, Path):
        return stated or "greedy"
    from hetesynth.files.schedule_json import MAX_BYTES, read_schedule_json

    data = contents(stated, MAX_BYTES, "--from takes greedy, flood, nothing, or a schedule JSON")
    document = read_schedule_json(data, str(stated))
    difference = _difference(document, problem)
    if difference is not None:
        raise HetesynthError(
            f"{stated} is a schedule of another problem: {difference}",
            code="HS625",
            help="give a schedule JSON of the same collective, ranks, chunks per rank and links; "
            "it need not keep any law",
        )
    return document.schedule


def _difference(document: ScheduleDocument, problem: Problem) -> str | None:
    """What the file says otherwise than ``problem``, or None. Links go by their index."""
    asked = problem.collective
    for what, theirs, ours in (
        ("collective", document.collective, asked.name),
        ("ranks", document.ranks, asked.ranks),
        ("chunks per rank", document.chunks_per_rank, asked.chunks_per_rank),
        ("root", document.root, asked.root),
    ):
        if theirs != ours:
            return f"{what} {theirs}, here {ours}"
    for index, src, dst in document.links:
        if index >= len(problem.arcs):
            return f"link {index}, where the cluster has {len(problem.arcs)} links"
        arc = problem.arcs[index]
        if (src, dst) != (arc.src, arc.dst):
            return f"link {index} joins ranks {src} and {dst}, here {arc.src} and {arc.dst}"
    return None
