"""When a kernel is compiled and when it is interpreted."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """The most work of a kernel that is interpreted, by what has to be done before machine code can run."""

    load_and_compile: float  # numba is not loaded, no machine code is on disk
    load: float  # numba is not loaded, machine code is on disk
    compile: float  # numba is loaded, no machine code is on disk
    ready: float  # numba is loaded, machine code is on disk
    running: float | None = None  # the kernel was used in this process already; None: that makes no difference

    @classmethod
    def by_disk(cls, *, absent: float, on_disk: float) -> WorkLimits:
        """Limits of a kernel whose compilation takes much longer than loading numba."""
        return cls(absent, on_disk, absent, on_disk)

    @classmethod
    def by_numba(cls, *, unloaded: float, loaded: float, running: float | None = None) -> WorkLimits:
        """Limits of a kernel for which it matters whether numba is loaded."""
        return cls(unloaded, unloaded, loaded, loaded, running)


@dataclass(init=False, repr=False, eq=False)
class MachineCodePolicy(Record):
    """When a kernel is compiled and when it is interpreted."""

    greedy_work: WorkLimits = threshold(
        WorkLimits.by_disk(absent=1_499_999, on_disk=149_999),
        "(deliveries + 8 x chunks) x ranks of a greedy round",
        "Rounds of more work are compiled from the first. With 130,000 to 200,000 a round takes 0.4 to 2 s "
        "interpreted, 0.8 s where numba and the machine code have to be loaded; without machine code on disk "
        "compiling takes about 5 s more (docs/decisions.md, 1).",
    )
    greedy_seconds: WorkLimits = threshold(
        WorkLimits.by_disk(absent=4.0, on_disk=0.3),
        "CPU seconds of greedy rounds",
        "After so many seconds of interpreted rounds of one problem the rest are compiled: about as long as "
        "loading numba takes, or as compiling the kernel takes (about 5 s, docs/decisions.md, 1).",
    )
    earliest_arrival: WorkLimits = threshold(
        WorkLimits.by_numba(unloaded=20_000, loaded=2_000),
        "chunks x arcs",
        "Rounds of earliest arrival with more work are compiled. Below, interpreting takes less than loading "
        "numba, or than reading the machine code. Not measured.",
    )
    balanced_paths: WorkLimits = threshold(
        WorkLimits.by_numba(unloaded=100_000, loaded=100_000),
        "chunks x arcs",
        "Sweeps and list schedules of balanced paths with more work are compiled. Below, interpreting takes less "
        "than loading numba. Not measured where numba is loaded.",
    )
    list_scheduling: WorkLimits = threshold(
        WorkLimits.by_numba(unloaded=2_000, loaded=200),
        "deliveries",
        "List schedules of more deliveries are compiled. Below, interpreting takes less than loading numba, or "
        "than reading the machine code. Not measured.",
    )
    simulated_tasks: WorkLimits = threshold(
        WorkLimits.by_numba(unloaded=10_000, loaded=2_000, running=-1),
        "tasks",
        "Transfer graphs of more tasks are simulated by machine code: loading numba, or the machine code, takes "
        "as long as interpreting so many. Once the kernel was compiled in this process it serves every graph. "
        "Not measured anew.",
    )
    simulated_pairs: WorkLimits = threshold(
        WorkLimits.by_numba(unloaded=500_000, loaded=100_000, running=-1),
        "pairs of tasks that use the same resource",
        "The same for graphs whose tasks share resources with many others, as the rates of these are computed "
        "together: loading takes as long as interpreting so many. Not measured anew.",
    )
