"""From schedules to programs."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class LoweringPolicy(Record):
    """From schedules to programs."""

    max_attempts: int = threshold(
        400,
        "drafts",
        "After so many drafts of one program the lowering reports a bug of its own. "
        "AllReduce on 256 GPUs settles in 3 drafts. Not measured for others.",
    )
    max_kept_transfers: int = threshold(
        25_000,
        "transfers",
        "The draft of a schedule of up to so many transfers is kept in memory for the next target or throttling "
        "with the same limits; a larger schedule is drafted again. Not measured.",
    )
    adjacent_chunks_from: int = threshold(
        20_000,
        "transfers",
        "A schedule of more transfers merges only chunks with adjacent numbers and gives up several channels of a "
        "pair at once, so that a few drafts are enough: AllReduce on 256 GPUs settles in 3 drafts.",
    )
    early_check_from: int = threshold(
        20_000,
        "operations",
        "A program of more operations whose thread blocks are too long without nops is drafted again before its "
        "dependences are worked out. Not measured.",
    )
    filled_steps: float = threshold(
        0.9,
        "share of the steps of a thread block",
        "Where transfers are dealt out over fewer channels, a thread block is filled up to this share; the rest "
        "is left for nops. Not measured.",
    )
    least_runs: int = threshold(
        2,
        "runs",
        "The transfers of two ranks whose thread block has too many steps are cut into so many times the runs at "
        "least, each with channels of its own. Not measured.",
    )
    max_visited: int = threshold(
        500,
        "operations",
        "After so many operations looked at for one step, its dependences are kept as they are. On up to 64 GPUs "
        "this keeps about 1 in 50 of the dependences that could go.",
    )
    max_visited_large: int = threshold(
        50,
        "operations",
        "The same in a program of more operations than large_from. Not measured.",
    )
    large_from: int = threshold(
        20_000,
        "operations",
        "A program of more operations loses superfluous dependences by max_visited_large. Not measured.",
    )
    steady_turns: tuple[float, ...] = threshold(
        (1.0, 1.5, 0.3),
        "share of a period",
        "Programs in steady state: the time in which a piece is taken to cross a resource, when messages are put "
        "in order, of what the resource needs for a piece of every chunk. Tried in this order. 1 (all cross it "
        "together) is right for DGX-2 (95 % of the packing's time; 0.3: 73 %), 0.3 for MI250 (95 against 94 %), "
        "1.5 for AllReduce on h20_4p8 (90 against 71 %).",
    )
    steady_ticks: int = threshold(
        2000,
        "ticks",
        "Of a period in the order of messages of programs in steady state; finer than phases are known. "
        "Not measured.",
    )
    steady_even_from: float = threshold(
        0.6,
        "share of a period",
        "Programs in steady state: connections that meet in a resource carry equally much where it is in use "
        "for so much of the time. 0.9 and 0.05 lose up to 1 % on some of 7 clusters.",
    )
    steady_unevenness: float = threshold(
        1.03,
        "time of a resource over that of its bytes",
        "Programs in steady state: while unequal connections, or alpha that all of them wait together, make a "
        "scarce resource take longer, a pair gets another channel, where thread blocks are left. Not measured.",
    )
    steady_filled_steps: tuple[float, ...] = threshold(
        (0.95, 0.8),
        "share of the steps of a thread block",
        "Filled with messages in programs in steady state, tried in this order; the rest is for nops. Not "
        "measured.",
    )
    steady_least_piece: int = threshold(
        1 << 19,
        "bytes",
        "Programs in steady state cut chunks into pieces of no less. 2 MiB take 5 % more time than 0.5 MiB on "
        "MI250, H20 and DGX-2 (1 GB, 16 to 32 GPUs).",
    )
    steady_filling: float = threshold(
        0.4,
        "share",
        "Programs in steady state: of the time that filling the pipe takes where all that cross a resource share "
        "it. 0.2 to 0.6 of programs with a channel for each tree, on four clusters.",
    )
    steady_least_own_piece: int = threshold(
        1 << 16,
        "bytes",
        "The same where every tree has channels of its own, tried by halves of a chunk. Not measured.",
    )
    steady_pieces_save: float = threshold(
        0.98, "share of the time", "What twice as many pieces must save at least to be tried. Not measured."
    )
    steady_piece_shares: tuple[float, ...] = threshold(
        (1.0, 0.9, 0.75, 0.5),
        "share of the most pieces",
        "Programs in steady state are tried with so many pieces: the more, the sooner the pipe is full; the "
        "fewer, the more thread blocks are left for even connections (h20_4x2p8x2 allgather of 2 chunks: 22 "
        "pieces reach 75 % of the packing's time, 20 pieces 95 %).",
    )
    steady_plan_widths: tuple[int, ...] = threshold(
        (1, 2, 4, 8),
        "thread blocks",
        "Of a tree that are at work side by side in an MSCCL++ plan in steady state. The first where thread "
        "blocks copy as fast as any link, else all are tried. Not measured.",
    )
    steady_plan_pieces: int = threshold(
        16,
        "pieces for each hop of the deepest tree",
        "Of a chunk in an MSCCL++ plan in steady state, at most: a broadcast on h20_4p8 along 4 hops takes 5144 "
        "us with 56 pieces and 5182 with 112.",
    )
    steady_plan_knowledge: int = threshold(
        200_000_000,
        "entries",
        "Of the vector clocks that waits of an MSCCL++ plan in steady state learn, at most: its judge refuses "
        "2^28, 352 pieces of a broadcast along rings of 64.",
    )
    peers_per_block: tuple[tuple[int, int], ...] = threshold(
        ((1, 8), (1, 16), (2, 16), (4, 16), (8, 16), (16, 16)),
        "memory peers, port peers",
        "How many peers may share a thread block of an MSCCL++ plan, tried in this order until the thread blocks "
        "fit on the GPU: the fewer, the more runs at the same time. Not measured.",
    )
    work_per_phase: float = threshold(
        0.5,
        "share of the operations of a thread block",
        "A thread block of an MSCCL++ plan gets at most this share of its operations as additions and copies of "
        "one phase; the rest is left for what orders them. Not measured.",
    )
