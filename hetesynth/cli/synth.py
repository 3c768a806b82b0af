"""``hetesynth synth``: topology in, verified schedule and programs out."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from hetesynth import api
from hetesynth.cli import options as shared
from hetesynth.cli import synth_report
from hetesynth.cli.progress import warned, watching
from hetesynth.cli.terminal import answer, show_lines
from hetesynth.engine.places import COMPOSITION_SUFFIX, check_folder, check_places, is_composed, named_stem
from hetesynth.engine.request import MANY_RANKS, PEER_SHARE
from hetesynth.errors import HetesynthError
from hetesynth.model.cegis_trace import CegisTrace
from hetesynth.model.decisions import Decisions
from hetesynth.model.target import PORTABLE
from hetesynth.topology.language import TopologySource

_MAX_PEERS = (
    f"Ranks that a rank may send to, and receive from [default: none up to {MANY_RANKS} ranks, then "
    f"{int(PEER_SHARE * PORTABLE.thread_blocks)}]."
)
_OBJECTIVE = "Without --size the fewest steps are written always, or (time) only within 5 % of the quickest."
_DELAY = "What lines between data centres (wires of 10 us or more) may take: the worst case over it is optimized."
_LOG = "Also write what CEGIS did: a JSON object a line for each iteration."


@click.command(name="synth")
@click.argument("topology", type=shared.FILE)
@shared.topology_losses
@shared.every_root_options
@shared.size_option
@click.option("--delay", metavar="TIME..TIME", help=_DELAY)
@shared.rings_option
@click.option("--strategy", default="auto", metavar="NAME", help=shared.strategy_help())
@shared.first_candidate_option
@shared.sketch_option
@click.option("--objective", type=click.Choice(["steps", "time"]), default="time", help=_OBJECTIVE)
@shared.runtime_costs_option
@shared.search_options("After it, the best verified schedule so far is written:", "bytes")
@shared.targets_option("Runtime to write for [default: portable]")
@shared.single_root_option
@shared.always_option
@shared.output_option("NAME|FILE.xml|DIRECTORY", "CLUSTER-COLLECTIVE")
@shared.schedule_only_option
@click.option("--max-peers", type=click.IntRange(1), metavar="N", help=_MAX_PEERS)
@shared.report_options
@click.option("--log", type=shared.NewPath(".jsonl", ".json"), metavar="FILE.jsonl", help=_LOG)
@shared.explain_option
@shared.json_option
def command(
    topology: os.PathLike[str],
    name: Any,
    output: Path | None,
    page: Path | None,
    trace: Path | None,
    log: Path | None,
    delay: str | None,
    explain: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Synthesize a schedule for the cluster in TOPOLOGY.

    Writes the program (out of place and, where the collective has it, in place) and the schedule as JSON next to
    it, after both judges have passed them. With several targets each has files of its own, from one schedule.
    Ctrl-C and the time budget keep the best verified schedule so far. The report begins with a verdict: the time
    of the program beside the proved limit and beside what the library (NCCL, RCCL) would take. Without --size the
    schedule with the fewest steps is written where its program is within 5 % of the quickest for the size that the
    chunks make, else the quickest. With --size the schedule is the quickest of many by predicted time; --chunks,
    --strategy, --tau-ref and --rounding restrict what is tried.
    With --root all there are files for each root, NAME-root0.xml and so on, within one time budget. --explain
    prints how the schedule was chosen, with --json under "decisions". --from states what strategy cegis repairs,
    and --log keeps each iteration of it, after Ctrl-C and failures too. --delay 20ms..60ms writes what is quickest
    at 60 ms, where every program is slowest, and shows it at 20, 40 and 60.
    """
    from hetesynth.engine import delays, formats, synth
    from hetesynth.engine.predictors import CostOptions

    every, reports = options["root"] == shared.ALL_ROOTS, page is not None or trace is not None
    first = options["first_candidate"]
    if every:
        if options["single_root"] or reports:
            raise click.UsageError("--root all excludes --single-root, --report and --trace")
        if isinstance(first, Path):
            raise click.UsageError("--root all excludes --from FILE: a schedule file has one root")
        options["root"] = None
    ends = None if delay is None else delays.delay_range(delay)
    cluster: TopologySource = topology if ends is None else delays.delayed(api.load(topology), ends[1])
    request = api.request(cluster, name, **options)
    if ends is not None and (every or options["strategy"] == "composition"):
        raise click.UsageError("--delay is not for --root all nor strategy composition")
    pods = is_composed(request)
    suffixes = formats.suffixes(request) + [COMPOSITION_SUFFIX] * pods
    check_folder(output)
    named = named_stem(output, suffixes)
    check_places(named, suffixes, page, trace, log, (topology, first, options["sketch"]))
    if pods and (every or reports or log is not None or first is not None):
        excluded = "--root all, --report, --trace, --log and --from"
        raise click.UsageError(f"{excluded} are not for strategy composition")
    began, folder, decisions = click.get_current_context().obj, output or Path(), Decisions()
    with logging_to(log) as steps:
        try:
            with watching(quiet=as_json, budget=options["time_budget"]) as progress:
                how: dict[str, Any] = {"progress": progress, **options}
                if pods:
                    composed = api.compose(cluster, name, **how)
                elif every:
                    syntheses = api.synthesize_roots(cluster, name, trace=steps, began=began, **how)
                else:
                    how |= {"decisions": decisions, "trace": steps, "began": began}
                    synthesis = api.synthesize(cluster, name, **how)
        except HetesynthError:
            if explain and not as_json and decisions.entries:  # what was decided until then
                show_lines(synth_report.decision_lines(d.plain() for d in decisions.entries), err=True)
            raise
    if pods:
        paths = composed.write(named or folder / composed.name)
        document = synth_report.composition_summary(composed, paths)
        lines = synth_report.composition_report(document)
    elif every:
        paths = synth.write_every_root(syntheses, named or folder / syntheses[0].name)
        document = synth_report.every_root_summary(syntheses, paths, explain=explain)
        lines = synth_report.every_root_report(document)
    else:
        paths = synthesis.write(named or folder / synthesis.name)
        try:
            if reports:
                from hetesynth.engine.page import report

                paths += report.write_reports(report.report_of_synthesis(synthesis), page, trace)
        except KeyboardInterrupt as error:
            raise HetesynthError(
                f"interrupted: {', '.join(map(str, paths))} are written, the report is not",
                code="HS002",
                help="hetesynth simulate --report makes one of the schedule",
                exit_code=3,
            ) from error
        document = synth_report.synthesis_summary(synthesis, paths, explain=explain)
        if ends is not None:
            root, size = synthesis.problem.collective.root, document["size"]
            question = synthesis.topology, root, ends, size, CostOptions.of(request), request.targets[0]
            document["delays"] = delays.at_delays(paths[0], *question)
        lines = synth_report.synthesis_report(document)
    answer(document, lines, as_json=as_json)


@contextmanager
def logging_to(log: Path | None) -> Iterator[CegisTrace]:
    """Yield a trace; its entries are written to ``log`` after the work inside, after Ctrl-C and failures too. If
    the work failed before CEGIS ran nothing is written."""
    from hetesynth.files.atomic import write_atomically

    trace, done = CegisTrace(), False
    try:
        yield trace
        done = True
    finally:
        if log is not None and (done or trace.entries):
            text = "".join(json.dumps(entry.plain(), allow_nan=False) + "\n" for entry in trace.entries)
            write_atomically(log, text.encode("ascii"))
    if log is not None and not trace.entries:
        warned(f"{log} is empty: CEGIS did not run")
