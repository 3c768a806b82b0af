"""docs/targets.md: the targets, the matrix of collectives, clusters and targets, and what the lowering saves.

In: the folder of example clusters. Out: the page. ``python -m hetesynth.bench.programs`` writes it; every program
in it was made, linted for its target and executed by the judge, in place and out of place.

Schedules come from the quick greedy strategy, once for all targets: the page is about programs, not steps.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hetesynth.emitter.layout import in_place_supported
from hetesynth.emitter.lower import Lowered, LoweringOptions, lower_with_notes, straightforward
from hetesynth.emitter.outputs import write_atomically
from hetesynth.emitter.summary import program_summary
from hetesynth.errors import HetesynthError
from hetesynth.frontend import load_topology
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import TARGETS, Target
from hetesynth.pipeline.formats import FORMATS
from hetesynth.pipeline.synthesis import Clock, Request, load_problem
from hetesynth.synthesis.registry import strategy
from hetesynth.synthesis.solve import Solution, Solver
from hetesynth.verify.schedule import schedule_violations

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 2.0  # for a schedule
COMPARED = ("portable", "msccl-executor")  # plain instructions, and all of them


@dataclass(frozen=True, slots=True)
class Size:
    """Totals over all GPUs of one program, out of place; ``path``: its critical path in chunk times."""

    steps: int
    thread_blocks: int
    dependences: int
    path: int

    @classmethod
    def of(cls, lowered: Lowered) -> Size:
        """Count the program."""
        figures = program_summary(lowered.program)
        return cls(figures.steps, figures.thread_blocks, figures.dependences, lowered.critical_path)

    def worse(self, plain: Size) -> bool:
        """Whether anything is more than in ``plain``."""
        return any(getattr(self, name) > getattr(plain, name) for name in self.__slots__)


@dataclass(frozen=True, slots=True)
class Cell:
    """One collective on one cluster. ``verdicts``: (target, "" or what is wrong); ``sizes``: by target compared,
    after ``plain``, the straightforward lowering. A size is None where the target cannot hold the program."""

    cluster: str
    ranks: int
    collective: CollectiveName
    verdicts: tuple[tuple[str, str], ...]
    plain: Size | None
    sizes: tuple[tuple[str, Size | None], ...]


def measured(topology: Path, collective: CollectiveName, targets: Iterable[Target]) -> Cell:
    """Make, lint and execute the programs of every target that knows the collective."""
    wanted = [t for t in targets if collective in t.collectives]
    request = Request(topology, collective, strategy="greedy", budget=Budget(SECONDS), targets=tuple(wanted))
    chunking, problem = load_problem(request, Clock())
    outcome = Solver(strategy("greedy"), request.budget, schedule_violations).solve(problem)
    if not isinstance(outcome, Solution):
        return Cell(topology.parent.name, problem.ranks, collective, (("all", "no schedule"),), None, ())
    schedule = outcome.schedule
    servers = tuple(vertex.server for vertex in chunking.topology.vertices[: problem.ranks])
    verdicts = tuple((t.name, _verdict(problem, schedule, t, servers)) for t in wanted)
    sizes = tuple((t.name, _size(problem, schedule, t)) for t in wanted if t.name in COMPARED)
    return Cell(topology.parent.name, problem.ranks, collective, verdicts, _plain(problem, schedule), sizes)


def _verdict(problem: Problem, schedule: Schedule, target: Target, servers: tuple[str, ...]) -> str:
    """Nothing, or the code of the error, or the first finding of the judge."""
    backend = FORMATS[target.format]
    for in_place in (False, True) if in_place_supported(problem.collective.name) else (False,):
        options = LoweringOptions("x", in_place, not in_place, target, servers=servers)
        try:
            made = backend.emit(problem, schedule, options)
            found = backend.judge(made.data, "x", problem, target, servers)
        except HetesynthError as error:
            return error.code
        if found:
            return found[0].kind
    return ""


def _size(problem: Problem, schedule: Schedule, target: Target) -> Size | None:
    try:
        return Size.of(lower_with_notes(problem, schedule, LoweringOptions("x", profile=target)))
    except HetesynthError:
        return None


def _plain(problem: Problem, schedule: Schedule) -> Size | None:
    try:
        return Size.of(straightforward(problem, schedule, LoweringOptions("x")))
    except HetesynthError:
        return None


def page(cells: Sequence[Cell], left_out: Sequence[str]) -> str:
    """The text of docs/targets.md."""
    lines = [*_INTRODUCTION, "", *_targets(), "", "## Every cell of the matrix", "", *_MATRIX, ""]
    lines += _matrix(cells)
    if left_out:
        lines += ["", f"Left out in this run, as they are larger than asked for: {', '.join(left_out)}."]
    lines += ["", "## What the lowering saves", "", *_SAVINGS, "", *_worse(cells), "", *_sizes(cells), ""]
    return "\n".join(lines)


_INTRODUCTION = (
    "# Targets",
    "",
    "Generated by `python -m hetesynth.bench.programs`. What each runtime accepts is one table,",
    "`hetesynth/model/target.py`, which the lowering and the linter share. `hetesynth synth --target NAME` writes",
    "for one, `hetesynth install-hint NAME FILE` says how its runtime is made to use the file.",
)
_MATRIX = (
    "Each cell says how many targets know the collective and for how many of them the program, in place and out",
    "of place, was written, accepted by the linter of that target and executed by the judge with the right data.",
    "What failed is named with its error code: a limit of the runtime that no way of lowering meets.",
)
_SAVINGS = (
    "Over all GPUs, out of place: steps / thread blocks / dependences / critical path. The straightforward",
    "lowering has one message a chunk, one thread block a connection, plain instructions and every dependence,",
    "and ignores the limits. The critical path is in chunk times: every chunk takes one everywhere.",
)


def _targets() -> Iterator[str]:
    yield "| target | runtime | file | instructions | steps a block | blocks a GPU | channels | reduce-scatter |"
    yield "|---|---|---|---|---|---|---|---|"
    for t in TARGETS.values():
        ops = " ".join(sorted(t.ops))
        limits = f"{t.max_steps} | {t.max_thread_blocks} | {t.max_channel + 1}"
        if t.format != "msccl-xml":
            ops, limits = "put signal wait re ...", f"{t.max_steps} | {t.max_thread_blocks} | -"
        yield f"| `{t.name}` | {t.runtime} | {t.format} | {ops} | {limits} | `{t.reducescatter}` |"


def _matrix(cells: Sequence[Cell]) -> Iterator[str]:
    yield "| cluster | ranks | " + " | ".join(COLLECTIVE_NAMES) + " |"
    yield "|---|---|" + "---|" * len(COLLECTIVE_NAMES)
    by_cluster: dict[tuple[int, str], dict[str, Cell]] = {}
    for cell in cells:
        by_cluster.setdefault((cell.ranks, cell.cluster), {})[cell.collective] = cell
    for (ranks, cluster), row in sorted(by_cluster.items()):
        yield f"| {cluster} | {ranks} | " + " | ".join(_shown(row.get(name)) for name in COLLECTIVE_NAMES) + " |"


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    wrong = [f"{name} {why}" for name, why in cell.verdicts if why]
    right = f"{len(cell.verdicts) - len(wrong)} of {len(cell.verdicts)}"
    return "; ".join([right, *wrong])


def _worse(cells: Sequence[Cell]) -> Iterator[str]:
    pairs = [(c, name, size) for c in cells if c.plain for name, size in c.sizes if size]
    worse = [f"{c.cluster} {c.collective} {name}" for c, name, size in pairs if c.plain and size.worse(c.plain)]
    yield (
        f"{len(pairs)} programs compared; larger in some number than the straightforward one: "
        + (", ".join(worse) or "none")
        + "."
    )


def _sizes(cells: Sequence[Cell]) -> Iterator[str]:
    yield "| cluster | collective | straightforward | " + " | ".join(f"`{name}`" for name in COMPARED) + " |"
    yield "|---|---|---|" + "---|" * len(COMPARED)
    for cell in sorted(cells, key=lambda c: (c.ranks, c.cluster, COLLECTIVE_NAMES.index(c.collective))):
        sizes = dict(cell.sizes)
        shown = " | ".join(_numbers(sizes.get(name)) for name in COMPARED)
        yield f"| {cell.cluster} | {cell.collective} | {_numbers(cell.plain)} | {shown} |"


def _numbers(size: Size | None) -> str:
    return "-" if size is None else f"{size.steps} / {size.thread_blocks} / {size.dependences} / {size.path}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the examples and write the page."""
    parser = argparse.ArgumentParser(prog="python -m hetesynth.bench.programs", description=__doc__)
    parser.add_argument("--examples", type=Path, default=ROOT / "examples")
    parser.add_argument("--most-ranks", type=int, default=64, help="leave larger clusters out")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "targets.md")
    given = parser.parse_args(arguments)
    ranks = {path: load_topology(path).ranks for path in sorted(given.examples.glob("*/topo.dsl"))}
    cells = [
        measured(path, name, TARGETS.values())
        for path, number in ranks.items()
        if number <= given.most_ranks
        for name in COLLECTIVE_NAMES
    ]
    left_out = [path.parent.name for path, number in ranks.items() if number > given.most_ranks]
    write_atomically(given.output, page(cells, left_out).encode())


if __name__ == "__main__":
    main()
