"""``hetesynth verify``: judge any MSCCL XML."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from hetesynth.cli.options import TOPOLOGY, json_option

SHOWN = 50


@click.command(name="verify", short_help="Execute and judge an MSCCL XML file.")
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--topo", "topology", type=TOPOLOGY, help="Also check every connection against this topology.")
@click.option("--root", type=click.IntRange(0), help="Root, where the file does not say.")
@click.option("--portable", is_flag=True, help="Findings that only some runtimes refuse count as well.")
@json_option
def command(program: Path, topology: Path | None, root: int | None, portable: bool, as_json: bool) -> int:
    """Execute PROGRAM symbolically and report what is wrong with it. Exits 0 when nothing is, 1 otherwise.

    Checks connections, dependences, deadlock with the FIFO slots a runtime has, races, ranges, and that every
    rank ends with the right data, in place and out of place as the file claims. What only breaks the limits that
    all runtimes share is listed apart and does not fail the file unless --portable is given.
    """
    from hetesynth.pipeline import judging

    fatal, unportable = judging.verify_program(program, topology, root)
    bad = bool(fatal) or (portable and bool(unportable))
    if as_json:
        click.echo(
            json.dumps(
                {
                    "file": str(program),
                    "ok": not bad,
                    "violations": [_plain(v) for v in fatal],
                    "portability": [_plain(v) for v in unportable],
                },
                indent=2,
            )
        )
        return int(bad)
    for label, findings in (("error", fatal), ("portability", unportable)):
        for finding in findings[:SHOWN]:
            line = f":{finding.line}" if finding.line is not None else ""
            click.echo(f"{program}{line}: {label}: {finding.kind}: {finding.message}")
        if len(findings) > SHOWN:
            click.echo(f"  and {len(findings) - SHOWN} more of kind {label}")
    click.echo(_verdict(program, fatal_count=len(fatal), other_count=len(unportable)))
    return int(bad)


def _plain(violation: object) -> dict[str, object]:
    fields = dataclasses.asdict(violation)  # type: ignore[call-overload]
    return {k: v for k, v in fields.items() if v is not None}


def _verdict(program: Path, *, fatal_count: int, other_count: int) -> str:
    portable = "" if not other_count else f"; {other_count} findings for runtimes with stricter limits"
    if fatal_count:
        return f"{program}: {fatal_count} violations{portable}"
    return f"{program}: ok{portable}"
