"""A cluster that was read before, in the place of the file that describes it.

In: a ``Topology``. Out: a path-like value that ``load_topology`` takes: no file is opened, so that work can be
handed to a machine that does not have it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from hetesynth.model.topology import Topology


@dataclass(frozen=True, slots=True)
class GivenTopology(os.PathLike[str]):
    """``topology``, which was read from the file called ``path``."""

    path: str
    topology: Topology = field(repr=False)

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path
