"""``PYTHONPATH=tests python -m benchmarks``: run a benchmark and write its page."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

import click

from benchmarks.clusters import EXAMPLES, ROOT
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import check_writable, write_atomically

PAGES = {"steps": "benchmarks.md", "time": "benchmarks_time.md", "heteccl": "hetecclpaper.md"}
Pages = tuple[str, dict[str, str], object, int]
"""The page, its tables for the folder data beside it, its figures, the exit code."""


@click.command()
@click.argument("table", type=click.Choice(list(PAGES)), default="steps")
@click.option("--quick", is_flag=True, help="A selection of `steps` within two minutes of computing.")
@click.option(
    "--only", "patterns", multiple=True, metavar="PATTERN", help="Only cases with PATTERN in their name."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE.md", help="Where the page goes.")
@click.option(
    "--journal", type=click.Path(path_type=Path), help="Where cases of `heteccl` are kept, to go on from."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures instead of the page.")
def command(
    table: str, quick: bool, patterns: tuple[str, ...], output: Path | None, journal: Path | None, as_json: bool
) -> int:
    """Measure a TABLE: ``steps`` (docs/benchmarks.md), ``time`` or ``heteccl``, each case in its own process.

    A selection (--quick, --only) is printed, the whole written. Ctrl-C keeps the rows so far and marks the page
    incomplete. Exits 1 when a case failed, 3 when the run was cut short.
    """
    whole = not quick and not patterns
    target = output or (ROOT / "docs" / PAGES[table] if whole else None)
    if target is not None:
        check_writable(target.parent)

    def interrupt(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    if table == "time":
        text, data, figures, code = _time(patterns)
    else:
        text, data, figures, code = (
            _heteccl(patterns, journal) if table == "heteccl" else _steps(patterns, quick=quick)
        )
    if target is not None:
        write_atomically(target, text.encode())
        for name, lines in data.items():
            file = target.parent / "data" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, lines.encode())
    shown = "\n".join([text, *data.values()]) if target is None else f"wrote {target}"
    click.echo(json.dumps(figures, indent=2) if as_json else shown)
    return code


def run(arguments: list[str]) -> int:
    """Run the command; the exit code."""
    try:
        return int(command.main(arguments, standalone_mode=False) or 0)
    except (click.ClickException, HetesynthError) as error:
        click.echo(f"error: {getattr(error, 'message', error)}", err=True)
        return 2


def _progress(done: int, count: int, name: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"{done} of {count} done; {name}", err=True)


def _time(patterns: tuple[str, ...]) -> Pages:
    from benchmarks.time_tables import speed_rows, time_page, time_rows, time_table

    rows = time_rows(EXAMPLES, patterns, lambda name: _progress(0, 0, name))
    speeds = speed_rows(EXAMPLES, patterns, lambda name: _progress(0, 0, name))
    failed = any(row.error for row in [*rows, *speeds])
    data = {"benchmarks_time.csv": time_table(rows)}
    return time_page(rows, speeds), data, [asdict(row) for row in [*rows, *speeds]], int(failed)


def _heteccl(patterns: tuple[str, ...], journal: Path | None) -> Pages:
    from benchmarks.heteccl import cases, page
    from benchmarks.heteccl.run import Entries, measured
    from benchmarks.tables import Journal

    selected = cases.chosen(patterns)
    if not selected:
        raise click.UsageError("no case has such a name")
    entries: Entries = {}
    with suppress(KeyboardInterrupt):
        for entry in measured(selected, EXAMPLES, Journal(journal), _progress):
            entries[entry.name] = entry
    failed = 3 if len(entries) < len(selected) else int(any(entry.error for entry in entries.values()))
    return page.page(entries), page.data(entries), [asdict(entry) for entry in entries.values()], failed


def _steps(patterns: tuple[str, ...], *, quick: bool) -> Pages:
    from benchmarks import page, run
    from benchmarks.cases import chosen

    selected = chosen(quick=quick, patterns=patterns)
    if not selected:
        raise click.UsageError("no case has such a name")
    runner = run.Runner(EXAMPLES, progress=_progress, deadline=run.QUICK_SECONDS if quick else None)
    report = runner(selected, whole=not quick and not patterns)
    failed = 3 if not report.complete else int(any(row.status == "failed" for row in report.rows))
    return page.page(report), {"benchmarks.csv": page.table(report.rows)}, page.plain(report), failed


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "tests")))  # of the processes of cases
    sys.exit(run(sys.argv[1:]))
