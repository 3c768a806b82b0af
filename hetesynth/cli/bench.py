"""``hetesynth bench``: run the benchmark and write its page."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import click

from hetesynth.cli.options import NewPath, json_option
from hetesynth.cli.terminal import show
from hetesynth.errors import HetesynthError

Progress = Callable[[int, int, str], None]
ROOT = Path(__file__).resolve().parents[2]


@click.command(name="bench", short_help="Run the benchmark and write its page.")
@click.option("--quick", is_flag=True, help="A selection that ends within two minutes; prints the page.")
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
@json_option
def command(
    quick: bool, patterns: tuple[str, ...], write: bool, output: Path | None, examples: Path | None, times: bool,
    as_json: bool,
) -> int:  # fmt: skip
    """Run every case of the benchmark, each in its own process, and write docs/benchmarks.md.

    A case's name is TABLE: CLUSTER COLLECTIVE c=CHUNKS. With --quick or --only the page is printed, and written
    only with --write or -o. Ctrl-C keeps the rows so far and marks the page incomplete. Exits 0 when every case
    ran, whether or not it met its goal; 1 when one failed; 3 when the run was cut short.
    """
    from hetesynth.bench.cases import chosen
    from hetesynth.bench.page import page, plain
    from hetesynth.bench.run import QUICK_SECONDS, Runner
    from hetesynth.files.atomic import write_atomically

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
    if target is not None:
        write_atomically(target, text.encode())
    if as_json:
        show(json.dumps(plain(report), indent=2))
    else:
        show(text if target is None else f"wrote {target}")
    if not report.complete:
        return 3
    return int(any(row.status == "failed" for row in report.rows))


def _times(patterns: tuple[str, ...], target: Path | None, examples: Path | None) -> int:
    """The tables of predicted time; 1 when a command failed."""
    from hetesynth.bench.time_page import time_page
    from hetesynth.bench.time_tables import ring_rows, speed_rows, time_rows
    from hetesynth.files.atomic import write_atomically

    folder = examples or ROOT / "examples"
    with _watching(quiet=False) as progress, _interruptible():
        rows = time_rows(folder, patterns, lambda name: progress(0, 0, name))
        rings = ring_rows(folder, patterns, lambda name: progress(0, 0, name))
        speeds = speed_rows(folder, patterns, lambda name: progress(0, 0, name))
    text = time_page(rows, rings, speeds)
    if target is not None:
        write_atomically(target, text.encode())
    show(text if target is None else f"wrote {target}")
    return int(any([*(r.error for r in rows), *(r.error for r in rings), *(r.error for r in speeds)]))


def _target(output: Path | None, *, write: bool, page: str = "benchmarks.md") -> Path | None:
    """Where the page goes, checked before the run rather than after it."""
    if not write:
        return None
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
