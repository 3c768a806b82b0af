"""``hetesynth synth``: topology in, verified schedule and programs out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from hetesynth import api
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
from hetesynth.cli.synth_report import (
    composition_report,
    composition_summary,
    decision_lines,
    every_root_report,
    every_root_summary,
    synthesis_report,
    synthesis_summary,
)
from hetesynth.cli.terminal import show
from hetesynth.engine.places import COMPOSITION_SUFFIX
from hetesynth.engine.problem import MANY_RANKS, PEER_SHARE
from hetesynth.errors import HetesynthError
from hetesynth.model.cegis_trace import CegisTrace
from hetesynth.model.decisions import Decisions
from hetesynth.model.target import PORTABLE


@click.command(name="synth")
@click.argument("topology", type=TOPOLOGY)
@topology_losses
@every_root_options
@size_option
@rings_option
@click.option("--strategy", default="auto", show_default=True, metavar="NAME", help=strategy_help())
@first_candidate_option
@click.option(
    "--objective",
    type=click.Choice(["steps", "time"]),
    default="time",
    show_default=True,
    help="Which program strategy auto writes without --size: of the fewest steps, or the quickest.",
)
@runtime_costs_option
@search_options("After it, the best verified schedule so far is written:", "bytes")
@targets_option("Runtime to write for [default: portable]", "target")
@single_root_option
@click.option(
    "-o",
    "--output",
    type=Output(path_type=Path),
    metavar="NAME|FILE.xml|DIRECTORY",
    help="Where to write; NAME.xml, NAME.schedule.json and so on [default: CLUSTER-COLLECTIVE here].",
)
@schedule_only_option
@click.option(
    "--max-peers",
    type=click.IntRange(1),
    metavar="N",
    help=f"Ranks that a rank may send to, and receive from [default: none up to {MANY_RANKS} ranks, then "
    f"{int(PEER_SHARE * PORTABLE.thread_blocks)}].",
)
@report_options
@log_option
@explain_option
@json_option
def command(
    topology: os.PathLike[str],
    name: Any,
    output: Path | None,
    page: Path | None,
    trace: Path | None,
    log: Path | None,
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
    every, reports = options["root"] == ALL_ROOTS, page is not None or trace is not None
    first = options["first_candidate"]
    if every:
        if options["single_root"] or reports:
            raise click.UsageError("--root all excludes --single-root, --report and --trace")
        if isinstance(first, Path):
            raise click.UsageError("--root all excludes --from FILE: a schedule file has one root")
        options["root"] = None
    suffixes = api.suffixes(topology, name, **options)
    named, pods = api.output_stem(output, suffixes), suffixes[-1] == COMPOSITION_SUFFIX
    api.check_places(named, suffixes, page, trace, log, (topology, first))
    if pods and (every or reports or log is not None or first is not None):
        excluded = "--root all, --report, --trace, --log and --from"
        raise click.UsageError(f"{excluded} are not for strategy composition")
    began, folder, decisions = click.get_current_context().obj, output or Path(), Decisions()
    with logging_to(log, options["strategy"]) as steps:
        try:
            with watching(quiet=as_json, budget=options["time_budget"]) as progress:
                if pods:
                    composed = api.compose(topology, name, progress=progress, **options)
                elif every:
                    syntheses = api.synthesize_roots(
                        topology, name, progress=progress, trace=steps, began=began, **options
                    )
                else:
                    options |= {"progress": progress, "decisions": decisions, "trace": steps, "began": began}
                    synthesis = api.synthesize(topology, name, **options)
        except HetesynthError:
            if explain and not as_json and not pods and not every:  # what was decided until then
                show("\n".join(decision_lines(decisions.entries)), err=True)
            raise
    if pods:
        paths = api.write(composed, named or folder / composed.name)
        shown = composition_summary(composed, paths) if as_json else composition_report(composed, paths)
    elif every:
        paths = api.write(syntheses, named or folder / syntheses[0].name)
        shown = (every_root_summary if as_json else every_root_report)(syntheses, paths, explain=explain)
    else:
        paths = api.write(synthesis, named or folder / synthesis.name)
        try:
            paths += api.write_reports(synthesis, page, trace) if reports else []
        except KeyboardInterrupt as error:
            raise HetesynthError(
                f"interrupted: {', '.join(map(str, paths))} are written, the report is not",
                code="HS002",
                help="hetesynth simulate --report makes one of the schedule",
                exit_code=3,
            ) from error
        shown = (synthesis_summary if as_json else synthesis_report)(synthesis, paths, explain=explain)
    show(json.dumps(shown, indent=2) if as_json else "\n".join(shown))


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
                api.write_log(log, trace)
            except HetesynthError as failure:  # what ended the work is told after it
                warned(failure.message)
        raise
    if log is None:
        return
    api.write_log(log, trace)
    if not trace.entries:
        why = "there was no time" if strategy == "cegis" else "--strategy cegis runs it"
        warned(f"{log} is empty: CEGIS did not run (strategy {strategy}); {why}")
