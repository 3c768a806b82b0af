"""Seconds for each unit of work of the phases that no command can leave out."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class LeastTimePolicy(Record):
    """What the phases of a command cost that cannot be left out.

    Of one core of an AMD EPYC (2 cores, otherwise idle), fitted to the phases of alltoall on 128 and 256 GPUs in
    servers of 8 H20, and of allreduce and reduce-scatter on 64 and 128.
    """

    start: float = threshold(0.7, "seconds", "Imports and parsing. Fitted within a factor of 1.5.")
    problem: float = threshold(
        8.0e-5, "seconds per pair of ranks", "Capacities and bound. Fitted within a factor of 1.5."
    )
    schedule: float = threshold(
        3.0e-5, "seconds per transfer and 100 ranks", "One greedy round. Fitted within a factor of 1.5."
    )
    replay: float = threshold(
        1.0e-5, "seconds per transfer", "The judge of schedules. Fitted within a factor of 1.5."
    )
    lower: float = threshold(
        6.1e-5, "seconds per transfer", "Lowering one program. Fitted within a factor of 1.5."
    )
    judge: float = threshold(5.8e-5, "seconds per transfer", "Judging one program. Fitted within a factor of 1.5.")
    predict: float = threshold(
        1.9e-4, "seconds per transfer", "One simulation of the schedule. Fitted within a factor of 1.5."
    )
    adding: float = threshold(2.0, "factor", "Programs of collectives that add. Fitted within a factor of 1.5.")
    composed: float = threshold(
        2.5, "factor", "The bound of allreduce, which is that of three problems. Fitted within a factor of 1.5."
    )
    variants: float = threshold(
        3.0,
        "trials",
        "What trying the variants of a lowering takes: two programs or three are lowered, up to four simulated. "
        "Not measured.",
    )
    loops: float = threshold(
        8.0, "loops", "Of a program that is simulated: 1 GB in chunks of 16 MB. Small buffers have one."
    )
    simulate: float = threshold(
        4e-6, "seconds per task", "Simulating a program on 64 GPUs: 2.5 to 7e-6, with few flows at once."
    )
    simulate_crowded: float = threshold(
        1.4e-8,
        "seconds per task and connection",
        "The same where all ranks send to all at once: 3.6 s for 66,000 tasks of an alltoall on 64 GPUs.",
    )
    load: float = threshold(
        0.8, "seconds", "Loading numba and the machine code of the simulator, once in a process: 0.7 to 1 s."
    )
    pack: float = threshold(
        1e-4,
        "seconds per pair of ranks",
        "The optimal packing in whole chunks: 0.2 to 0.5 s for an allgather on 64 GPUs, 1 s for sums.",
    )
    arrange: float = threshold(
        2e-4,
        "seconds per pair of ranks",
        "Arrangements of one packing, and its verified schedule: 0.5 to 0.8 s on 64 GPUs, 0.1 to 0.2 s on 20.",
    )
    time_bounds: float = threshold(
        1.5e-4, "seconds per pair of ranks", "Bounds in seconds: 0.5 s on 64 GPUs, 1 s for an allreduce."
    )
    balance: float = threshold(
        6e-4, "seconds per pair of ranks", "Balanced paths of an alltoall: 1.5 to 5 s on 64 GPUs."
    )
    rings: float = threshold(
        1e-3, "seconds per pair of ranks", "NCCL's rings on up to 64 channels: 4 s on 64 GPUs, 7 s with sums."
    )
