"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast, get_args

import click

from hetesynth import api
from hetesynth.engine.request import FirstCandidate
from hetesynth.errors import did_you_mean
from hetesynth.model.collective import COLLECTIVE_NAMES, collective_name
from hetesynth.model.target import TARGETS
from hetesynth.search.chunking import ROUNDINGS
from hetesynth.search.registry import ROWS, names

ALL_ROOTS = -1  # what ``--root all`` becomes

F = TypeVar("F", bound=Callable[..., Any])

TOPOLOGY = click.Path(path_type=Path)


def search_options(purpose: str, same: str) -> Callable[[F], F]:
    """``--effort``, ``--time-budget`` for ``purpose``, and ``--seed``, which gives the ``same``."""
    options = [
        click.option(
            "--effort",
            type=click.FloatRange(0, min_open=True),
            default=1.0,
            show_default=True,
            metavar="E",
            callback=_number,
            help="How much is tried, counted in transfers: the same on every machine.",
        ),
        click.option(
            "--time-budget",
            type=TimeBudget(),
            metavar="TIME",
            help=f"{purpose} 500ms, 30s, 2m; a number alone is seconds [default: none].",
        ),
        click.option(
            "--seed", type=click.IntRange(0), default=0, show_default=True, help=f"Same seed, same {same}."
        ),
    ]
    return _together(options)


def targets_option(purpose: str, name: str = "targets") -> Callable[[F], F]:
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
    """``--sizes`` or ``--size``: one, a list or a range of them."""
    text = f"{what}: 64MB, 64M (MiB), a list (1MB,64MB), or a range in steps of {factor} (1KB..4GB)."
    return click.option(name, "sizes", metavar="SIZES", default="1KB..4GB", show_default=True, help=text)


