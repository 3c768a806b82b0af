"""The user's request: made once for a command; every stage reads it, none changes it."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.model.runtime_costs import RuntimeCosts
from hetesynth.model.sketch import Sketch
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.topology import Rank, Topology
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.chunking import ChunkingOptions
from hetesynth.topology.language import TopologySource
from hetesynth.topology.language.nccl_graph import RingFile

Exclusion = Literal["auto", "step", "program"]
Objective = Literal["steps", "time"]
LossKind = Literal["gpu", "nic", "link", "server"]
LOSS_KINDS: tuple[LossKind, ...] = get_args(LossKind)
FirstCandidate = Literal["greedy", "flood", "nothing"]
MANY_RANKS = 64  # past which peers are limited, and memory is given back between lowering and judging
PEER_SHARE = 0.75  # of the thread blocks, for the peers of a rank


@dataclass(frozen=True, slots=True)
class Request:
    """The user's request for a schedule and its programs.

    ``exclusion``: where HeteCCL's eq. 8 holds, which forbids two additions to one chunk at a rank at once: in the
    schedule (``step``), as the paper does for allreduce, or only in the program, which orders the additions, so
    the schedule may take fewer steps. ``auto``: step for allreduce, program for the others.
    ``single_root``: the user's promise that all calls have this root. ``budget``: of the whole command; where a
    ``Compilation`` or a ``budget`` is handed over beside the request, that is spent. ``size``: of the collective's
    buffer; what is not stated is then chosen by predicted time, chunks too where ``fixed_chunks`` is None.
    ``chunks_stated``: one chunk per rank is asked for; more than one always are.
    ``objective``: which program strategy auto writes where no size is stated: that of the schedule with the fewest
    steps always, or only where it is nearly as quick as the quickest. ``rings``: NCCL's own, for strategy ring.
    ``runtime``: what thread blocks and kernels cost, in all predictions; None: nothing. ``always``: files are for
    all sizes; else for those where they are expected to be no slower than the library. ``first_candidate``: what
    strategy cegis begins with, by name or a schedule file. ``sketch``: which schedules are searched among.
    """

    topology: TopologySource
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
    size: int | None = None
    chunks_stated: bool = False
    rings: tuple[RingFile, ...] = ()
    policy: Policy = DEFAULT
    runtime: RuntimeCosts | None = None
    objective: Objective = "steps"
    always: bool = True
    first_candidate: FirstCandidate | Path | None = None
    sketch: Sketch | None = None

    @property
    def file(self) -> str | os.PathLike[str]:
        """The file that describes the cluster. TypeError where the cluster itself was given."""
        if isinstance(self.topology, Topology):
            raise TypeError("pods and losses are read from the file that describes the cluster: give its path")
        return self.topology

    @property
    def fixed_chunks(self) -> int | None:
        """The chunks per rank that are asked for; None where one, the default, was not stated."""
        return self.chunks if self.chunks_stated or self.chunks > 1 else None
