"""``hetesynth bench``: run the benchmark and write its page."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import click

from hetesynth.cli.options import NewPath, json_option
from hetesynth.cli.terminal import show
from hetesynth.errors import HetesynthError

Progress = Callable[[int, int, str], None]
ROOT = Path(__file__).resolve().parents[2]


@click.command(name="bench", short_help="Run the benchmark and write its page.")
@click.option(
    "--quick", is_flag=True, help="A selection that ends within two minutes of computing; prints the page."
)
@click.option(
    "--only", "patterns", multiple=True, metavar="PATTERN", help="Only cases with PATTERN in their name."
)
@click.option("--write", is_flag=True, help="Write the page of a selection too, instead of printing it.")
@click.option(
    "-o", "--output", type=NewPath(path_type=Path), metavar="FILE.md",
    help="The page [default: docs/benchmarks.md of the checkout].",
)  # fmt: skip
@click.option(
    "--examples", type=click.Path(path_type=Path), help="Folder of the clusters [default: the checkout's]."
)
@click.option(
    "--time", "times", is_flag=True,
    help="The tables of predicted time instead (docs/benchmarks_time.md); with --only a selection, printed.",
)  # fmt: skip
@click.option(
    "--heteccl", is_flag=True,
    help="The evaluation of the HeteCCL paper beside ours instead (docs/hetecclpaper.md); --only selects.",
)  # fmt: skip
@click.option(
    "--journal", type=NewPath(path_type=Path), metavar="FILE.json",
    help="With --heteccl: where cases are kept; a run goes on from them. A new file for new code.",
)  # fmt: skip
@json_option
def command(
    quick: bool, patterns: tuple[str, ...], write: bool, output: Path | None, examples: Path | None, times: bool,
    heteccl: bool, journal: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Run every case of the benchmark, each in its own process, and write docs/benchmarks.md.

    A case's name is TABLE: CLUSTER COLLECTIVE c=CHUNKS. With --quick or --only the page is printed, and written
    only with --write or -o. Ctrl-C keeps the rows so far and marks the page incomplete. Exits 0 when every case
    ran, whether or not it met its goal; 1 when one failed; 3 when the run was cut short. With --heteccl a
    name begins with the table or figure of the paper; all take about ten minutes, --journal lets them be stopped.
    """
    from hetesynth.bench.cases import chosen
    from hetesynth.bench.page import page, plain
    from hetesynth.bench.run import QUICK_SECONDS, Runner

    if heteccl:
        if quick or times:
            raise click.UsageError("--heteccl takes --only, --write, -o, --examples, --journal and --json")
        target = _target(output, write=not patterns or write or output is not None, page="hetecclpaper.md")
        return _heteccl(patterns, target, examples, journal, as_json=as_json)
    if journal is not None:
        raise click.UsageError("--journal is for --heteccl")
    if times:
        return _times(patterns, _target(output, write=not patterns or write, page="benchmarks_time.md"), examples)
    cases = chosen(quick=quick, patterns=patterns)
    if not cases:
        raise HetesynthError(
            "no case has such a name", code="HS902", help="try --only paper, --only h20_64 or --only broadcast"
        )
    whole = not quick and not patterns
    target = _target(output, write=write or output is not None or whole)
    with _watching(quiet=as_json) as progress, _interruptible():
        runner = Runner(
            examples or ROOT / "examples", progress=progress, deadline=QUICK_SECONDS if quick else None
        )
        report = runner(cases, whole=whole)
    text = page(report)
    _publish(text, target, plain(report) if as_json else None)
    if not report.complete:
        return 3
    return int(any(row.status == "failed" for row in report.rows))


def _heteccl(
    patterns: tuple[str, ...], target: Path | None, examples: Path | None, journal: Path | None, *, as_json: bool
) -> int:
    """The evaluation of the paper; 1 when a case failed, 3 when the run was cut short."""
    from dataclasses import asdict

    from hetesynth.bench.heteccl.cases import chosen
    from hetesynth.bench.heteccl.page import page
    from hetesynth.bench.heteccl.run import Entries, Journal, measured

    selected = chosen(patterns)
    if not selected:
        raise HetesynthError(
            "no case has such a name", code="HS902", help="try --only 'Table 1', --only eq. or --only v100_fail"
        )
    entries: Entries = {}
    with _watching(quiet=as_json) as progress, _interruptible(), suppress(KeyboardInterrupt):
        for entry in measured(selected, examples or ROOT / "examples", Journal(journal), progress):
            entries[entry.name] = entry
    text = page(entries)
    _publish(text, target, [asdict(entry) for entry in entries.values()] if as_json else None)
    if len(entries) < len(selected):
        return 3
    return int(any(entry.error for entry in entries.values()))


def _times(patterns: tuple[str, ...], target: Path | None, examples: Path | None) -> int:
    """The tables of predicted time; 1 when a command failed."""
    from hetesynth.bench.time_page import time_page
    from hetesynth.bench.time_tables import speed_rows, time_rows

    folder = examples or ROOT / "examples"
    with _watching(quiet=False) as progress, _interruptible():
        rows = time_rows(folder, patterns, lambda name: progress(0, 0, name))
        speeds = speed_rows(folder, patterns, lambda name: progress(0, 0, name))
    text = time_page(rows, speeds)
    _publish(text, target, None)
    return int(any([*(r.error for r in rows), *(r.error for r in speeds)]))


def _publish(page: str, target: Path | None, values: object) -> None:
    """Write ``page`` to the target, if any, and print ``values`` as JSON; None: the page, or where it is."""
    from hetesynth.files.atomic import write_atomically

    if target is not None:
        write_atomically(target, page.encode())
    if values is not None:
        show(json.dumps(values, indent=2))
    else:
        show(page if target is None else f"wrote {target}")


def _target(output: Path | None, *, write: bool, page: str = "benchmarks.md") -> Path | None:
    """Where the page goes, checked before the run rather than after it."""
    if not write:
        return None
    if output is None and not (ROOT / "docs").is_dir():
        raise HetesynthError(
            "an installed hetesynth has no docs folder for the page, and brings no examples", code="HS903",
            help="run it in a checkout (python -m hetesynth bench), or give -o FILE.md and --examples DIR",
        )  # fmt: skip
    target = output or ROOT / "docs" / page
    if not target.parent.is_dir():
        raise HetesynthError(
            f"{target.parent} is not a directory", code="HS903", help="choose another file with -o"
        )
    from hetesynth.files.atomic import check_writable

    check_writable(target.parent)
    return target


@contextmanager
def _interruptible() -> Iterator[None]:
    """Being asked to end is the same as Ctrl-C."""

    def stop(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _watching(*, quiet: bool) -> Iterator[Progress]:
    """Progress on a terminal: cases done, the case being run."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, count, name: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda done, count, name: status.update(f"{done} of {count} done; {name} (Ctrl-C keeps them)")
