"""The frontier of steps and rounds (SCCL, algorithm 1): judged files of each point, and the quickest by size."""

from dataclasses import dataclass, replace
from typing import Any

from hetesynth.engine.artifacts import ProgramSpec, SolvedRequest, Synthesis, finished
from hetesynth.engine.compilation import Compilation
from hetesynth.engine.predictors import CostOptions, first_predictor
from hetesynth.engine.problem import ProblemFactory, load_problem, no_schedule, verified_solver
from hetesynth.errors import HetesynthError
from hetesynth.model.deadline import now
from hetesynth.model.words import size_text
from hetesynth.report.size_plot import size_plot
from hetesynth.search.bounds.lower import reach
from hetesynth.search.effort import for_steps, scaled
from hetesynth.search.interrupts import interrupted
from hetesynth.search.registry import strategy
from hetesynth.search.rounds import Point, Rounds, frontier
from hetesynth.search.solve import Solution, bounds_of

MODEL_UNITS = 20_000_000  # of Z3 for each model, at effort 1


@dataclass(frozen=True)
class ParetoPoint:
    """A point with its judged files. ``found``: seconds of the search since the point before. ``seconds``: of its
    first program by size in bytes, simulated; empty without a program."""

    point: Point
    synthesis: Synthesis
    found: float
    seconds: dict[int, float]

    @property
    def counted_chunks(self) -> int:
        """The paper's C: chunks per rank; of an allreduce and an alltoall the chunks of all blocks of a rank."""
        every = self.point.problem.collective.name in ("allreduce", "alltoall")
        return self.point.chunks * (self.point.problem.ranks if every else 1)

    @property
    def name(self) -> str:
        """The common part of its files' names."""
        return f"c{self.counted_chunks}-s{self.point.steps}-r{self.point.rounds}"

    def plain(self) -> dict[str, Any]:
        """Return the point as values for JSON."""
        return {
            "chunks": self.counted_chunks,
            "steps": self.point.steps,
            "rounds": self.point.rounds,
            "rounds_of_steps": list(self.point.schedule.rounds),
            "unknown_before": self.point.open,
            "found_s": round(self.found, 3),
            "us": {str(size): round(1e6 * seconds, 3) for size, seconds in self.seconds.items()},
        }


def pareto(run: Compilation, most: int, extra: int, sizes: tuple[int, ...]) -> list[ParetoPoint]:
    """Return the points with up to ``most`` chunks a rank and ``extra`` more rounds than steps; after Ctrl-C the
    points found by then. HetesynthError HS601, HS602: there are none."""
    request = run.request
    chunking, one = load_problem(replace(request, chunks=1), run.timer)
    stranded = reach(one).stranded
    if stranded is not None:
        raise no_schedule(f"no path leads chunk {stranded[0]} to rank {stranded[1]}")
    factory, policy = ProblemFactory(chunking.topology, request), for_steps(request.policy, run.budget.effort)
    solver = verified_solver(strategy("auto"), run.budget, policy, progress=run.progress)
    rounds = Rounds(solver, scaled(MODEL_UNITS, run.budget.effort or 1.0), run.deadline)
    points: list[ParetoPoint] = []
    began = now()
    try:
        for point in frontier(lambda chunks: factory.problem(chunking, chunks), most, extra, rounds):
            spent = now() - began
            bound = bounds_of(point.problem)[0]
            solution = Solution(point.schedule, bound, False, 0.0, spent)
            spec = ProgramSpec(request.targets)
            synthesis = finished(SolvedRequest(run, "pareto", chunking, point.problem, solution, spec))
            predictor = first_predictor(chunking.topology, synthesis.programs, CostOptions.of(request))
            seconds = {} if predictor is None else {n: predictor.timeline(n).makespan for n in sizes}
            points.append(ParetoPoint(point, synthesis, spent, seconds))
            run.progress(f"pareto: {points[-1].name}", point.steps)
            began = now()
            if interrupted():
                break
    except KeyboardInterrupt:
        if not points:
            raise
    if not points:
        message = f"no point with up to {most} chunks and {extra} more rounds than steps was found"
        raise HetesynthError(message, code="HS602", exit_code=3, help="raise --extra, --up-to or --effort")
    return points


def picture(points: list[ParetoPoint], title: str) -> bytes | None:
    """Return an SVG of bandwidth by size, a curve for each point; None where nothing was simulated."""
    curves = {p.name: [(float(n), n / s / 1e9) for n, s in p.seconds.items()] for p in points if p.seconds}
    return size_plot(title, curves).encode() if curves else None


def files_of(points: list[ParetoPoint], title: str) -> dict[str, bytes]:
    """Return every file of every point, and the picture, by name."""
    files = {f"{p.name}{suffix}": data for p in points for suffix, data in p.synthesis.files.items()}
    drawn = picture(points, title)
    return files if drawn is None else {**files, "frontier.svg": drawn}


def quickest(points: list[ParetoPoint]) -> list[tuple[str, str]]:
    """Return each size from which on another point is quickest, and the name of that point."""
    simulated = [p for p in points if p.seconds]
    rows: list[tuple[str, str]] = []
    for n in simulated[0].seconds if simulated else ():
        best = min(simulated, key=lambda p: p.seconds[n]).name
        if not rows or rows[-1][1] != best:
            rows.append((size_text(n), best))
    return rows
