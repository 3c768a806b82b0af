"""``hetesynth topo``: a topology file, looked at and compared. A file of this folder is a subcommand."""

from __future__ import annotations

import click

from hetesynth.cli.groups import CommandTable

SUBCOMMANDS = {
    "show": "show",
    "ranks": "ranks",
    "library": "library",
    "diff": "diff",
    "calibrate": "calibrate",
    "convert": "convert",
    "fmt": "fmt",
    "lint": "lint",
    "import": "import_",
    "detect": "detect",
    "export": "export",
}


class _Subcommands(CommandTable):
    """``SUBCOMMANDS`` names the file of each."""

    table = SUBCOMMANDS
    package = "hetesynth.cli.topo"


@click.group(name="topo", cls=_Subcommands, short_help="Look at a topology, compare two.")
def command() -> None:
    """Look at a topology, compare two."""
