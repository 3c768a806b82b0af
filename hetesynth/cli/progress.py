"""Progress on a terminal: one line on standard error, nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hetesynth.cli.terminal import show
from hetesynth.diagnostics import visible

Progress = Callable[[str, int | None], None]


def warned(text: str) -> None:
    """A warning on standard error."""
    show(f"note: {text}", err=True)


@contextmanager
def watching(*, quiet: bool) -> Iterator[Progress]:
    """A progress callback that shows what is being done and the best schedule so far."""
    if quiet or not sys.stderr.isatty():
        yield lambda what, steps: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("reading") as status:
        best: list[int] = []

        def update(what: str, steps: int | None) -> None:
            if steps is not None:
                best[:] = [steps]
            so_far = f", best so far {best[0]} steps (Ctrl-C keeps it)" if best else ""
            status.update(escape(visible(f"{what}{so_far}")))

        yield update
