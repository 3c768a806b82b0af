"""``--without`` and ``--degrade`` for every command that takes a topology."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import click

F = TypeVar("F", bound=Callable[..., Any])

_without = click.option(
    "--without", multiple=True, metavar="PARTS|A<->B",
    help="What failed, repeatable: GPUs, NICs, switches, servers (b.gpu3, a), or what joins two parts "
    "(a.gpu0<->a.gpu1).",
)  # fmt: skip
_degrade = click.option(
    "--degrade", multiple=True, metavar="PARTS|A<->B=RATE|PERCENT",
    help="What became slow, repeatable: a.nic*=18Gbps, a.gpu0<->a.gpu1=50%.",
)  # fmt: skip


def topology_losses(function: F) -> F:
    """Both options: the command's ``topology`` is the file with these losses."""

    @functools.wraps(function)
    def command(*, without: tuple[str, ...], degrade: tuple[str, ...], **options: Any) -> Any:
        if without or degrade:
            from hetesynth.topology.language.overridden import overridden

            if options["topology"] is None:
                raise click.UsageError("--without and --degrade need --topo")
            options["topology"] = overridden(options["topology"], without, degrade)
        return function(**options)

    return cast(F, _without(_degrade(command)))


def topology_losses_of(name: str) -> Callable[[F], F]:
    """The same for a command whose argument ``name`` is the file, or a tuple of files that all get the losses."""

    def wrapped(function: F) -> F:
        @functools.wraps(function)
        def command(*, without: tuple[str, ...], degrade: tuple[str, ...], **options: Any) -> Any:
            if without or degrade:
                from hetesynth.topology.language.overridden import overridden

                files = options[name]
                several = isinstance(files, tuple)
                changed = tuple(overridden(f, without, degrade) for f in (files if several else (files,)))
                options[name] = changed if several else changed[0]
            return function(**options)

        return cast(F, _without(_degrade(command)))

    return wrapped
