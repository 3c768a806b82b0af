"""Which candidates a tuning run tries for a size, in which order, and which programs it times."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class AutotunePolicy(Record):
    """Which candidates a tuning run tries for a size, in which order, and which programs it times."""

    # regimes of the bandwidth-to-latency ratio, from the least to the largest
    ratio_load_counts: float = threshold(
        4.0,
        "seconds of bytes per second of latency",
        "From here on load on resources counts more than latency: prices come first, rings are tried. Not "
        "measured.",
    )
    ratio_arrival_misleads_personalized: float = threshold(
        20.0,
        "seconds of bytes per second of latency",
        "Above it earliest arrival comes last where each chunk is for one rank. Not measured.",
    )
    ratio_trees_first: float = threshold(
        30.0,
        "seconds of bytes per second of latency",
        "Above it packed trees come before other searches where only schedules are made, and where links share "
        "nothing negotiated loads: schedules of an allgather of 1 GB on V100 clusters pass 99 % of the bound so. "
        "Where the regime begins: not measured.",
    )
    ratio_arrival_misleads: float = threshold(
        300.0,
        "seconds of bytes per second of latency",
        "From here on earliest arrival comes last, and numbers of chunks for which the busiest resource needs "
        "whole steps come first (20 on two DGX-2: 62 steps). Not measured.",
    )

    # chunks per rank
    chunk_counts: tuple[int, ...] = threshold(
        (1, 2, 4, 8, 16, 32, 64),
        "chunks per rank",
        "The powers of two that are tried; for large buffers one more number that gives whole steps may join "
        "them, see max_first_chunks. Not measured.",
    )
    max_first_chunks: int = threshold(
        16,
        "chunks per rank",
        "The largest number that a tuning run begins with. A number of chunks that gives the busiest resource of "
        "large buffers whole steps is doubled until it is at least this one, and tried too. Not measured.",
    )
    max_first_chunks_personalized: int = threshold(
        8,
        "chunks per rank",
        "The same where each chunk is for one rank: there are as many chunks more as ranks. Not measured.",
    )
    pipeline_exponent: float = threshold(
        0.5,
        "exponent",
        "The number of chunks tried first is about the bandwidth-to-latency ratio to this power: with one half, a "
        "pipeline of chunks whose latency and bytes take equally long. Not measured.",
    )
    max_transfers: int = threshold(
        40_000,
        "transfers",
        "Numbers of chunks that make more are not tried: a schedule takes longer to find than its last percent is "
        "worth. Not measured.",
    )
    max_first_transfers: int = threshold(
        9_000,
        "transfers",
        "The first number of chunks makes no more, so that there is a candidate soon. Not measured.",
    )

    # which strategies are tried
    max_transfers_balanced_trees: int = threshold(
        20_000, "transfers", "Balanced trees are tried up to here. Not measured."
    )
    max_transfers_fixed_routes: int = threshold(
        12_000,
        "transfers",
        "Up to here all baselines are tried; past it those of few peers come first of all, as searches may take "
        "all the time there is: on 256 GPUs an allreduce of 64 MB takes 644 us so, 4,965 us by doubling.",
    )
    max_transfers_arrival: int = threshold(
        70_000,
        "transfers",
        "Strategies by earliest arrival (timed, negotiated) are tried up to here. Not measured.",
    )
    max_transfers_keeping_time: int = threshold(
        33_000,
        "transfers",
        "Up to here server rings and rings, whose programs keep their schedule's time, come first with "
        "any number of chunks (docs/decisions.md, 6). Not measured.",
    )
    max_chunks_keeping_time: int = threshold(
        8, "chunks per rank", "The same for the number of chunks (docs/decisions.md, 6). Not measured."
    )
    max_chunks_misled: int = threshold(
        2, "chunks per rank", "Earliest arrival is tried up to here where it misleads. Not measured."
    )
    arrival_prices: tuple[float, ...] = threshold(
        (0.0, 0.5, 1.0), "price of load", "The variants of earliest arrival. Not measured."
    )

    # capacities
    max_multiple: int = threshold(
        16, "multiples of tau_ref", "Tried so that unequal rates become whole numbers of chunks. Not measured."
    )
    few_multiples: int = threshold(
        4, "multiples of tau_ref", "The same for a first choice of short steps. Not measured."
    )
    multiples_per_chunk: int = threshold(
        2, "multiples of tau_ref", "No more are tried for each chunk per rank. Not measured."
    )
    less_rounding: float = threshold(
        0.9,
        "share of the error",
        "A longer tau_ref is tried if it leaves less than this of the rounding error. Not measured.",
    )

    # the time budget
    share: float = threshold(
        0.2, "share of the remaining budget", "What the search of one candidate gets. Not measured."
    )
    share_negotiated: float = threshold(
        0.6,
        "share of the remaining budget",
        "For negotiated loads where links share nothing and hardly anything else is worth a try. Not measured.",
    )
    share_packed: float = threshold(
        0.4,
        "share of the remaining budget",
        "For packed trees, which have no schedule before the last step is filled. Not measured.",
    )
    share_schedules: float = threshold(
        0.75,
        "share of the budget",
        "For schedules where programs are timed too; the rest is for programs. Not measured.",
    )
    least_seconds: float = threshold(
        0.1, "seconds", "Of what is left, at least this is shared out to a candidate. Not measured."
    )
    least_seconds_of_run: float = threshold(
        0.05, "seconds", "What the tuning runs of several sizes share at least. Not measured."
    )

    # when a tuning run ends, and what it leaves out
    bound_met: float = threshold(
        0.9998, "share of the bound", "From here on nothing is left to gain. Not measured."
    )
    bound_near: float = threshold(
        0.985,
        "share of the bound",
        "From here on only other numbers of chunks are tried for the best. Not measured.",
    )
    behind: float = threshold(
        1.3,
        "times the best",
        "What took longer than so many times the best schedule is not tried with other numbers of chunks. Not "
        "measured.",
    )
    behind_keeping_time: float = threshold(
        2.0,
        "times the best",
        "The same for what the opening rules try. Not measured.",
    )
    alike: float = threshold(
        0.003,
        "share of the time",
        "Of schedules that differ by no more than this the one with the fewest transfers is chosen. Not measured.",
    )
    programs_alike: float = threshold(
        0.03,
        "share of the time",
        "Of schedules that differ by no more than this, and of which only one has its program timed, it is that "
        "with the fewest transfers: h20_64, reduce-scatter of 1 GB, 4,893 us with two chunks, 5,374 with four.",
    )
    worse_in_a_row: int = threshold(
        2,
        "numbers of chunks",
        "After so many in a row, each slower than the one before it, numbers farther off are not tried. Not "
        "measured.",
    )
    kept: int = threshold(
        12,
        "candidates",
        "So many of the quickest schedules are kept, as their programs may be slower or not fit the targets. With "
        "8 instead of 12, six of 102 cells are up to 7 % slower and none is quicker (docs/decisions.md, 13).",
    )
    kept_keeping_time: int = threshold(
        3,
        "candidates",
        "So many of server rings and of rings, whose programs keep the time of their schedules, are kept, however "
        "slow they are. Not measured.",
    )

    # programs
    max_program_transfers: int = threshold(
        33_000,
        "transfers",
        "The program of a schedule of more transfers is not timed (docs/decisions.md, 6). Not measured.",
    )
    max_programs_transfers: int = threshold(
        90_000,
        "transfers",
        "The schedules whose programs are timed for one size have no more together. Not measured.",
    )
    max_throttled_transfers: int = threshold(
        6_000,
        "transfers",
        "The schedules that are lowered with every kind of throttling too have no more together. Not measured.",
    )
    untimed_loss: float = threshold(
        1.5,
        "seconds per second of the schedule",
        "What a program that was not timed is taken to need at least. Not measured.",
    )

    # several sizes
    sample_spacing: int = threshold(
        64,
        "factor",
        "Between the sizes of the first tuning runs for a span; where two that follow each other differ in the "
        "quickest program there is one between. Not measured.",
    )
    shortlist: int = threshold(3, "candidates", "Of a tuning run that are predicted at all sizes. Not measured.")
    seconds_after_interrupt: float = threshold(0.5, "seconds", "For predictions after Ctrl-C. Not measured.")
    atlas_tolerance: float = threshold(
        0.01, "share of the time", "What a range may lose before another schedule takes over. Not measured."
    )
    handover_precision: float = threshold(
        1.01, "factor", "To which the size is found at which one range hands over to the next. Not measured."
    )
    max_splits: int = threshold(
        64, "halves", "Of a cluster that are compared for the inverse bisection bandwidth. Not measured."
    )

    # steady state
    steady_near: float = threshold(
        0.98, "share of the limit", "A program that is so near to what is possible ends the choice. Not measured."
    )
    steady_enough: float = threshold(
        0.9,
        "share of the limit",
        "With effort 1, a program in steady state or of rings that is so near to it ends the choice. On nine "
        "generated clusters other candidates win at most 1.6 % on it at 1 GB.",
    )
    steady_counts: tuple[int, ...] = threshold(
        (1, 2, 3, 4), "trees", "Of each root in an allgather or a reduce-scatter. Not measured."
    )
    steady_counts_rooted: tuple[int, ...] = threshold(
        (1, 2, 3, 4, 6, 8, 12, 16, 24), "trees", "Of a broadcast or a reduce. Not measured."
    )
    steady_counts_reduced: tuple[int, ...] = threshold(
        (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16),
        "trees",
        "Of an allreduce, beside as many as ranks: 64 thread blocks hold about 16.",
    )
    steady_counts_personalized: tuple[int, ...] = threshold(
        (1, 2),
        "chunks",
        "The same where every chunk is for one rank. On four generated clusters 1 reaches 100 % of the limit.",
    )
    steady_peers: int = threshold(
        18,
        "ranks",
        "That a rank sends to where every chunk is for one rank, relays included: 24 to 64 GPUs reach 93 to 98 % "
        "of the limit with 18, less with 12, 15 and 22.",
    )
    steady_transfers: int = threshold(20_000, "transfers", "Of a packing in whole chunks. Not measured.")
    steady_chunk_bytes: int = threshold(4_096, "bytes", "Of a chunk at least. Not measured.")
    steady_packings: int = threshold(
        3, "packings", "In whole chunks for which programs are planned. Not measured."
    )
    steady_arrangements: int = threshold(2, "arrangements", "Of a packing that are planned. Not measured.")
    steady_tree_cost: float = threshold(
        0.005,
        "share of the seconds",
        "By which a tree more makes a packing less promising, as it has less of the buffer to fill its links "
        "with. Not measured.",
    )
    steady_alike: float = threshold(
        0.02,
        "share of the time",
        "Arrangements whose expected times differ by less are alike, and the shorter program is tried. Not "
        "measured.",
    )
    steady_hope: float = threshold(
        1.1, "times the best", "A program that is expected to take longer is not tried. Not measured."
    )
    max_ranks_rings: int = threshold(
        128,
        "ranks",
        "Up to here NCCL's rings are searched for and simulated, to be chosen or compared with. Not measured.",
    )
