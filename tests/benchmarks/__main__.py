"""``PYTHONPATH=tests python -m benchmarks``: run a benchmark and write its page."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn, TypeVar

import click

from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import check_writable, write_atomically

ROOT = Path(__file__).resolve().parents[2]
Case = TypeVar("Case")
PAGES = {"steps": "benchmarks.md", "time": "benchmarks_time.md", "heteccl": "hetecclpaper.md"}


@click.command()
@click.argument("table", type=click.Choice(list(PAGES)), default="steps")
@click.option("--quick", is_flag=True, help="A selection of `steps` within two minutes of computing.")
@click.option(
    "--only", "patterns", multiple=True, metavar="PATTERN", help="Only cases with PATTERN in their name."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE.md", help="Where the page goes.")
@click.option("--examples", type=click.Path(path_type=Path), default=ROOT / "examples", help="Their folder.")
@click.option(
    "--journal", type=click.Path(path_type=Path), metavar="FILE.json",
    help="Where cases of `heteccl` are kept; a run goes on from them.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the figures instead of the page.")
def command(
    table: str, quick: bool, patterns: tuple[str, ...], output: Path | None, examples: Path, journal: Path | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Measure a TABLE: ``steps`` (docs/benchmarks.md), ``time`` or ``heteccl``, each case in its own process.

    A selection (--quick, --only) is printed, the whole written. Ctrl-C keeps the rows so far and marks the page
    incomplete. Exits 1 when a case failed, 3 when the run was cut short.
    """
    whole = not quick and not patterns
    target = output or (ROOT / "docs" / PAGES[table] if whole else None)
    if target is not None:
        check_writable(target.parent)
    signal.signal(signal.SIGTERM, _interrupt)
    text, data, figures, code = _measured(table, examples, patterns, journal, quick=quick)
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


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _progress(done: int, count: int, name: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"{done} of {count} done; {name}", err=True)


def _measured(
    table: str, examples: Path, patterns: tuple[str, ...], journal: Path | None, *, quick: bool
) -> tuple[str, dict[str, str], object, int]:
    """The page, its tables for the folder data beside it, its figures, the exit code."""
    if table == "time":
        from benchmarks.time_page import time_page, time_table
        from benchmarks.time_tables import speed_rows, time_rows

        rows = time_rows(examples, patterns, lambda name: _progress(0, 0, name))
        speeds = speed_rows(examples, patterns, lambda name: _progress(0, 0, name))
        errors = [*(row.error for row in rows), *(row.error for row in speeds)]
        data = {"benchmarks_time.csv": time_table(rows)}
        return time_page(rows, speeds), data, [asdict(row) for row in [*rows, *speeds]], int(any(errors))
    if table == "heteccl":
        from benchmarks.heteccl import cases, page
        from benchmarks.heteccl.run import Entries, Journal, measured

        selected = cases.chosen(patterns)
        entries: Entries = {}
        with suppress(KeyboardInterrupt):
            for entry in measured(_some(selected), examples, Journal(journal), _progress):
                entries[entry.name] = entry
        failed = 3 if len(entries) < len(selected) else int(any(entry.error for entry in entries.values()))
        return page.page(entries), page.data(entries), [asdict(entry) for entry in entries.values()], failed
    from benchmarks.cases import chosen
    from benchmarks.page import page as steps_page
    from benchmarks.page import plain
    from benchmarks.page import table as steps_table
    from benchmarks.run import QUICK_SECONDS, Runner

    runner = Runner(examples, progress=_progress, deadline=QUICK_SECONDS if quick else None)
    report = runner(_some(chosen(quick=quick, patterns=patterns)), whole=not quick and not patterns)
    failed = 3 if not report.complete else int(any(row.status == "failed" for row in report.rows))
    return steps_page(report), {"benchmarks.csv": steps_table(report.rows)}, plain(report), failed


def _some(cases: list[Case]) -> list[Case]:
    if not cases:
        raise click.UsageError("no case has such a name")
    return cases


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "tests")))  # of the processes of cases
    sys.exit(run(sys.argv[1:]))
