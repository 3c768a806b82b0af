"""``hetesynth synth``: topology in, verified schedule and programs out."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetesynth.cli.options import (
    ALL_ROOTS,
    TOPOLOGY,
    Output,
    every_root_options,
    explain_option,
    first_candidate_option,
    json_option,
    log_option,
    report_options,
    request,
    rings_option,
    runtime_costs_option,
    schedule_only_option,
    search_options,
    single_root_option,
    size_option,
    strategy_help,
    targets_option,
    topology_losses,
)
from hetesynth.cli.progress import warned, watching
from hetesynth.cli.terminal import show
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.engine.formats import suffixes as file_suffixes
from hetesynth.errors import HetesynthError
from hetesynth.model.cegis_trace import CegisTrace
from hetesynth.model.decisions import Decisions
from hetesynth.model.target import PORTABLE
from hetesynth.policy import DEFAULT

if TYPE_CHECKING:
    from hetesynth.engine.artifacts import Synthesis
    from hetesynth.engine.request import Objective, Request


COMPILE = DEFAULT.compile


@click.command(name="synth")
@click.argument("topology", type=TOPOLOGY)
@topology_losses
@every_root_options
@size_option
@rings_option
@click.option(
    "--strategy", default="auto", show_default=True, metavar="NAME",
    help=strategy_help(),
)  # fmt: skip
@first_candidate_option
@click.option(
    "--objective", type=click.Choice(["steps", "time"]), default="time", show_default=True,
    help="Which program strategy auto writes without --size: of the fewest steps, or the quickest.",
)  # fmt: skip
@runtime_costs_option
@search_options("After it, the best verified schedule so far is written:", "bytes")
@targets_option("Runtime to write for [default: portable]")
@single_root_option
@click.option(
    "-o", "--output", type=Output(path_type=Path), metavar="NAME|FILE.xml|DIRECTORY",
    help="Where to write; NAME.xml, NAME.schedule.json and so on [default: CLUSTER-COLLECTIVE here].",
)  # fmt: skip
@schedule_only_option
@click.option(
    "--max-peers", type=click.IntRange(1), metavar="N",
    help=f"Ranks that a rank may send to, and receive from [default: none up to {COMPILE.many_ranks} ranks, then "
    f"{int(COMPILE.peer_share * PORTABLE.thread_blocks)}].",
)  # fmt: skip
@report_options
@log_option
@explain_option
@json_option
def command(
    topology: os.PathLike[str],
    output: Path | None,
    page: Path | None,
    trace: Path | None,
    log: Path | None,
    objective: Objective,
    explain: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Synthesize a schedule for the cluster in TOPOLOGY.

    Writes the program (out of place and, where the collective has it, in place) and the schedule as JSON next to
    it, after both judges have passed them. With several targets each has files of its own, from one schedule.
    Ctrl-C and the time budget keep the best verified schedule so far. The report begins with a verdict: the time
    of the program beside the proved limit and beside what the library (NCCL, RCCL) would take. Without --size the
    fewest steps are searched for and reported, and the quickest program for the size that the chunks make is
    written. With --size the schedule is the quickest of many by predicted time; --chunks, --strategy, --tau-ref
    and --rounding restrict what is tried.
    With --root all there are files for each root, NAME-root0.xml and so on, within one time budget. --explain
    prints how the schedule was chosen, with --json under "decisions". --from states what strategy cegis repairs,
    and --log keeps each iteration of it, after Ctrl-C and failures too.
    """
    from hetesynth.cli.synth_report import synthesis_report, synthesis_summary
    from hetesynth.engine.artifacts import write
    from hetesynth.engine.composition import COMPOSITION_SUFFIX, is_composed

    every, reports = options["root"] == ALL_ROOTS, page is not None or trace is not None
    if every and (options["single_root"] or reports):
        raise click.UsageError("--root all excludes --single-root, --report and --trace")
    if every and isinstance(options["first_candidate"], Path):
        raise click.UsageError("--root all excludes --from FILE: a schedule file has one root")
    stated = request(topology, **(options | {"root": None} if every else options))
    stated = replace(stated, objective=objective)
    check_folder(output)
    composing = is_composed(stated)
    suffixes = [*file_suffixes(stated), *([COMPOSITION_SUFFIX] if composing else [])]
    named = named_stem(output, suffixes)
    if reports:
        from hetesynth.engine.page.report import check_reports

        check_reports(page, trace)
    _check_apart(named, suffixes, (page, trace, log))
    if log is not None:
        from hetesynth.engine.places import check_log

        others = (topology, page, trace, options["first_candidate"])
        check_log(log, [other for other in others if isinstance(other, Path)])
    if composing:
        if every or reports or log is not None or stated.first_candidate is not None:
            excluded = "--root all, --report, --trace, --log and --from"
            raise click.UsageError(f"{excluded} are not for strategy composition")
        _composition(stated, named, output, as_json=as_json)
        return
    if every:
        _every_root(stated, named, output, log, as_json=as_json, explain=explain)
        return
    with logging_to(log, stated.strategy) as steps:
        synthesis = _synthesized(stated, steps, quiet=as_json, explain=explain and not as_json)
    paths = write(synthesis, named or (output or Path()) / _name(synthesis))
    if reports:
        paths += _reports(synthesis, paths, page, trace)
    if as_json:
        show(json.dumps(synthesis_summary(synthesis, paths, explain=explain), indent=2))
    else:
        show(synthesis_report(synthesis, paths, explain=explain))


