"""docs/targets.md, and docs/data/targets.csv: every collective on every example, lowered for every target.

``PYTHONPATH=tests python -m benchmarks.programs`` writes the page, and measures what the CSV does not have: every
program is made, linted for its target and executed by the judge, in place and out of place. A row is added as
soon as it is measured; to measure one again delete it. Schedules come from one round of the greedy strategy,
without a clock.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.tables import csv_text, markdown
from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.formats import FORMATS, forms
from hetesynth.engine.problem import load_problem
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_atomically
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.program import Protocol
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import TARGETS, Target
from hetesynth.programs.msccl.lower import LoweringOptions
from hetesynth.search.greedy import greedy
from hetesynth.search.search import Strategy
from hetesynth.search.solve import Solution, Solver
from hetesynth.topology.language import load_topology

ROOT = Path(__file__).resolve().parents[2]
DATA, PAGE, TEXT = (
    ROOT / name for name in ("docs/data/targets.csv", "docs/targets.md", "tests/benchmarks/targets.txt")
)
HEAD = ["cluster", "ranks", "collective", *TARGETS]
PROTOCOLS: tuple[Protocol, ...] = ("Simple", "LL", "LL128")


@dataclass(frozen=True, slots=True)
class Cell:
    """One collective on one cluster. ``verdicts``: "ok" or what is wrong, by target that has the collective."""

    cluster: str
    ranks: int
    collective: CollectiveName
    verdicts: dict[str, str]

    def row(self) -> list[str]:
        """The line of the CSV."""
        return [self.cluster, str(self.ranks), self.collective, *(self.verdicts.get(name, "") for name in TARGETS)]


def measured(topology: Path, collective: CollectiveName, targets: Iterable[Target]) -> Cell:
    """Make, lint and execute the programs of every target that knows the collective."""
    supporting = [t for t in targets if collective in t.collectives]
    request = Request(topology, collective, strategy="greedy", targets=tuple(supporting))
    chunking, problem = load_problem(request, PhaseTimer())
    outcome = Solver(Strategy("one", lambda s: greedy.improve(s, 1)), Budget(), schedule_violations).solve(problem)
    cell = Cell(topology.parent.name, problem.ranks, collective, {})
    for t in supporting:
        if not isinstance(outcome, Solution):
            cell.verdicts[t.name] = "no schedule"
            continue
        schedule = outcome.schedule
        servers = tuple(vertex.server for vertex in chunking.topology.vertices[: problem.ranks])
        cell.verdicts[t.name] = _verdict(problem, schedule, t, servers)
    return cell


def _verdict(problem: Problem, schedule: Schedule, target: Target, servers: tuple[str, ...]) -> str:
    """``ok``, or the code of the error, or the first finding of the judge."""
    backend = FORMATS[target.format]
    for in_place in reversed(forms(target, problem.collective.name)):
        options = LoweringOptions("x", in_place, target=target, servers=servers)
        try:
            emitted = backend.emit(problem, schedule, options)
            violations = backend.judge(emitted.data, "x", problem, target, servers)
        except HetesynthError as error:
            return error.code
        if violations:
            return violations[0].kind
    return "ok"


def page(rows: Sequence[Sequence[str]]) -> str:
    """The text of docs/targets.md, around what the table of targets and the measured rows say."""
    verdicts = [
        (f"{row[0]} {row[2]}, `{name}`: {verdict}", verdict)
        for row in rows
        for name, verdict in zip(TARGETS, row[3:], strict=False)
        if verdict
    ]
    wrong = [text for text, verdict in verdicts if verdict != "ok"]
    return TEXT.read_text(encoding="utf-8").format(
        targets=markdown(
            ("target", "runtime", "file", "instructions", "steps a block", "blocks a GPU", "channels",
             "reduce-scatter"),
            _targets(),
        ),
        calls=markdown(("target", "never runs", "out of place only", "a call's root"), _calls()),
        messages=markdown(
            ("protocol", "target", "collectives", "messages held", "of one chunk", "of several", "overhead"),
            _messages(),
        ),
        one_nic=", ".join(f"`{name}`" for name, t in TARGETS.items() if not t.format.table and not t.nics_in_turn),
        clusters=len({row[0] for row in rows}),
        programs=len(verdicts),
        wrong="; ".join(wrong) or "none",
    )  # fmt: skip


def _targets() -> Iterator[Sequence[str]]:
    for t in TARGETS.values():
        ops, limits = "put signal wait re ...", (str(t.max_steps), str(t.max_thread_blocks), "-")
        if t.format.program:
            ops, limits = " ".join(sorted(t.ops)), (*limits[:2], str(t.max_channel + 1))
        elif t.format.table:
            ops, limits = "rounds of messages", ("-", "-", "-")
        yield f"`{t.name}`", t.runtime, t.format.name, ops, *limits, f"`{t.reducescatter}`"


def _calls() -> Iterator[Sequence[str]]:
    for t in TARGETS.values():
        never = ", ".join(name for name in COLLECTIVE_NAMES if name not in t.collectives) or "-"
        outside = [
            name
            for name in COLLECTIVE_NAMES
            if name in t.collectives and not t.format.table and forms(t, name) == (False,)
        ]
        seen = "is looked at" if t.tells_roots else "is not looked at"
        yield f"`{t.name}`", never, ", ".join(outside) or "-", seen


def _messages() -> Iterator[Sequence[str]]:
    for protocol in PROTOCOLS:
        by_fifo: dict[object, list[Target]] = {}
        for t in TARGETS.values():
            if t.format.program:
                by_fifo.setdefault(t.fifo(protocol, "allgather"), []).append(t)
        for alike in by_fifo.values():
            names = ", ".join(f"`{t.name}`" for t in alike)
            for collectives, example in (("all others", "allgather"), ("broadcast, reduce", "broadcast")):
                fifo = alike[0].fifo(protocol, example)
                if example == "allgather" or fifo != alike[0].fifo(protocol, "allgather"):
                    held = (str(fifo.slots), f"{fifo.slice_bytes:,}", f"{fifo.batch_bytes:,}", str(fifo.overhead))
                    yield protocol, names, collectives if protocol == "Simple" else "all", *held


def known_rows() -> list[list[str]]:
    """The measured rows."""
    with DATA.open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))[1:]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing and write the page."""
    parser = argparse.ArgumentParser(prog="PYTHONPATH=tests python -m benchmarks.programs", description=__doc__)
    parser.add_argument("--most-ranks", type=int, default=64, help="leave larger clusters out")
    options = parser.parse_args(arguments)
    rows = {(row[0], row[2]): row for row in known_rows()}
    ranks = {path: load_topology(path).ranks for path in sorted((ROOT / "examples").glob("*/topo.dsl"))}
    for path, number in sorted(ranks.items(), key=lambda item: (item[1], item[0])):
        for name in COLLECTIVE_NAMES if number <= options.most_ranks else ():
            if (path.parent.name, name) not in rows:
                rows[path.parent.name, name] = measured(path, name, TARGETS.values()).row()
                in_order = sorted(
                    rows.values(), key=lambda row: (int(row[1]), row[0], COLLECTIVE_NAMES.index(row[2]))
                )
                write_atomically(DATA, csv_text(HEAD, in_order).encode())
    write_atomically(PAGE, page(known_rows()).encode())


if __name__ == "__main__":
    main()
