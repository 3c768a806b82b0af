"""Column generation: the fractional packing of trees and paths."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class PackingPolicy(Record):
    """Column generation: the fractional packing of trees and paths."""

    gap: float = threshold(
        1e-3,
        "share of the seconds",
        "A packing that is proved to be as near to the optimum ends the search. Not measured.",
    )
    most_rounds: int = threshold(
        400,
        "rounds",
        "How often structures are asked for at most. The examples take 13 to 120. Fewer: not measured.",
    )
    warm_up_rounds: int = threshold(
        12, "rounds", "Rounds of multiplicative weights before the first master program. Not measured."
    )
    warm_up_sharpness: float = threshold(
        8.0, "exponent", "How steeply a resource becomes dearer with its load in these rounds. Not measured."
    )
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
    first_solution_seconds: float = threshold(
        2.0,
        "seconds",
        "What the first master program after sweeps may take in any case: trees that only share evenly take two "
        "to four times as long as its packing. For 256 ranks it takes 0.2 to 1 s.",
    )
    smoothing: float = threshold(
        0.6, "share", "Of the best prices so far in the prices at which structures are asked for. Not measured."
    )
    few_roots: int = threshold(
        16,
        "roots",
        "The cheapest roots of an allreduce that are asked for trees in a round. On a mesh of 64 ranks 8 and 16"
        " took 4 s, 64 took 45 s.",
    )
    slack: float = threshold(
        1e-7,
        "share of the dearest link",
        "A link whose cost is so near to tight may be used by an early tree. Not measured.",
    )
    slice_bytes: int = threshold(
        2**21,
        "bytes",
        "What a link carries at a time when trees are compared by how early they reach ranks. Not measured.",
    )
    least_weight: float = threshold(
        1e-9, "share of the buffer", "Structures that carry less are left out. Not measured."
    )
    largest_group: int = threshold(4, "times the ranks", "The most automorphisms that are gathered. Not measured.")
    trees_of_root: int = threshold(6, "trees", "Of each root that chunks may choose among at least. Not measured.")
    rounding_sharpness: float = threshold(
        40.0, "exponent", "How steeply the sum of loads grows by which chunks are put on trees. Not measured."
    )
    rounding_sweeps: int = threshold(30, "sweeps", "How often every chunk may move to another tree. Not measured.")
    rounding_repricings: int = threshold(
        20, "rounds", "In which chunks are offered trees that avoid what is full. Not measured."
    )
    exchange_sharpness: tuple[float, ...] = threshold(
        (8.0, 20.0),
        "exponent",
        "The same when links of few trees are exchanged, one after the other. 3 to 40 end alike on six clusters.",
    )
    exchange_from: float = threshold(
        0.85,
        "share of the highest load",
        "Links on resources that are so full may be exchanged. Not measured.",
    )
    exchange_rounds: int = threshold(
        2, "rounds", "In which each of few trees is laid anew. h20_4x2p8 allreduce, 3 trees: 100 instead of 50 %."
    )
    exchange_tries: int = threshold(1_500, "moves", "That are tried at most: about 1 s on 64 ranks. Not measured.")
