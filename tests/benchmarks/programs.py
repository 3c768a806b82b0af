"""docs/targets.md: the targets, the matrix of collectives, clusters and targets, and what the lowering saves.

In: the folder of example clusters. Out: the page. ``PYTHONPATH=tests python -m benchmarks.programs`` writes
it; every program in it was made, linted for its target and executed by the judge, in place and out of place. With
``--kept FOLDER`` what was measured of a collective on a cluster is a file there (``program_cells``), and a run
that was stopped goes on from those.

Schedules come from one round of the greedy strategy, once for all targets and without a clock, so that the page is
the same every time: it is about programs, not steps.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.message_tables import message_lines
from benchmarks.program_cells import Cell, Size, read_cell, write_cell
from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.formats import FORMATS, forms
from hetesynth.engine.problem import load_problem
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_atomically
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import TARGETS, Target
from hetesynth.programs.msccl.assembly import STRAIGHTFORWARD
from hetesynth.programs.msccl.library_programs import fits
from hetesynth.programs.msccl.lower import LoweringOptions, lower_with_notes, straightforward
from hetesynth.search.greedy import greedy
from hetesynth.search.solve import Solution, Solver
from hetesynth.search.strategy import Strategy
from hetesynth.topology.language import load_topology

ROOT = Path(__file__).resolve().parents[2]
COMPARED = ("portable", "msccl-executor")  # plain instructions, and all of them


def measured(topology: Path, collective: CollectiveName, targets: Iterable[Target]) -> Cell:
    """Make, lint and execute the programs of every target that knows the collective."""
    supporting = [t for t in targets if collective in t.collectives]
    request = Request(topology, collective, strategy="greedy", targets=tuple(supporting))
    chunking, problem = load_problem(request, PhaseTimer())
    once = Strategy("greedy", greedy.one_round)
    outcome = Solver(once, Budget(), schedule_violations).solve(problem)
    if not isinstance(outcome, Solution):
        return Cell(topology.parent.name, problem.ranks, collective, (("all", "no schedule"),), None, ())
    schedule = outcome.schedule
    servers = tuple(vertex.server for vertex in chunking.topology.vertices[: problem.ranks])
    verdicts, sizes = [], []
    for t in supporting:
        verdicts.append((t.name, _verdict(problem, schedule, t, servers)))
        if t.name in COMPARED:  # here, as its program is still known
            sizes.append((t.name, _size(problem, schedule, LoweringOptions("x", target=t))))
    plain = straightforward(problem, schedule, LoweringOptions("x"))
    within = tuple(
        (t.name, Size.of(plain) if fits(plain.program, t) else _plain_within(problem, schedule, t))
        for t in supporting
        if t.name in COMPARED
    )
    return Cell(
        topology.parent.name, problem.ranks, collective, tuple(verdicts), Size.of(plain), tuple(sizes), within
    )


def _verdict(problem: Problem, schedule: Schedule, target: Target, servers: tuple[str, ...]) -> str:
    """Nothing, or the code of the error, or the first finding of the judge."""
    backend = FORMATS[target.format]
    for in_place in reversed(forms(target, problem.collective.name)):
        options = LoweringOptions("x", in_place, not in_place, target, servers=servers)
        try:
            emitted = backend.emit(problem, schedule, options)
            violations = backend.judge(emitted.data, "x", problem, target, servers)
        except HetesynthError as error:
            return error.code
        if violations:
            return violations[0].kind
    return ""


def _size(problem: Problem, schedule: Schedule, options: LoweringOptions) -> Size | None:
    try:
        return Size.of(lower_with_notes(problem, schedule, options))
    except HetesynthError:
        return None


def _plain_within(problem: Problem, schedule: Schedule, target: Target) -> Size | None:
    """The straightforward lowering that does no more than the limits of ``target`` ask for."""
    return _size(problem, schedule, LoweringOptions("x", target=target, optimizations=STRAIGHTFORWARD))


def page(cells: Sequence[Cell], left_out: Sequence[str]) -> str:
    """The text of docs/targets.md."""
    lines = [*_INTRODUCTION, "", *_targets(), "", *message_lines(), "", *_CALLS, "", *_calls(), ""]
    lines += ["## Every cell of the matrix", "", *_MATRIX, ""]
    lines += _matrix(cells)
    if left_out:
        lines += ["", f"Not measured in this run: {', '.join(left_out)}."]
    lines += ["", "## What the lowering saves", "", *_SAVINGS, "", *_worse(cells), "", *_sizes(cells), ""]
    return "\n".join(lines)


_INTRODUCTION = (
    "# Targets",
    "",
    "Generated by `PYTHONPATH=tests python -m benchmarks.programs`. What each runtime accepts is one table,",
    "`hetesynth/model/target.py`, which the lowering and the linter share. `hetesynth synth --target NAME` writes",
    "for one, `hetesynth install-hint NAME FILE` says how its runtime is made to use the file. RCCL runs on",
    "AMD GPUs only, the MSCCL executor and the research runtime on NVIDIA GPUs only, MSCCL++ is built for",
    "either: `synth` warns of a target that the GPUs of the topology do not run, and where none is named it",
    "says which they load (`runtime_advice`).",
    "",
    "Nothing here was run on GPUs. RCCL was read in its sources up to ROCm 6.3 (October 2024); of what came",
    "later, the part that selects files as it stood last: it selects as before, warns that MSCCL is",
    "deprecated, and leaves files out that need more channels than `NCCL_MAX_NCHANNELS` allows. Its changelog",
    "names no change to the format up to ROCm 7.12 (7.2 has RCCL 2.27.7). From ROCm 7.13 on RCCL loads no such",
    "file: MSCCL is removed, and its calls do nothing. Where the table says 7.12, the reader of 6.4 to 7.12 is",
    "taken to be that of 6.3.",
)
_CALLS = (
    "## Which calls run a file",
    "",
    "Runtimes of MSCCL XML select a file by ranks, collective, size and in-place form. None looks at the root of",
    "a call: a file for broadcast, reduce, gather or scatter runs for every root, and the data is wrong for all",
    "but its own. So for RCCL, the MSCCL executor and the research runtime such files are written only with",
    "`--single-root`, the promise that all calls of the job have that root (else HS514). `portable` is a format",
    "for simulators too: its files are written with a warning. A scheduler plug-in of RCCL or of the executor",
    "(`MSCCL_SCHEDULER`) is told the root; their own scheduler does not ask.",
    "",
    "Plans of MSCCL++ are registered by name, and a selector of the user's own chooses among them. NCCL's",
    'broadcast tells it the root (`request.hints["root"]`); `synth --root all --target mscclpp` writes a plan',
    "for each root in one command. What that selector leaves goes to the built-in one, which does not look at the",
    "root. Plans of the other rooted collectives are run by whoever names them.",
    "",
    "The MSCCL executor's library has no gather and no scatter, though its reader knows the words, and the",
    "research runtime's reader does not: of `portable` files for these only RCCL runs any. The research runtime",
    "refuses alltoall in place, and does not look at the in-place flag of an alltoall file.",
)
_MATRIX = (
    "Each cell says how many targets run the collective and for how many of them the program, in place and out",
    "of place, was written, accepted by the linter of that target and executed by the judge with the right data.",
    "What failed is named with its error code: a limit of the runtime that no way of lowering meets.",
)
_SAVINGS = (
    "Over all GPUs, out of place: steps / thread blocks / dependences / critical path. The straightforward",
    "lowering has one message a chunk, one thread block a connection, plain instructions and every dependence.",
    "It ignores the limits; where a target could not hold it, the program is compared with a straightforward one",
    "that is within them (fewer channels, or transfers spread over more of them, and no more), shown after `>`; a",
    "dash there: without sharing thread blocks there is none; a dash alone: the target never runs it. The",
    "critical path is in chunk times: every chunk takes one everywhere. Fused receives are used wherever they can",
    "be here; `synth` writes what is quicker ([decision 7](decisions.md)).",
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


def _calls() -> Iterator[str]:
    yield "| target | never runs | out of place only | a call's root |"
    yield "|---|---|---|---|"
    for t in TARGETS.values():
        never = ", ".join(name for name in COLLECTIVE_NAMES if name not in t.collectives) or "-"
        outside = [name for name in COLLECTIVE_NAMES if name in t.collectives and forms(t, name) == (False,)]
        seen = "is looked at" if t.tells_roots else "is not looked at"
        yield f"| `{t.name}` | {never} | {', '.join(outside) or '-'} | {seen} |"


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
    pairs = [(c, name, size) for c in cells for name, size in c.sizes if size]
    with_plain = [(c, name, size, dict(c.within).get(name)) for c, name, size in pairs]
    compared = [
        (f"{c.cluster} {c.collective} {name}", size, plain) for c, name, size, plain in with_plain if plain
    ]
    larger = [name for name, size, plain in compared if size.larger(plain)]
    longer = [name for name, size, plain in compared if size.path > plain.path]
    yield (
        f"{len(compared)} programs compared. With more steps, blocks or dependences than the straightforward "
        f"one: {', '.join(larger) or 'none'}. With a longer critical path: {', '.join(longer) or 'none'}. Of "
        f"{len(pairs) - len(compared)} more no straightforward one is within the limits."
    )


def _sizes(cells: Sequence[Cell]) -> Iterator[str]:
    yield "| cluster | collective | straightforward | " + " | ".join(f"`{name}`" for name in COMPARED) + " |"
    yield "|---|---|---|" + "---|" * len(COMPARED)
    for cell in sorted(cells, key=lambda c: (c.ranks, c.cluster, COLLECTIVE_NAMES.index(c.collective))):
        sizes, within = dict(cell.sizes), dict(cell.within)
        shown = " | ".join(
            _compared(cell.plain, sizes[name], within[name]) if name in sizes else "-" for name in COMPARED
        )
        yield f"| {cell.cluster} | {cell.collective} | {_numbers(cell.plain)} | {shown} |"


def _compared(plain: Size | None, size: Size | None, within: Size | None) -> str:
    return _numbers(size) if within == plain else f"{_numbers(size)} > {_numbers(within)}"


def _numbers(size: Size | None) -> str:
    return "-" if size is None else f"{size.steps} / {size.thread_blocks} / {size.dependences} / {size.path}"


def _kept(folder: Path, path: Path, name: CollectiveName) -> Path:
    return folder / f"{path.parent.name}.{name}.json"


def _known(kept: Path | None, path: Path, name: CollectiveName) -> Cell | None:
    """What an earlier run measured."""
    file = None if kept is None else _kept(kept, path, name)
    return read_cell(file) if file is not None and file.exists() else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the examples and write the page."""
    parser = argparse.ArgumentParser(prog="PYTHONPATH=tests python -m benchmarks.programs", description=__doc__)
    parser.add_argument("--examples", type=Path, default=ROOT / "examples")
    parser.add_argument("--most-ranks", type=int, default=64, help="leave larger clusters out")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "targets.md")
    parser.add_argument("--kept", type=Path, help="folder of what was measured: taken from there, added there")
    parser.add_argument("--measure", nargs="*", help="of these clusters only; the page shows all that is known")
    options = parser.parse_args(arguments)
    if options.kept is not None:
        options.kept.mkdir(parents=True, exist_ok=True)
    ranks = {path: load_topology(path).ranks for path in sorted(options.examples.glob("*/topo.dsl"))}
    cells, left_out = [], []
    for path, number in sorted(ranks.items(), key=lambda item: (item[1], item[0])):
        selected = number <= options.most_ranks and (
            options.measure is None or path.parent.name in options.measure
        )
        missing = []
        for name in COLLECTIVE_NAMES:
            cell = _known(options.kept, path, name)
            if cell is None and selected:
                cell = measured(path, name, TARGETS.values())
                if options.kept is not None:
                    write_cell(_kept(options.kept, path, name), cell)
            if cell is None:
                missing.append(name)
            else:
                cells.append(cell)
        if missing:
            what = "" if len(missing) == len(COLLECTIVE_NAMES) else f" ({', '.join(missing)})"
            left_out.append(path.parent.name + what)
    write_atomically(options.output, page(cells, left_out).encode())


if __name__ == "__main__":
    main()
