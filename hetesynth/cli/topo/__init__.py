"""``hetesynth topo``: a topology file, looked at, compared and converted."""

from __future__ import annotations

import click

from hetesynth.cli.groups import CommandTable

SUBCOMMANDS = {
    "show": "show",
    "ranks": "ranks",
    "library": "library",
    "diff": "diff",
    "calibrate": "calibrate",
    "convert": "files:convert",
    "fmt": "files:fmt",
    "lint": "lint",
    "import": "import_",
    "detect": "import_:detect",
    "export": "files:export",
}


@click.group(
    name="topo",
    cls=CommandTable,
    table=SUBCOMMANDS,
    package=__name__,
    short_help="Look at a topology, compare two.",
)
def command() -> None:
    """Look at a topology, compare two."""
