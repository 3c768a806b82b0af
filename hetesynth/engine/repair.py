"""Repair of an old schedule on a changed cluster: a verified schedule with its programs, and what changed. The
program is lowered as the one before; where it is not near the limit, a part of a fresh choice is tried."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from hetesynth.engine.artifacts import (
    Choice,
    ProgramSpec,
    SolvedRequest,
    Synthesis,
    demand_addressable,
    demand_callable,
    demand_carried,
    finished,
)
from hetesynth.engine.carry_over import CarryOver, demand_same_cluster
from hetesynth.engine.choice.candidates import CandidateSpecs
from hetesynth.engine.choice.program_ranking import MOST_TRANSFERS, ProgramRanking, Ranked, Route, timed_target
from hetesynth.engine.choice.steady import SteadyCandidates, copying_problem, label_of, schedule_along
from hetesynth.engine.choice.tuning import Candidate, program_effort, tune
from hetesynth.engine.compilation import Compilation, compilation
from hetesynth.engine.formats import suffixes
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.problem import ProblemFactory, demand_several_ranks, no_schedule, verified_solver
from hetesynth.engine.recipe import Recipe, recipe_in
from hetesynth.engine.request import Request
from hetesynth.engine.schedule_replay import read_schedule
from hetesynth.engine.synth import verdict_of
from hetesynth.engine.time_verdict import TimeOptimality, implied_size
from hetesynth.engine.verify import is_composition
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.files.schedule_json import ScheduleDocument
from hetesynth.model.collective import transfers
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import Target, target
from hetesynth.model.usable_links import usable
from hetesynth.model.verdict import GaveUp, Infeasible
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search import registry
from hetesynth.search.chunking import Chunking, chunk
from hetesynth.search.collectives import collective
from hetesynth.search.effort import for_steps
from hetesynth.search.repair import MENDED, NAME, NEAR_SHARE, NEAR_STEPS, WHOLE, strategy
from hetesynth.search.search import Progress, no_progress
from hetesynth.search.solve import Solution
from hetesynth.search.steady_state import PACKED, refuses, whole_packings
from hetesynth.topology.believable import load_topology
from hetesynth.topology.language import TopologySource

NEAR_LIMIT = 0.98
"""A program made like the old one that is so near to the limit, as a share of it, is taken."""
FEW = 4_000
"""Transfers with which what a fresh choice opens with is tried too: of 56 losses on clusters of 12 and 16 GPUs,
seven were 2 to 43 % slower than fresh without, and none with them."""


@dataclass(frozen=True)
class Repair:
    """A repair of the schedule in ``document``. ``changes``: from the old cluster to that of ``run``."""

    run: Compilation
    document: ScheduleDocument
    recipe: Recipe
    changes: CarryOver

    @cached_property
    def factory(self) -> ProblemFactory:
        """The factory of problems on the changed cluster."""
        return ProblemFactory(self.changes.after, self.run.request)

    @cached_property
    def size(self) -> int | None:
        """The size in bytes that the schedule is chosen for; None: it is the schedule of the fewest steps."""
        if not self.recipe.by_time or self.recipe.size is not None:
            return self.recipe.size
        chunking = chunk(self.changes.after, self.recipe.chunking)
        return implied_size(self.factory.problem(chunking, self.recipe.chunks), chunking.chunk_bytes)

    def solved(self) -> SolvedRequest:
        """Return the repaired schedule with its program. Raises HetesynthError where there is none."""
        demand_several_ranks(self.changes.after)
        request, target = self.run.request, timed_target(self.run.request)
        if self.size is None:
            return self._by_steps(target)
        sized = replace(request, size=self.size, chunking=replace(request.chunking, chunk_bytes=None))
        specs = CandidateSpecs(self.changes.after, sized, self.size)
        specs.demand_possible()  # bounds in seconds divide by what enters a rank
        ranked, record = None, self.run.decisions.inside("opening")
        with self.run.timer.phase("choice"):  # the program that is made as the old winner was, if there is one
            if target is not None and self.recipe.way == "trees":
                ranking = self._ranking(specs, target, record)
                ranking.run(self._routes(specs, SteadyCandidates(ranking)))
                ranked = next(iter(ranking.sorted), None)
        if ranked is None:
            solved = self._mended(specs.paper_chunking(self.document.chunks_per_rank))
            ranked = self._timed(solved, target, self.size)
        ranked = self._quickest(specs, target, ranked)
        spec = ProgramSpec(request.targets, steady=ranked.steady)
        candidate, choice = ranked.candidate, Choice(ranked.candidate.label, 1, cut_short=False)
        return candidate.solved(self.run, spec, specs.bounds.optimality(self.size, candidate.seconds), choice)

    def _by_steps(self, target: Target | None) -> SolvedRequest:
        """Return the mended schedule of the fewest steps or, if that is not near the bound, the schedule of a
        fresh run, if it has fewer."""
        solved, request = self._mended(chunk(self.changes.after, self.recipe.chunking)), self.run.request
        mended, budget = solved.solution, self.run.budget_left
        bound = mended.bound.steps if mended.within is None else mended.within
        steps, large = mended.schedule.makespan, solved.problem.collective.deliveries > 4_000
        if steps > bound + NEAR_STEPS and not (large and steps <= (1.0 + NEAR_SHARE) * bound):
            with self.run.timer.phase("search"):
                auto = registry.strategy("auto")
                policy, told = for_steps(request.policy, budget.effort), self._told("fresh")
                fresh = verified_solver(auto, budget, policy, **told).solve(solved.problem)
            if isinstance(fresh, Solution) and fresh.schedule.makespan < steps:
                solved = replace(solved, strategy=auto.name, solution=fresh)
        size = implied_size(solved.problem, solved.chunking.chunk_bytes)
        if target is None:  # bounds in seconds take longer than all else
            name, ranks = solved.problem.collective.name, solved.problem.ranks
            return replace(solved, time_optimality=TimeOptimality(size, name, ranks, None, None))
        if self.recipe.way == "steps":
            return solved
        ranked = self._timed(solved, target, size)
        return replace(solved, programs=replace(solved.programs, steady=ranked.steady))

    def _mended(self, chunking: Chunking) -> SolvedRequest:
        """Return the old schedule mended, step by step, on the new cluster. HetesynthError HS601, HS654: none."""
        problem = self.factory.problem(chunking, self.document.chunks_per_rank)
        with self.run.timer.phase("search"):
            outcome = self._solution(problem)
        match outcome:
            case Infeasible(reason=reason):
                raise no_schedule(reason)
            case GaveUp(reason=reason):
                raise HetesynthError(reason, code="HS654", exit_code=3, help="use `hetesynth synth` instead")
        self.run.timer.phases["bound"] = outcome.bound_seconds
        self.run.timer.phases["search"] -= outcome.bound_seconds
        programs = ProgramSpec(self.run.request.targets)
        return SolvedRequest(self.run, NAME, chunking, problem, outcome, programs)

    def _solution(self, problem: Problem, *, quick: bool = False) -> Solution | Infeasible | GaveUp:
        """Return the old schedule mended for ``problem``, or why not. ``quick``: no search for fewer steps."""
        document = self.document
        before = collective(document.collective, document.ranks, document.chunks_per_rank, document.root)
        old = self.changes.transfers(document.schedule, before, problem.collective)  # what is left of it
        chunks, arcs = problem.collective.chunks, problem.arcs
        last_sum = max((t.end for t in old.transfers if t.reduce), default=0)
        first_copy = min((t.start for t in old.transfers if not t.reduce), default=last_sum)
        at_home = all(arcs[t.link].src not in chunks[t.chunk].block for t in old.transfers if t.reduce)
        in_two_phases = last_sum <= first_copy and at_home  # adds first, each chunk at its own rank (eq. 7)
        whole = problem.collective.name == "allreduce" and not in_two_phases
        searched, told = MENDED if quick else strategy(), self._told()
        question = WHOLE if whole else searched, self.run.budget, self.run.request.policy
        return verified_solver(*question, first_candidate=old, **told).solve(problem)

    def _told(self, part: str = "") -> dict[str, Any]:
        """Return the arguments of a solver by which its progress, decisions and CEGIS trace are recorded."""
        record = self.run.decisions.inside(part) if part else self.run.decisions
        return {"progress": self.run.progress, "decisions": record, "trace": self.run.trace}

    def _timed(self, solved: SolvedRequest, target: Target | None, size: int) -> Ranked:
        """Return the mended schedule with the time of its program, lowered like the one before."""
        request, topology = self.run.request, self.changes.after
        schedule, options = solved.solution.schedule, CostOptions.of(request)
        label = f"{NAME}, c={solved.problem.collective.chunks_per_rank}"
        candidate = Candidate.of(label, NAME, solved.chunking, solved.problem, solved.solution, size, options)
        if target is None or len(schedule.transfers) > MOST_TRANSFERS:
            return Ranked(candidate)
        specs, record = CandidateSpecs(topology, request, size), self.run.decisions.inside("programs")
        ranking = self._ranking(specs, target, record)
        with self.run.timer.phase("choice"):
            if self.recipe.way == "trees":  # lowered as the old winner was
                return ranking.of([candidate])[0]
            lowering = candidate.lowering(size, specs.lowering_for(target), options)
            return Ranked(candidate, lowering.seconds())

    def _ranking(
        self, specs: CandidateSpecs, target: Target, record: Decisions, before: Ranked | None = None
    ) -> ProgramRanking:
        """Return a ranking of programs, with the effort of a fresh choice; ``before``: one that was timed."""
        effort = program_effort(self.run.budget, self.changes.after.ranks)
        limit = specs.bounds.seconds(specs.size)
        return ProgramRanking(specs, target, self.run.deadline, record, effort, limit, before=before)

    def _quickest(self, specs: CandidateSpecs, target: Target | None, ranked: Ranked) -> Ranked:
        """Return ``ranked``, or if it is not near the limit what is quicker of what a fresh choice opens with."""
        limit = specs.bounds.seconds(specs.size)
        seconds = ranked.candidate.seconds if target is None else ranked.seconds
        if seconds is not None and limit >= NEAR_LIMIT * seconds:
            return ranked
        far = seconds is None or limit < 0.8 * seconds
        if self._transfers > (10_000 if far else FEW):
            return ranked
        record = self.run.decisions.inside("further")
        with self.run.timer.phase("choice"):
            if target is None:
                try:
                    tuning = tune(specs, budget=self.run.budget_left, **self._told("further"))
                except HetesynthError:
                    return ranked
                best = tuning.candidates[0]
                return Ranked(best) if best.seconds < ranked.candidate.seconds else ranked
            ranking = self._ranking(specs, target, record, ranked)
            SteadyCandidates(ranking).try_all()
            timed = [ranked, *ranking.ranked]
            return min((r for r in timed if r.seconds), key=lambda r: r.seconds or 0.0, default=ranked)

    @property
    def _transfers(self) -> int:
        return transfers(self.run.request.collective, self.changes.after.ranks, 1)

    def _routes(self, specs: CandidateSpecs, candidates: SteadyCandidates) -> Iterator[Route]:
        """Yield the routes along the mended trees, unless chunks are cut otherwise now, and along as many trees
        packed anew, where chunks do not go along paths."""
        request, ranks, ranking = self.run.request, self.changes.after.ranks, candidates.ranking
        chunks, trees = self.document.chunks_per_rank, self.recipe.trees
        problem = self.factory.problem(specs.paper_chunking(chunks), chunks)
        outcome = self._solution(problem, quick=self._transfers <= FEW)  # others follow
        if isinstance(outcome, Infeasible):
            raise no_schedule(outcome.reason)
        if isinstance(outcome, Solution):
            dispatching = ranking.dispatchings(problem, outcome.schedule)[0]
            label, load = label_of(chunks, trees or chunks), dispatching.load
            candidate = partial(candidates.candidate, label, problem, outcome, load, trees or chunks)
            yield Route(label, dispatching, dispatching.estimate, ranking.ways(dispatching), candidate)
        if specs.personalized or trees is None:
            return
        if request.collective == "allreduce" and chunks * ranks % trees:
            # the fewest chunks per rank of which each tree carries as many
            chunks = next(chunks for chunks in range(1, trees + 1) if chunks * ranks % trees == 0)
        problem = self.factory.problem(specs.paper_chunking(chunks), chunks)
        packed = copying_problem(problem)
        if packed.collective.name not in PACKED or refuses(packed, request.policy) is not None:
            return
        question = packed, specs.rates(chunks), request.policy, self.run.deadline, trees
        for packing in whole_packings(*question, candidates.connections(trees), stars="instead"):
            anew = candidates.routes(problem, packing, schedule_along(problem, packing), trees)
            yield from (replace(route, label=f"{route.label}, anew") for route in anew)


@dataclass(frozen=True)
class ScheduleDifference:
    """The numbers of transfers in their old step, in another step, of new ones, and of old ones that are gone."""

    same: int
    moved: int
    new: int
    gone: int


def schedule_difference(
    changes: CarryOver, document: ScheduleDocument, problem: Problem, schedule: Schedule
) -> ScheduleDifference:
    """Return the difference from the schedule of ``document`` to ``schedule``, a solution of ``problem``."""
    before = collective(document.collective, document.ranks, document.chunks_per_rank, document.root)
    carried = changes.transfers(document.schedule, before, problem.collective).transfers
    old, new = (Counter((t.chunk, t.link, t.reduce) for t in these) for these in (carried, schedule.transfers))
    in_step, in_step_now = (
        Counter((t.start, t.chunk, t.link, t.reduce) for t in these) for these in (carried, schedule.transfers)
    )
    same, kept = (in_step & in_step_now).total(), (old & new).total()
    return ScheduleDifference(same, kept - same, new.total() - kept, len(document.schedule.transfers) - kept)


@dataclass(frozen=True)
class RepairRequest:
    """The file of the old schedule (None: it was read before), the cluster it was made for, and the changed one.
    No ``targets``: the old ones."""

    schedule: Path | None
    before: TopologySource
    after: TopologySource
    budget: Budget
    targets: tuple[Target, ...] = ()
    schedule_only: bool = False
    single_root: bool = False
    policy: Policy = DEFAULT
    always: bool = True
    size: int | None = None  # None: that of the schedule


@dataclass(frozen=True)
class Repaired:
    """The files of the repaired schedule, and how it differs from the old one."""

    asked: RepairRequest
    document: ScheduleDocument
    changes: CarryOver
    synthesis: Synthesis
    difference: ScheduleDifference

    def write(self, stem: Path) -> list[Path]:
        """Write the files, all or none, and return their paths."""
        return self.synthesis.write(stem)


def repair(asked: RepairRequest, progress: Progress = no_progress) -> Repaired:
    """Repair the schedule. Raises HetesynthError where files do not fit together or there is no schedule."""
    if asked.schedule is None:
        raise InternalError("a repair of no schedule file")
    document, name = read_document(asked.schedule), str(asked.schedule)
    recipe, before = recipe_in(document, name), load_topology(asked.before)
    demand_same_cluster(document, before, name)
    return repaired(asked, document, recipe, CarryOver(before, load_topology(asked.after)), progress)


def repaired(
    asked: RepairRequest,
    document: ScheduleDocument,
    recipe: Recipe,
    changes: CarryOver,
    progress: Progress = no_progress,
) -> Repaired:
    """Repair the schedule of ``document``, which was read before, along ``changes``. Raises as ``repair`` does."""
    targets = asked.targets or tuple(target(name) for name in recipe.targets)
    if asked.size is not None:
        recipe = replace(recipe, by_time=True, size=asked.size)
    if not asked.schedule_only and recipe.programs:
        changes = replace(changes, after=usable(changes.after, targets))
    request = Request(  # what the old schedule was asked for with, on the changed cluster
        topology=asked.after,
        collective=document.collective,
        chunks=recipe.chunks,
        root=changes.root(document.root),
        budget=asked.budget,
        chunking=recipe.chunking,
        exclusion=recipe.exclusion,
        schedule_only=asked.schedule_only or not recipe.programs,
        max_peers=recipe.max_peers,
        targets=targets,
        single_root=asked.single_root,
        size=recipe.size,
        runtime=NCCL_TABLES if recipe.runtime_costs else None,
        objective="time",
        policy=asked.policy,
        always=asked.always,
    )
    demand_callable(request)
    run = compilation(request, progress)
    work = Repair(run, document, recipe, changes)
    if work.size is not None:
        demand_addressable(request, work.size)
    solved = work.solved()
    synthesis = finished(solved)
    synthesis = replace(synthesis, verdict=verdict_of(synthesis))
    if work.size is not None:
        demand_carried(synthesis, work.size)
    difference = schedule_difference(changes, document, solved.problem, solved.solution.schedule)
    return Repaired(asked, document, changes, synthesis, difference)


def suffixes_of(schedule: Path, targets: tuple[Target, ...], *, schedule_only: bool) -> list[str]:
    """Return the suffixes of the files that a repair of the file ``schedule`` writes."""
    document = read_document(schedule)
    recipe = recipe_in(document, str(schedule))
    return suffixes(
        Request(
            schedule,
            document.collective,
            schedule_only=schedule_only or not recipe.programs,
            targets=targets or tuple(target(name) for name in recipe.targets),
        )
    )


def read_document(path: Path) -> ScheduleDocument:
    """Return the schedule in the file. Raises HetesynthError HS520, HS540 or, for a composition, HS653."""
    if is_composition(path):
        message = f"{path} is a composition of pods: the inside of a pod was solved once for all of its type"
        way_out = "synthesize the changed cluster anew, with --strategy composition or without"
        raise HetesynthError(message, code="HS653", help=way_out)
    return read_schedule(path)
