"""Column generation: the fractional packing of trees and paths."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class PackingPolicy(Record):
    """Column generation: the fractional packing of trees and paths."""

    ranks_together: int = threshold(
        32,
        "ranks",
        "More ranks than these, none like another, are asked for trees in turns, and prices rise in between. For "
        "an allgather of 64 that takes 0.3 s instead of 2 s, of 128 1 s instead of 48 s; of 40 both take 0.5 s.",
    )
    ranks_of_a_turn: int = threshold(
        16,
        "ranks",
        "How many are asked at one price. Of 256 ranks 8 take twice as long for a sweep; with 32 an allreduce "
        "takes 13 s and more instead of 7 to 9 s.",
    )
    sweeps: int = threshold(
        2,
        "sweeps",
        "In which every rank has its turn before the first master program. Eight packings of 256 ranks take 37 s "
        "with 1, 32 s with 2, 35 s with 3, 56 s with 4.",
    )
    turn_sharpness: float = threshold(
        16.0,
        "exponent",
        "How steeply a resource becomes dearer with its load in sweeps. Allreduce of 256 ranks: 8 takes 13 s and "
        "more, 16 takes 7 to 9 s; with 32 a master program takes up to 27 s.",
    )
    few_roots: int = threshold(
        16,
        "roots",
        "The cheapest roots of an allreduce that are asked for trees in a round. On a mesh of 64 ranks 8 and 16"
        " took 4 s, 64 took 45 s.",
    )
    exchange_rounds: int = threshold(
        2, "rounds", "In which each of few trees is laid anew. h20_4x2p8 allreduce, 3 trees: 100 instead of 50 %."
    )