def _together(options: Sequence[Callable[[F], F]]) -> Callable[[F], F]:
    """One decorator of several."""

    def decorated(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorated


def _number(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if not math.isfinite(value):
        raise click.BadParameter("must be a finite number")
    return value


class TimeBudget(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Seconds, as a number or with a unit."""

    name = "time"
    units: ClassVar = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """click.BadParameter for what is no time, or not more than none."""
        text = str(value).strip()
        number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = text[len(number) :] or "s"
        try:
            seconds = float(number) * self.units[unit]
        except (ValueError, KeyError):
            self.fail(f"{text!r} is no time: a number with {', '.join(self.units)}, or of seconds", param, ctx)
        if not 0 < seconds <= 3600 * 10_000:  # timers of the system end at some number
            self.fail(f"{text!r} must be more than 0 and at most 10000h", param, ctx)
        return seconds


class NewPath(click.Path):
    """A path to write to."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """click.BadParameter for what cannot be a name."""
        if not str(value):
            self.fail("a name has at least one character", param, ctx)
        return super().convert(value, param, ctx)


class Named(NewPath):
    """A file to write whose extension, if it has one, says what it is."""

    def __init__(self, *extensions: str) -> None:
        super().__init__(path_type=Path)
        self._extensions = extensions

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """click.BadParameter for another extension."""
        if Path(value).suffix.lower() not in ("", *self._extensions):
            self.fail(f"{str(value)!r} does not end with {' or '.join(self._extensions)}", param, ctx)
        return super().convert(value, param, ctx)


class FirstCandidateOrFile(NewPath):
    """What CEGIS begins with: a name, else a path."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name itself where it is one; click.BadParameter for what can be neither."""
        return value if value in get_args(FirstCandidate) else super().convert(value, param, ctx)


class _EveryRoot(click.IntRange):
    """A rank, or ``all`` (ALL_ROOTS)."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Of ``all`` ALL_ROOTS, which is no rank."""
        return ALL_ROOTS if value in ("all", ALL_ROOTS) else int(super().convert(value, param, ctx))


class _Collective(click.Choice):  # type: ignore[type-arg,unused-ignore]
    """A collective, as people write it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Its own name; click.BadParameter for what is none."""
        name = collective_name(str(value))
        if name is None:
            near = did_you_mean(str(value).lower(), COLLECTIVE_NAMES)
            self.fail(f"{str(value)[:80]!r} is no collective: {near}", param, ctx)
        return name


report_options = _together(
    [
        click.option(
            "--report",
            "page",
            type=Named(".html", ".htm", ".svg"),
            metavar="FILE.html|FILE.svg",
            help="Also write a page: the cluster step by step, time charts, utilization, baselines, proof. "
            "With .svg a picture of the steps.",
        ),
        click.option(
            "--trace",
            type=Named(".json", ".trace"),
            metavar="FILE.json",
            help="Also write the simulated run as a Chrome trace, which Perfetto opens.",
        ),
    ]
)


def _problem(chunks_default: str = "1", *, every_root: bool = False) -> Callable[[F], F]:
    """The options that define a problem: collective, chunks, root (or all roots), chunking."""
    root = click.option("--root", type=click.IntRange(0), help="Root of a rooted collective [default: 0].")
    if every_root:
        root = click.option(
            "--root",
            type=_EveryRoot(0),
            metavar="RANK|all",
            help="Root of a rooted collective, or all: files for each [default: 0].",
        )
    return _together(
        [
            click.option(
                "--coll",
                "name",
                type=_Collective(COLLECTIVE_NAMES),
                required=True,
                help="The collective; all_gather and AllGather are read too.",
            ),
            click.option(
                "--chunks",
                type=click.IntRange(1, 4096),
                help=f"Chunks per rank [default: {chunks_default}].",
            ),
            root,
            click.option(
                "--chunk-size", metavar="SIZE", help="For example 4MB [default: the topology's, else 1 MB]."
            ),
            click.option(
                "--tau-ref",
                default="slowest",
                metavar="slowest|KIND|TIME",
                show_default=True,
                help="Reference step of eq. 1: the slowest link type, a kind of link, or a time (20us).",
            ),
            click.option(
                "--rounding",
                type=click.Choice(ROUNDINGS),
                default="ceil",
                show_default=True,
                help="How capacities become chunks per step (eq. 1).",
            ),
            click.option(
                "--exclusion",
                type=click.Choice(["auto", "step", "program"]),
                default="auto",
                show_default=True,
                help="Where two additions to one chunk exclude each other (eq. 8): auto is step for allreduce.",
            ),
        ]
    )


problem_options = _problem()
every_root_options = _problem(every_root=True)
sized_problem_options = _problem("chosen for each size")


class Output(NewPath):
    """A path to write to; one that ends with a slash is a folder, and must be there."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """HetesynthError HS511 for a folder that is not there."""
        if str(value).endswith(os.sep):
            api.check_folder(Path(value) / "name")
        return super().convert(value, param, ctx)


_LOSSES = [
    click.option(
        "--without",
        multiple=True,
        metavar="PARTS|A<->B",
        help="What failed, repeatable: GPUs, NICs, switches, servers (b.gpu3, a), or what joins two parts "
        "(a.gpu0<->a.gpu1).",
    ),
    click.option(
        "--degrade",
        multiple=True,
        metavar="PARTS|A<->B=RATE|PERCENT",
        help="What became slow, repeatable: a.nic*=18Gbps, a.gpu0<->a.gpu1=50%.",
    ),
]


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

        return _together(_LOSSES)(cast(F, command))

    return wrapped


topology_losses = topology_losses_of("topology")

size_option = click.option(
    "--size",
    metavar="SIZE",
    help="Size of the collective's buffer, such as 64MB: chunks, capacities and strategy by predicted time. "
    "M alone is MiB, as in nccl-tests.",
)
rings_option = click.option(
    "--rings",
    "rings",
    multiple=True,
    metavar="[INSTANCE=]FILE.xml",
    help="For strategy ring: the order of GPUs in NCCL's own dump of its graph (NCCL_GRAPH_DUMP_FILE).",
)
schedule_only_option = click.option(
    "--schedule-only", is_flag=True, help="Write schedules as JSON and no programs."
)
single_root_option = click.option(
    "--single-root",
    is_flag=True,
    help="Promise that all calls have this root; demanded for runtimes that run the file for every root.",
)
root_option = click.option("--root", type=click.IntRange(0), help="Root, where the file does not say.")
runtime_costs_option = click.option(
    "--runtime-costs/--no-runtime-costs",
    default=True,
    show_default=True,
    help="Count the start of a kernel and the copy rate of thread blocks in predicted times.",
)
first_candidate_option = click.option(
    "--from",
    "first_candidate",
    type=FirstCandidateOrFile(path_type=Path),
    metavar="greedy|flood|nothing|FILE",
    help="What strategy cegis begins with and repairs: one pass of greedy, a flood that ignores capacities, "
    "nothing, or a schedule JSON, valid or not [default: greedy].",
)
log_option = click.option(
    "--log",
    type=Named(".jsonl", ".json"),
    metavar="FILE.jsonl",
    help="Also write what CEGIS did: a JSON object a line for each iteration.",
)
explain_option = click.option(
    "--explain",
    is_flag=True,
    help="Also say what was chosen, what it beat and what more effort would try; then each rule and candidate: "
    "tried with what result, or skipped and why.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
