"""Options that several commands share, and how their values are read."""

import functools
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast, get_args

import click

from hetesynth.engine.places import check_folder
from hetesynth.engine.request import FirstCandidate
from hetesynth.errors import did_you_mean
from hetesynth.model.collective import COLLECTIVE_NAMES, collective_name
from hetesynth.model.deadline import MOST_SECONDS
from hetesynth.model.target import TARGETS
from hetesynth.search.chunking import ROUNDINGS
from hetesynth.search.registry import ROWS, names

ALL_ROOTS = -1  # what ``--root all`` becomes

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)


class NewPath(click.Path):
    """A path to write to, whose extension, if it has one, is one of ``extensions`` where there are any."""

    def __init__(self, *extensions: str) -> None:
        super().__init__(path_type=Path)
        self._extensions = extensions

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises click.BadParameter for what cannot be a name, or has another extension."""
        if not str(value):
            self.fail("a name has at least one character", param, ctx)
        if self._extensions and Path(value).suffix.lower() not in ("", *self._extensions):
            self.fail(f"{str(value)!r} does not end with {' or '.join(self._extensions)}", param, ctx)
        return super().convert(value, param, ctx)


class Output(NewPath):
    """A path to write to; one that ends with a slash is a folder, and must be there."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises HetesynthError HS511 for a folder that is not there."""
        if str(value).endswith(os.sep):
            check_folder(Path(value) / "name")
        return super().convert(value, param, ctx)


