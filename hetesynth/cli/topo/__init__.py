"""``hetesynth topo``: a topology file, looked at and compared. A file of this folder is a subcommand."""

from __future__ import annotations

from importlib import import_module

import click

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


class _Subcommands(click.Group):
    """Imports a subcommand when it is asked for; ``SUBCOMMANDS`` names the file of each."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        command: click.Command = import_module(f"hetesynth.cli.topo.{SUBCOMMANDS[cmd_name]}").command
        return command


@click.group(name="topo", cls=_Subcommands, short_help="Look at a topology, compare two.")
def command() -> None:
    """Look at a topology, compare two."""
