"""Progress on a terminal: one line on standard error, nothing in a pipe."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from hetesynth.cli.terminal import show
from hetesynth.model.deadline import now
from hetesynth.model.diagnostics import visible
from hetesynth.search.search import BEST

Progress = Callable[[str, int | None], None]


def warned(text: str) -> None:
    """Print a warning on standard error."""
    show(f"note: {text}", err=True)


@contextmanager
def watching(*, quiet: bool, budget: float | None = None) -> Iterator[Progress]:
    """A progress callback that shows seconds gone of ``budget``, what is being done and the best so far. A first
    Ctrl-C is answered at once."""
    from hetesynth.search.interrupts import announcing

    with announcing(partial(show, "writing the best so far; again to abandon", err=True)):
        if quiet or not sys.stderr.isatty():
            yield lambda what, steps: None
            return
        from rich.console import Console
        from rich.markup import escape

        status, line = Console(stderr=True).status("reading"), ProgressLine(now(), budget)

        def update(what: str, steps: int | None) -> None:
            status.update(escape(visible(line.text(what, steps))))
            status.start()  # no earlier: its thread must not be there where the process that searches is forked

        try:
            yield update
        finally:
            status.stop()


@dataclass
class ProgressLine:
    """The line of progress of a command that began at ``started`` and has ``budget`` seconds. ``best``: how the
    best so far stands, by time once there is a time."""

    started: float
    budget: float | None
    best: str = ""

    def text(self, what: str, steps: int | None) -> str:
        """``3 of 20 s: steady-state: 812 us; best 790 us, 84 % of the limit, 1.17 x NCCL (Ctrl-C keeps
        it)``, as far as it is known."""
        what, by_time, best = what.partition(BEST)
        if by_time:
            self.best = f"{BEST}{best}"
        elif steps is not None and not self.best.startswith(BEST):
            self.best = f", best so far {steps} steps"
        of_budget = "" if self.budget is None else f" of {self.budget:g}"
        keeps = f"{self.best} (Ctrl-C keeps it)" if self.best else ""
        return f"{now() - self.started:.0f}{of_budget} s: {what}{keeps}"
