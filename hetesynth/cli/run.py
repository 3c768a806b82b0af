"""``hetesynth run``: execute a program with real bytes, one process per rank.

Every rank is this command: what it imports is paid for as often as there are ranks.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from hetesynth.cli.terminal import answer
from hetesynth.errors import HetesynthError
from hetesynth.execute.backends import BACKENDS


def _bytes(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Return the bytes that ``4096`` or ``4MB`` says; None without ``text``."""
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 20:
        size = int(text)
    else:
        from hetesynth.topology.language.units import parse_quantity

        size = int(parse_quantity(text, "size", parameter.opts[0]))
    if size < 1:
        raise click.BadParameter("must be at least one byte")
    return size


_SIZE = "Of the larger buffer, 1536 or 3MB [default: 4 KiB a chunk]."
_PASS = "What one message carries; larger chunks take several loops [default: the protocol's]."
_SLOTS = "Messages a connection holds [default: the protocol's]."
_DTYPES = ["float32", "int32", "bfloat16", "float16"]
_BACKEND = (
    "A process per rank; all in this process, in turn; a thread per thread block; PyTorch's gloo; JAX "
    "[default: mpi, of a table inprocess]."
)
_TIMEOUT = "Without progress on any rank, after which it is a stall."


@click.command(name="run")
@click.argument("program", type=click.Path(path_type=Path), metavar="FILE.xml|FILE.json")
@click.option("--op", type=click.Choice(["sum", "max", "min"]), default="sum", help="Reduction.")
@click.option("--dtype", type=click.Choice(_DTYPES), default="float32", help="Elements.")
@click.option("--size", callback=_bytes, metavar="SIZE", help=_SIZE)
@click.option("--pass-size", callback=_bytes, metavar="SIZE", help=_PASS)
@click.option("--slots", type=click.IntRange(1, 64), help=_SLOTS)
@click.option("--root", type=click.IntRange(0), help="Root, where the file does not say.")
@click.option("--repeat", type=click.IntRange(1, 10000), default=1, help="Runs, each checked.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Of the data.")
@click.option("--timeout", type=click.FloatRange(0.1, 86400), default=20.0, metavar="SECONDS", help=_TIMEOUT)
@click.option("--unchecked", is_flag=True, help="Run what the judge refuses too.")
@click.option("--backend", type=click.Choice(list(BACKENDS)), help=_BACKEND)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    program: Path,
    op: str,
    dtype: str,
    pass_size: int | None,
    unchecked: bool,
    backend: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Execute PROGRAM with real data, and check every byte.

    Starts a process per rank with mpiexec on this machine. Under an MPI launcher (mpiexec -n 64 hetesynth run
    FILE) it is one of the ranks, on however many machines. Exits 1 on wrong bytes, a stall or a broken program.
    """
    from hetesynth.engine.run import RunRequest, run_file
    from hetesynth.execute.job import RunOptions

    request = RunRequest(
        program,
        RunOptions(reduction=op, dtype=dtype, message_bytes=pass_size, **options),  # type: ignore[arg-type]
        unchecked,
        backend,
    )
    try:
        report = run_file(request)
    except HetesynthError as error:
        if error.code == "HS800":  # rank 0 says it
            return error.exit_code
        raise
    if report is None:
        return 0
    plain = {**dataclasses.asdict(report), "ok": report.correct}
    for one in plain["runs"]:
        one["algorithm_bandwidth_GB_per_s"] = report.size / one["seconds"] / 1e9 if one["seconds"] else 0.0
    answer(plain, _lines(plain), as_json=as_json)
    return int(not report.correct)


def _lines(report: dict[str, Any]) -> Iterator[str]:
    reduction = f" {report['reduction']}" if report["reduction"] else ""
    root = f" root {report['root']}" if report["root"] is not None else ""
    loops = f", {report['passes']} loops" if report["passes"] > 1 else ""
    where = BACKENDS[report["backend"]].words
    data = f"{report['size']} bytes of {report['dtype']}{reduction}, chunks of {report['chunk']}{loops}"
    yield f"{report['collective']}{root} on {report['ranks']} ranks {where}: {data}"
    for run in report["runs"]:
        name = "in place" if run["in_place"] else "out of place"
        if run["ending"] != "done":
            yield f"  {name}: {'stalled' if run['ending'] == 'stall' else 'broken'}"
            yield from (f"    {text}" for text in run["diagnosis"])
            continue
        took = f"{run['seconds'] * 1e3:.2f} ms, {run['algorithm_bandwidth_GB_per_s']:.3g} GB/s"
        yield f"  {name}: {run['wrong']} of {run['checked']} bytes wrong, {took}"
        for w in run["first"]:
            place = f"rank {w['rank']} {w['buffer']} chunk {w['chunk']} byte {w['offset']}"
            yield f"    {place}: {w['found']} instead of {w['expected']}"
    yield f"{report['file']}: {'every byte is right' if report['ok'] else 'not correct'}"
