"""Progress on a terminal: one line on standard error, nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from hetesynth.cli.terminal import show
from hetesynth.diagnostics import visible
from hetesynth.model.deadline import now

Progress = Callable[[str, int | None], None]


def warned(text: str) -> None:
    """A warning on standard error."""
    show(f"note: {text}", err=True)


@contextmanager
def watching(*, quiet: bool, budget: float | None = None) -> Iterator[Progress]:
    """A progress callback that shows seconds gone of ``budget``, what is being done and the best so far. A first
    Ctrl-C is answered at once."""
    from hetesynth.synthesis.interrupts import announcing

    answer = partial(show, "writing the best so far; again to abandon", err=True)
    with announcing(answer), _shown(quiet=quiet, budget=budget) as progress:
        yield progress


@contextmanager
def _shown(*, quiet: bool, budget: float | None) -> Iterator[Progress]:
    if quiet or not sys.stderr.isatty():
        yield lambda what, steps: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("reading") as status:
        best: list[int] = []
        started = now()
        of_budget = "" if budget is None else f" of {budget:g}"

        def update(what: str, steps: int | None) -> None:
            if steps is not None:
                best[:] = [steps]
            so_far = f", best so far {best[0]} steps (Ctrl-C keeps it)" if best else ""
            gone = f"{now() - started:.0f}{of_budget} s: "
            status.update(escape(visible(f"{gone}{what}{so_far}")))

        yield update
