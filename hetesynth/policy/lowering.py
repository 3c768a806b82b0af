"""From schedules to programs."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class LoweringPolicy(Record):
    """From schedules to programs in steady state."""

    steady_turns: tuple[float, ...] = threshold(
        (1.0, 1.5, 0.3),
        "share of a period",
        "Programs in steady state: the time in which a piece is taken to cross a resource, when messages are put "
        "in order, of what the resource needs for a piece of every chunk. Tried in this order. 1 (all cross it "
        "together) is right for DGX-2 (95 % of the packing's time; 0.3: 73 %), 0.3 for MI250 (95 against 94 %), "
        "1.5 for AllReduce on h20_4p8 (90 against 71 %).",
    )
    steady_least_piece: int = threshold(
        1 << 19,
        "bytes",
        "Programs in steady state cut chunks into pieces of no less. 2 MiB take 5 % more time than 0.5 MiB on "
        "MI250, H20 and DGX-2 (1 GB, 16 to 32 GPUs).",
    )
    steady_piece_shares: tuple[float, ...] = threshold(
        (1.0, 0.9, 0.75, 0.5),
        "share of the most pieces",
        "Programs in steady state are tried with so many pieces: the more, the sooner the pipe is full; the "
        "fewer, the more thread blocks are left for even connections (h20_4x2p8x2 allgather of 2 chunks: 22 "
        "pieces reach 75 % of the packing's time, 20 pieces 95 %).",
    )
    steady_plan_pieces: int = threshold(
        16,
        "pieces for each hop of the deepest tree",
        "Of a chunk in an MSCCL++ plan in steady state, at most: a broadcast on h20_4p8 along 4 hops takes 5144 "
        "us with 56 pieces and 5182 with 112.",
    )
