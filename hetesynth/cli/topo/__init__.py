"""``hetesynth topo``: a topology file, looked at, compared and converted."""

import click

from hetesynth.cli.groups import CommandTable

SUBCOMMANDS = {
    "show": ("show", "Print servers, links, bottlenecks and capacities; draw them."),
    "ranks": ("ranks", "Say which rank runs where, for launchers."),
    "library": ("library", "List the node types, or show one."),
    "diff": ("diff", "Say what changed, and which schedules it concerns."),
    "calibrate": ("calibrate", "Fit latencies and rates to measurements."),
    "convert": ("files:convert", "Say the same cluster in another form."),
    "fmt": ("files:fmt", "Write topology files in one layout."),
    "lint": ("lint", "Look for what is probably not meant."),
    "import": ("import_", "Make a topology from files that a cluster has."),
    "detect": ("import_:detect", "Make a topology of this machine."),
    "export": ("files:export", "Write a topology in a format of others."),
}


@click.group(name="topo", cls=CommandTable, table=SUBCOMMANDS, package=__name__)
def command() -> None:
    """Look at a topology, compare two."""
