"""A group of commands, each in a file of its own that is imported when the command is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import ClassVar

import click


class CommandTable(click.Group):
    """``table``: the module of each command; ``package``: where the modules are. ``--help`` of it stays quick."""

    table: ClassVar[dict[str, str]]
    package: ClassVar[str]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None where there is none."""
        if cmd_name not in self.table:
            return None
        command: click.Command = import_module(f"{self.package}.{self.table[cmd_name]}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """click.UsageError that names the nearest command where there is none."""
        if args and args[0] not in self.table and args[0][:1] != "-":
            from hetesynth.errors import did_you_mean

            near = did_you_mean(args[0], self.table, f"{ctx.command_path} --help lists the commands")
            ctx.fail(f"No such command {args[0][:80]!r}: {near}")
        return super().resolve_command(ctx, args)
