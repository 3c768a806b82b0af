"""How much work is tried, in seconds of a machine that nobody has to own: the same units everywhere."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class EffortPolicy(Record):
    """How much work is tried, in seconds of a machine that nobody has to own: the same units everywhere."""

    base: float = threshold(
        0.5, "work units", "What effort 1 allots to the choice for a size, whatever the cluster. Not measured."
    )
    per_rank: float = threshold(
        0.15,
        "work units for each rank",
        "What effort 1 allots to the choice for a size beside it: about 2 s at 12 GPUs, 10 s at 64. With 0.08 a "
        "reduce-scatter on two 8-GPU A100 servers reaches 94 instead of 99 % of the limit.",
    )
    share_steady: float = threshold(
        0.55, "share of the effort", "For the programs of steady-state candidates, after the first. Not measured."
    )
    share_schedules: float = threshold(
        0.25,
        "share of the effort",
        "For the schedules of all other candidates. An allreduce on h20_64: 10,210 us; with 0.2 10,430.",
    )
    share_programs: float = threshold(
        0.2, "share of the effort", "For the programs of all other candidates. Not measured."
    )
    candidate: float = threshold(
        0.005, "work units", "Of any candidate, however small: its problem and its judge. Not measured."
    )
    prediction: float = threshold(
        6e-5,
        "work units for each transfer",
        "Of a candidate beside its search: it is judged and simulated. Of 12 GPUs, interpreted.",
    )
    program: float = threshold(
        1.5e-4,
        "work units for each transfer",
        "Of a program that is lowered and simulated: from 1.2 to 2.5e-4 s on 12 GPUs.",
    )
    operation: float = threshold(
        1.5e-4,
        "work units for each operation",
        "Of a program in steady state that is lowered and simulated. 1.8e-4 s on 12 GPUs.",
    )
    plan_operation: float = threshold(
        7e-5,
        "work units for each operation",
        "The same of a plan in steady state. 0.7e-4 s on 64 GPUs.",
    )
    plan: float = threshold(
        5e-4,
        "work units for each transfer",
        "Of a plan that is lowered in steady state and step by step, and simulated: from 2.5 to 8e-4 s on 12 to "
        "64 GPUs.",
    )
    steady_unlimited: float = threshold(
        6.0,
        "work units",
        "For programs in steady state where no effort is stated: 40,000 operations. Not measured.",
    )
    uncosted: float = threshold(
        2e-4, "work units for each transfer", "Of a search for which the registry has no cost. Not measured."
    )
    greedy_rounds: float = threshold(
        0.1,
        "share of the rounds",
        "That effort 1 gives greedy rounds where steps are counted; and of the rounds in vain. Not measured.",
    )
    greedy_rounds_sized: int = threshold(
        6, "rounds", "That effort 1 gives a greedy candidate for a size. Not measured."
    )
    solver: float = threshold(
        0.1,
        "share of the solver's units",
        "That effort 1 gives CEGIS and neighbourhood search. Not measured.",
    )