def _synthesized(stated: Request, steps: CegisTrace, *, quiet: bool, explain: bool) -> Synthesis:
    """The main job; where it fails, with ``explain`` what was decided until then is on standard error. ``steps``:
    is told what CEGIS did."""
    from hetesynth.cli.synth_report import decision_lines
    from hetesynth.engine.synth import synthesize

    decisions = Decisions()
    try:
        with watching(quiet=quiet, budget=stated.budget.seconds) as progress:
            began = click.get_current_context().obj
            return synthesize(stated, progress, decisions=decisions, trace=steps, began=began)
    except HetesynthError:
        if explain:
            show("\n".join(decision_lines(decisions.entries)), err=True)
        raise


def _composition(stated: Request, named: Path | None, output: Path | None, *, as_json: bool) -> None:
    """The files of a cluster of pods, and their report."""
    from hetesynth.cli import synth_report as render
    from hetesynth.engine.composition import compose_files

    with watching(quiet=as_json, budget=stated.budget.seconds) as progress:
        files = compose_files(stated, progress)
    task = files.composed.composition.task
    chunks = f"-c{task.chunks}" if task.chunks > 1 else ""
    paths = files.write(named or (output or Path()) / f"{task.cluster.name}-{task.collective}{chunks}")
    if as_json:
        values = render.composition_values(files, paths)
        if files.synthesis is not None:
            values = {**values, **render.synthesis_summary(files.synthesis, paths)}
        show(json.dumps(values, indent=2))
    elif files.synthesis is None:
        show(render.composition_report(files, paths))
    else:
        show("\n".join([*render.composition_lines(files), render.synthesis_report(files.synthesis, paths)]))


def _reports(synthesis: Synthesis, paths: list[Path], page: Path | None, trace: Path | None) -> list[Path]:
    """The page and the trace that are asked for, written after ``paths``."""
    from hetesynth.engine.page.report import report_of_synthesis, write_reports

    try:
        return write_reports(report_of_synthesis(synthesis), page, trace)
    except KeyboardInterrupt as error:
        raise HetesynthError(
            f"interrupted: {', '.join(map(str, paths))} are written, the report is not",
            code="HS002",
            help="hetesynth simulate --report makes one of the schedule",
            exit_code=3,
        ) from error


def _every_root(
    stated: Request, named: Path | None, output: Path | None, log: Path | None, *, as_json: bool, explain: bool
) -> None:  # fmt: skip
    """The files of all roots, and one report."""
    from hetesynth.cli.synth_report import every_root_report, every_root_summary
    from hetesynth.engine.synth import for_every_root, write_every_root

    with (
        logging_to(log, stated.strategy) as steps,
        watching(quiet=as_json, budget=stated.budget.seconds) as progress,
    ):
        syntheses = for_every_root(stated, progress, steps, began=click.get_current_context().obj)
    paths = write_every_root(syntheses, named or (output or Path()) / _name(syntheses[0]))
    if as_json:
        show(json.dumps(every_root_summary(syntheses, paths, explain=explain), indent=2))
    else:
        show(every_root_report(syntheses, paths, explain=explain))