class TimeBudget(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Seconds, as a number or with a unit."""

    name = "time"
    units: ClassVar = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds. Raises click.BadParameter for what is no time above 0 up to ``MOST_SECONDS``."""
        text = str(value).strip()
        number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
        try:
            seconds = float(number) * self.units[text[len(number) :] or "s"]
        except (ValueError, KeyError):
            seconds = math.nan
        if not 0 < seconds <= MOST_SECONDS:
            self.fail(f"{text!r} is no time up to 10000h: a number with {', '.join(self.units)}", param, ctx)
        return seconds


class _EveryRoot(click.IntRange):
    """A rank, or ``all`` (ALL_ROOTS)."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the rank; ALL_ROOTS, which is no rank, for ``all``."""
        return ALL_ROOTS if value in ("all", ALL_ROOTS) else int(super().convert(value, param, ctx))


class _Collective(click.Choice):  # type: ignore[type-arg,unused-ignore]
    """A collective, as people write it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the collective's own name. Raises click.BadParameter for what is no collective."""
        name = collective_name(str(value))
        if name is None:
            near = did_you_mean(str(value).lower(), COLLECTIVE_NAMES)
            self.fail(f"{str(value)[:80]!r} is no collective: {near}", param, ctx)
        return name


def _number(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if not math.isfinite(value):
        raise click.BadParameter("must be a finite number")
    return value


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator that applies all ``options``."""

    def decorated(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorated


def search_options(purpose: str, same: str) -> Callable[[F], F]:
    """``--effort``, ``--time-budget`` for ``purpose``, and ``--seed``, which gives the ``same``."""
    effort = "How much is tried, counted in transfers: the same on every machine."
    budget = f"{purpose} 500ms, 30s, 2m; a number alone is seconds [default: none]."
    positive = click.FloatRange(0, min_open=True)
    return together(
        click.option("--effort", type=positive, default=1.0, metavar="E", callback=_number, help=effort),
        click.option("--time-budget", type=TimeBudget(), metavar="TIME", help=budget),
        click.option("--seed", type=click.IntRange(0), default=0, help=f"Same seed, same {same}."),
    )


def targets_option(purpose: str, name: str = "target") -> Callable[[F], F]:
    """``--target``, repeatable, as ``name``; ``purpose`` with the names of all targets as its help."""
    text = f"{purpose}, repeatable: {', '.join(TARGETS)}."
    return click.option("--target", name, multiple=True, metavar="NAME[,NAME]", help=text)


def strategy_help() -> str:
    """The names of all strategies, those that need ``--size`` last."""
    by_steps = [row for row in ROWS if row.objective == "steps"]
    searches = ", ".join(row.name for row in by_steps if not row.library)
    libraries = ", ".join(row.name for row in by_steps if row.library)
    timed = ", ".join(names("time"))
    return f"{searches}; baselines: {libraries}; with --size also {timed}. See hetesynth strategies."


def sizes_option(name: str, what: str, factor: int) -> Callable[[F], F]:
    """Return the option ``--sizes`` or ``--size``: one size, a list or a range."""
    text = f"{what}: 64MB, 64M (MiB), a list (1MB,64MB), or a range in steps of {factor} (1KB..4GB)."
    return click.option(name, "sizes", metavar="SIZES", default="1KB..4GB", help=text)


def output_option(metavar: str, default: str) -> Callable[[F], F]:
    """``-o``: the common part of the names of several files."""
    text = f"Where to write; NAME.xml, NAME.schedule.json and so on [default: {default} here]."
    return click.option("-o", "--output", type=Output(), metavar=metavar, help=text)


_PAGE = (
    "Also write a page: the cluster step by step, time charts, utilization, baselines, proof. With .svg a picture "
    "of the steps."
)
_TRACE = "Also write the simulated run as a Chrome trace, which Perfetto opens."
report_options = together(
    click.option(
        "--report", "page", type=NewPath(".html", ".htm", ".svg"), metavar="FILE.html|FILE.svg", help=_PAGE
    ),
    click.option("--trace", type=NewPath(".json", ".trace"), metavar="FILE.json", help=_TRACE),
)

_REFERENCE = "Reference step of eq. 1: the slowest link type, a kind of link, or a time (20us)."
_ROUNDING = "How capacities become chunks per step (eq. 1)."
chunking_options = together(
    click.option("--chunk-size", metavar="SIZE", help="For example 4MB [default: the topology's, else 1 MB]."),
    click.option("--tau-ref", default="slowest", metavar="slowest|KIND|TIME", help=_REFERENCE),
    click.option("--rounding", type=click.Choice(ROUNDINGS), default="ceil", help=_ROUNDING),
)


def _problem(chunks_default: str = "1", *, every_root: bool = False) -> Callable[[F], F]:
    """The options that define a problem: collective, chunks, root (or all roots), chunking."""
    root = click.option("--root", type=click.IntRange(0), help="Root of a rooted collective [default: 0].")
    if every_root:
        text = "Root of a rooted collective, or all: files for each [default: 0]."
        root = click.option("--root", type=_EveryRoot(0), metavar="RANK|all", help=text)
    collective = "The collective; all_gather and AllGather are read too."
    chunks = f"Chunks per rank [default: {chunks_default}]."
    exclusion = "Where two additions to one chunk exclude each other (eq. 8): auto is step for allreduce."
    return together(
        click.option("--coll", "name", type=_Collective(COLLECTIVE_NAMES), required=True, help=collective),
        click.option("--chunks", type=click.IntRange(1, 4096), help=chunks),
        root,
        chunking_options,
        click.option(
            "--exclusion", type=click.Choice(["auto", "step", "program"]), default="auto", help=exclusion
        ),
    )


problem_options = _problem()
every_root_options = _problem(every_root=True)
sized_problem_options = _problem("chosen for each size")

_WITHOUT = (
    "What failed, repeatable: GPUs, NICs, switches, servers (b.gpu3, a), or what joins two parts "
    "(a.gpu0<->a.gpu1)."
)
_DEGRADE = "What became slow, repeatable: a.nic*=18Gbps, a.gpu0<->a.gpu1=50%."
_LOSSES = together(
    click.option("--without", multiple=True, metavar="PARTS|A<->B", help=_WITHOUT),
    click.option("--degrade", multiple=True, metavar="PARTS|A<->B=RATE|PERCENT", help=_DEGRADE),
)


def topology_losses_of(name: str) -> Callable[[F], F]:
    """``--without`` and ``--degrade``: the file of argument ``name``, or each of its files, has these losses."""

    def wrapped(function: F) -> F:
        @functools.wraps(function)
        def command(*, without: tuple[str, ...], degrade: tuple[str, ...], **options: Any) -> Any:
            if without or degrade:
                from hetesynth.topology.language.overridden import overridden

                files = options[name]
                if files is None:
                    raise click.UsageError("--without and --degrade need --topo")
                if isinstance(files, tuple):
                    options[name] = tuple(overridden(file, without, degrade) for file in files)
                else:
                    options[name] = overridden(files, without, degrade)
            return function(**options)

        return _LOSSES(cast(F, command))

    return wrapped


topology_losses = topology_losses_of("topology")

size_option = click.option(
    "--size",
    metavar="SIZE",
    help="Size of the collective's buffer, such as 64MB: chunks, capacities and strategy by predicted time. "
    "M alone is MiB, as in nccl-tests.",
)
_RINGS = "For strategy ring: the order of GPUs in NCCL's own dump of its graph (NCCL_GRAPH_DUMP_FILE)."
rings_option = click.option("--rings", "rings", multiple=True, metavar="[INSTANCE=]FILE.xml", help=_RINGS)
_ONLY = "Write schedules as JSON and no programs."
schedule_only_option = click.option("--schedule-only", is_flag=True, help=_ONLY)
_ALWAYS = "Write programs for all sizes, those too for which the library is expected to be quicker."
always_option = click.option("--always", is_flag=True, help=_ALWAYS)
_ONE_ROOT = "Promise that all calls have this root; demanded for runtimes that run the file for every root."
single_root_option = click.option("--single-root", is_flag=True, help=_ONE_ROOT)
root_option = click.option("--root", type=click.IntRange(0), help="Root, where the file does not say.")
_COSTS = "Count the start of a kernel and the copy rate of thread blocks in predicted times."
runtime_costs_option = click.option("--runtime-costs/--no-runtime-costs", default=True, help=_COSTS)
first_candidate_option = click.option(
    "--from",
    "first_candidate",
    type=NewPath(),
    callback=lambda _context, _parameter, value: str(value) if str(value) in get_args(FirstCandidate) else value,
    metavar="greedy|flood|nothing|FILE",
    help="What strategy cegis begins with and repairs: one pass of greedy, a flood that ignores capacities, "
    "nothing, or a schedule JSON, valid or not [default: greedy].",
)
_SKETCH = "Search only among what a communication sketch allows: a JSON file of TACCL's (docs/sketches.md)."
sketch_option = click.option("--sketch", type=FILE, metavar="FILE.json", help=_SKETCH)
explain_option = click.option(
    "--explain",
    is_flag=True,
    help="Also say what was chosen, what it beat and what more effort would try; then each rule and candidate: "
    "tried with what result, or skipped and why.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
