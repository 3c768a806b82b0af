"""``PYTHONPATH=tests python -m benchmarks``: run a benchmark and write its page."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import click

from benchmarks.clusters import EXAMPLES, ROOT
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import check_writable, write_atomically

PAGES = {
    "steps": "benchmarks.md",
    "time": "benchmarks_time.md",
    "heteccl": "hetecclpaper.md",
    "torch": "benchmarks_torch.md",
}
Pages = tuple[str, dict[str, str], bool]
"""The page, its tables for the folder data beside it, whether a case failed."""
Case = TypeVar("Case")


@click.command()
@click.argument("table", type=click.Choice(list(PAGES)), default="steps")
@click.option("--only", "patterns", multiple=True, metavar="PATTERN", help="Only cases with it in their name.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE.md", help="Where the page goes.")
def command(table: str, patterns: tuple[str, ...], output: Path | None) -> int:
    """Measure a TABLE: ``steps`` (docs/benchmarks.md), ``time``, ``heteccl``, ``torch``; cases in own processes.

    A selection is printed, the whole written. Exits 1 when a case failed.
    """
    target = output or (None if patterns else ROOT / "docs" / PAGES[table])
    if target is not None:
        check_writable(target.parent)
    text, data, failed = {"steps": _steps, "time": _time, "heteccl": _heteccl, "torch": _torch}[table](patterns)
    if target is None:
        click.echo("\n".join([text, *data.values()]))
    else:
        write_atomically(target, text.encode())
        for name, lines in data.items():
            file = target.parent / "data" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, lines.encode())
    return int(failed)


def run(arguments: list[str]) -> int:
    """Run the command; the exit code."""
    try:
        return int(command.main(arguments, standalone_mode=False) or 0)
    except (click.ClickException, HetesynthError) as error:
        click.echo(f"error: {getattr(error, 'message', error)}", err=True)
        return 2


def _time(patterns: tuple[str, ...]) -> Pages:
    from benchmarks.time_tables import time_page, time_rows, time_table

    rows = time_rows(EXAMPLES, patterns)
    return time_page(rows), {"benchmarks_time.csv": time_table(rows)}, any(row.error for row in rows)


def _heteccl(patterns: tuple[str, ...]) -> Pages:
    from benchmarks.heteccl import cases, page
    from benchmarks.heteccl.run import measured

    entries = {entry.name: entry for entry in measured(_some(cases.chosen(patterns)), EXAMPLES)}
    return page.page(entries), page.data(entries), any(entry.error for entry in entries.values())


def _torch(patterns: tuple[str, ...]) -> Pages:
    from benchmarks.torch_gloo import measured

    text, table = measured(EXAMPLES)
    return text, {"benchmarks_torch.csv": table}, False


def _steps(patterns: tuple[str, ...]) -> Pages:
    from benchmarks import page
    from benchmarks.cases import chosen
    from benchmarks.run import measured

    report = measured(_some(chosen(patterns)), EXAMPLES, whole=not patterns)
    failed = any(row.error for row in report.rows)
    return page.page(report), {"benchmarks.csv": page.table(report.rows)}, failed


def _some(cases: Sequence[Case]) -> Sequence[Case]:
    if not cases:
        raise click.UsageError("no case has such a name")
    return cases


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "tests")))  # of the processes of cases
    sys.exit(run(sys.argv[1:]))
