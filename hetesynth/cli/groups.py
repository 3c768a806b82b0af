"""A group of commands, each of a file that is imported when the command is asked for."""

from importlib import import_module
from typing import Any

import click

from hetesynth.errors import did_you_mean


class CommandTable(click.Group):
    """A group whose ``table`` has the place of each command in ``package``, ``file`` or ``file:function``, and a
    line about it, so that help imports none."""

    def __init__(self, table: dict[str, tuple[str, str]], package: str, **options: Any) -> None:
        super().__init__(**options)
        self.table, self.package = table, package

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported now; None where there is none."""
        if cmd_name not in self.table:
            return None
        module, _, function = self.table[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"{self.package}.{module}"), function or "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names with their lines."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.table.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raise click.UsageError that names the nearest command where there is none."""
        if args and args[0] not in self.table and args[0][:1] != "-":
            near = did_you_mean(args[0], self.table, f"{ctx.command_path} --help lists the commands")
            ctx.fail(f"No such command {args[0][:80]!r}: {near}")
        return super().resolve_command(ctx, args)
