"""A comparison of strategies at several sizes, every figure simulated beside the bound."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hetesynth.engine.choice.pool import Pool, pool
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.problem import ProblemFactory
from hetesynth.engine.request import Request
from hetesynth.engine.time_verdict import TimeOptimality, TimeVerdict, time_verdict, verdict_line
from hetesynth.errors import HetesynthError
from hetesynth.model.deadline import ClockDecisions
from hetesynth.model.topology import Topology
from hetesynth.search.registry import demand_strategy
from hetesynth.search.search import Ending, Progress, combined, no_progress
from hetesynth.topology.believable import load_topology

INTERRUPTED = "interrupted before it was predicted"


@dataclass(frozen=True)
class Entry:
    """A strategy at a size: ``time_optimality`` and the candidate that took it, or why there is none.
    ``simulated``: True if the time is that of its program; False: it is estimated from its schedule."""

    strategy: str
    size: int
    time_optimality: TimeOptimality | None
    candidate: str = ""
    chunks: int | None = None
    refusal: str = ""
    simulated: bool = True


@dataclass(frozen=True)
class Comparison:
    """The entries of all strategies at all sizes, by size, then in the order of the strategies."""

    topology: Topology
    request: Request
    sizes: tuple[int, ...]
    entries: tuple[Entry, ...]
    cut_short: bool
    ending: Ending = "tried"
    decided_by_clock: tuple[str, ...] = ()
    verdicts: tuple[tuple[Entry, TimeVerdict], ...] = ()  # of the quickest entry of each size

    @property
    def verdict(self) -> str:
        """The line with which the report begins."""
        return verdict_line([v for _, v in self.verdicts]) if self.verdicts else "no strategy has a program"

    def figures(self) -> dict[str, Any]:
        """Return what ``compare --json`` prints; scripts depend on these names."""
        return {
            "verdict": self.verdict,
            "verdicts": [
                {"size": e.size, "strategy": e.strategy, "candidate": e.candidate, **v.figures()}
                for e, v in self.verdicts
            ],
            "cluster": self.topology.name,
            "collective": self.request.collective,
            "ranks": self.topology.ranks,
            "simulated": True,
            "runtime_costs": self.request.runtime is not None,
            "cut_short": self.cut_short,
            "ended_by": self.ending,
            "decided_by_clock": list(self.decided_by_clock),
            "results": [
                {
                    "strategy": e.strategy,
                    "candidate": e.candidate,
                    "chunks": e.chunks,
                    "program_simulated": e.simulated if e.time_optimality else None,
                    "refused": e.refusal or None,
                }
                | ({"size": e.size} if e.time_optimality is None else e.time_optimality.figures())
                for e in self.entries
            ],
        }

    def write(self, file: Path) -> list[Path]:
        """Draw algorithm bandwidth in GB/s by size, of each strategy and the bound; return the path in a list."""
        from hetesynth.files.atomic import write_atomically
        from hetesynth.report.size_plot import size_plot

        lines: dict[str, list[tuple[int, float]]] = {}
        bounds: dict[int, float] = {}
        for entry in self.entries:
            optimality = entry.time_optimality
            if optimality is not None and optimality.seconds:
                lines.setdefault(entry.strategy, []).append((entry.size, entry.size / optimality.seconds / 1e9))
                if optimality.bound_seconds:
                    bounds[entry.size] = entry.size / optimality.bound_seconds / 1e9
        title = f"{self.topology.name}: {self.request.collective}, {self.topology.ranks} GPUs"
        write_atomically(file, size_plot(title, lines | {"bound": sorted(bounds.items())}).encode())
        return [file]


def compare(
    request: Request, sizes: Sequence[int], strategies: Sequence[str], progress: Progress = no_progress
) -> Comparison:
    """Compare every strategy at every size; the strategies share the budget of ``request`` in equal parts, and
    after Ctrl-C the results known by then are returned."""
    names = tuple(dict.fromkeys(strategies))
    for name in names:
        demand_strategy(name, sized=True)
    topology, options = load_topology(request.topology), CostOptions.of(request)
    seconds = None if request.budget.seconds is None else request.budget.seconds / len(names)
    whole = ClockDecisions()
    table: dict[str, list[Entry]] = {}
    interrupted = False
    endings: list[Ending] = []
    for name in names:
        if interrupted:
            table[name] = [Entry(name, size, None, refusal=INTERRUPTED) for size in sizes]
            continue
        rings = request.rings if name == "ring" else ()
        budget = replace(request.budget, seconds=seconds, clock_decisions=whole.inside(name))
        of_strategy = replace(request, strategy=name, rings=rings)
        try:
            outcome: Pool | str = pool(topology, of_strategy, sizes, progress, budget=budget)
        except KeyboardInterrupt:
            if not table:
                raise
            outcome = INTERRUPTED
            interrupted = True
        except HetesynthError as error:
            if error.code not in ("HS610", "HS611"):
                raise
            outcome = error.message
        if isinstance(outcome, str):
            table[name] = [Entry(name, size, None, refusal=outcome) for size in sizes]
            continue
        interrupted = outcome.interrupted
        endings.append(outcome.ending)
        for j, size in enumerate(sizes):
            i = outcome.best(j)
            took, best = outcome.seconds[i][j], outcome.candidates[i]
            if math.isinf(took):
                why = INTERRUPTED if interrupted else f"{size} bytes are too few to be cut"
                entry = Entry(name, size, None, refusal=why)
            else:
                simulated = outcome.members[i].predictor is not None
                line_seconds = outcome.members[i].at_line_rate(topology, options, size)
                optimality = replace(outcome.schedule_at(i, size), seconds=took, line_seconds=line_seconds)
                entry = Entry(name, size, optimality, best.label, best.chunks, simulated=simulated)
            table.setdefault(name, []).append(entry)
    entries = tuple(table[name][j] for j in range(len(sizes)) for name in names)
    cut_short = interrupted or bool(whole)
    ending = combined(endings, interrupted=interrupted, cut_short=bool(whole))
    root, verdicts = ProblemFactory(topology, request).root, []
    for size in sizes:  # the quickest, of equally quick ones the first
        of_size = [e for e in entries if e.size == size]
        timed = [(e.time_optimality.seconds, e) for e in of_size if e.time_optimality]
        fastest = min(((s, e) for s, e in timed if s), key=lambda pair: pair[0], default=None)
        if fastest is not None:
            seconds, first = fastest
            line_seconds = None if first.time_optimality is None else first.time_optimality.line_seconds
            times = (seconds, line_seconds) if first.simulated else (None, None)
            target = None if request.schedule_only else request.targets[0]
            question = topology, request.collective, root, size, times, options
            verdicts.append((first, time_verdict(*question, target=target)))
    told = whole.told()
    return Comparison(topology, request, tuple(sizes), entries, cut_short, ending, told, tuple(verdicts))