def _name(synthesis: Synthesis) -> str:
    chunks = synthesis.by_steps.chunks
    return f"{synthesis.topology.name}-{synthesis.request.collective}" + (f"-c{chunks}" if chunks > 1 else "")


def _check_apart(stem: Path | None, suffixes: Collection[str], paths: Iterable[Path | None]) -> None:
    """The report, the trace and the log must not be named like a program or the schedule."""
    ours = set() if stem is None else {os.path.realpath(stem.with_name(stem.name + suffix)) for suffix in suffixes}
    ends = () if stem is not None else tuple(suffixes)
    for path in paths:
        if path is not None and (os.path.realpath(path) in ours or path.name.endswith(ends)):
            raise HetesynthError(
                f"{str(path)!r} is the name of a program or of the schedule",
                code="HS570",
                help="give it another name",
            )


def check_folder(output: Path | None) -> None:
    """Fail before the search, not after it."""
    directory = Path() if output is None else output if output.is_dir() else output.parent
    if not directory.is_dir():
        raise HetesynthError(
            f"{directory} is not a directory", code="HS511", help="create it first, or choose another -o"
        )
    from hetesynth.files.atomic import check_writable

    check_writable(directory)


def named_stem(output: Path | None, suffixes: Collection[str]) -> Path | None:
    """The common part that ``output`` names, None where it names a folder or nothing: all files can be written."""
    if output is None or output.is_dir():
        return None
    from hetesynth.files.atomic import check_targets

    if output.exists() and not output.is_file():
        check_targets([output])  # a device or a pipe, and nobody means its name with an extension
    stem = stem_of(output, suffixes)
    check_targets(stem.with_name(stem.name + suffix) for suffix in suffixes)
    return stem


def stem_of(output: Path, suffixes: Collection[str]) -> Path:
    """The common part of all output paths, from the name of any of them or from the common part itself.

    ``suffixes``: what may follow it. HetesynthError HS512: a name that looks like a file but would be none.
    """
    extensions = {Path(suffix).suffix for suffix in suffixes if suffix != SCHEDULE_SUFFIX} or {".xml", ".json"}
    endings = sorted({*suffixes, *extensions}, key=len, reverse=True)
    nothing = ("", ".", "..", output.name)  # would be left of the name
    ending = next((end for end in endings if output.name.removesuffix(end) not in nothing), "")
    stem = output.with_name(output.name[: -len(ending)]) if ending else output
    if stem.suffix in (".xml", ".json", ".inplace", ".schedule") and stem.suffix != stem.name:
        while stem.suffix in (".xml", ".json", ".inplace", ".schedule"):
            stem = stem.with_suffix("")
        names = ", ".join(stem.name + suffix for suffix in suffixes)
        raise HetesynthError(
            f"{output.name!r} is not a file that this makes: it would be {names}",
            code="HS512",
            help=f"use -o {stem} for all of them",
        )
    return stem


@contextmanager
def logging_to(log: Path | None, strategy: str) -> Iterator[CegisTrace]:
    """A trace whose entries are in ``log`` after the work inside, after Ctrl-C and failures too.

    Where CEGIS did not run the log is empty, which a note says; where the work failed before it ran nothing is
    written.
    """
    trace = CegisTrace()
    try:
        yield trace
    except BaseException:
        if log is not None and trace.entries:
            try:
                _write_log(log, trace)
            except HetesynthError as failure:  # what ended the work is told after it
                warned(failure.message)
        raise
    if log is None:
        return
    _write_log(log, trace)
    if not trace.entries:
        why = "there was no time" if strategy == "cegis" else "--strategy cegis runs it"
        warned(f"{log} is empty: CEGIS did not run (strategy {strategy}); {why}")


def _write_log(log: Path, trace: CegisTrace) -> None:
    from hetesynth.engine.places import write_log

    write_log(log, trace)
