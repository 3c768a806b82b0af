"""Where the choice for a size stands, in words: the best so far, its share of the limit, its factor over rings.

In: candidates as they are tried. Out: a line for whoever shows progress.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hetesynth.model.words import microseconds, whole_percent
from hetesynth.search.search import BEST, Progress


@dataclass
class Standing:
    """``listener``: shows the lines. ``limit``: seconds that nothing is quicker than; ``rings``: those of NCCL's
    rings; 0 where they are not known yet. ``best``: seconds of the quickest so far."""

    listener: Progress
    limit: float = 0.0
    rings: float = 0.0
    best: float = math.inf

    def tried(self, label: str, seconds: float) -> None:
        """The program of ``label`` takes ``seconds``."""
        self.best = min(self.best, seconds)
        self.progress(f"{label}: {microseconds(seconds)}", None)

    def progress(self, what: str, steps: int | None) -> None:
        """Tell ``what`` is being done, and how it stands: by programs where some were timed."""
        self.listener(what.split(BEST)[0] + self.text if self.text else what, steps)

    @property
    def text(self) -> str:
        """``; best 5,716 us, 84 % of the limit, 1.17 x NCCL's rings``, as far as it is known."""
        if math.isinf(self.best):
            return ""
        limit = f", {whole_percent(100 * self.limit / self.best)} % of the limit" if self.limit else ""
        rings = f", {self.rings / self.best:.2f} x NCCL's rings" if self.rings else ""
        return f"{BEST}{microseconds(self.best)}{limit}{rings}"
