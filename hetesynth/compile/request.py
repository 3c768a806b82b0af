"""What the user asks for.

In: options of the command line. Out: a ``Request``, made once for a command; every stage reads it, none changes
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hetesynth.chunking import ChunkingOptions
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.topology import Rank
from hetesynth.policy import DEFAULT, Policy

if TYPE_CHECKING:
    from hetesynth.frontend.nccl_graph import RingFile

Exclusion = Literal["auto", "step", "program"]


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asks for.

    ``exclusion``: where HeteCCL's eq. 8 holds, which forbids two additions to one chunk at a rank at once.
    ``step``: in the schedule, as the paper does for allreduce. ``program``: only in the program, which orders
    the additions, so the schedule may take fewer steps. ``auto``: step for allreduce, program for the others.
    ``targets``: the runtimes to write for; one schedule serves them all.
    ``single_root``: the user's promise that all calls have this root, which is demanded where a runtime does not
    look at it; ``every_root``: there are requests for the other roots as well.
    ``size``: of the collective's buffer; what is not stated is then chosen by predicted time, chunks too unless
    ``chunks_stated``. ``rings``: NCCL's own, for strategy ring.
    ``policy``: every threshold by which the stages decide.
    """

    topology: Path
    collective: CollectiveName
    chunks: int = 1
    root: Rank | None = None
    strategy: str = "auto"
    budget: Budget = field(default_factory=Budget)
    chunking: ChunkingOptions = field(default_factory=ChunkingOptions)
    exclusion: Exclusion = "auto"
    schedule_only: bool = False  # no programs: for clusters past what a program can hold
    max_peers: int | None = None  # of a rank; by default what thread blocks allow, past the policy's many_ranks
    targets: tuple[Target, ...] = (PORTABLE,)
    single_root: bool = False
    every_root: bool = False
    size: int | None = None
    chunks_stated: bool = False
    rings: tuple[RingFile, ...] = ()
    policy: Policy = DEFAULT
