"""What becomes of schedules and programs when one threshold of the policy is halved or doubled.

    python tests/benchmarks/policy_sensitivity.py [--only SECTION.NAME]

Each case is a whole synthesis in this process with a budget that does not bind. Compared are the steps of the
schedule and the seconds of its program, or without programs of the schedule, with those of the default policy; and
CPU seconds over all cases. Left out are thresholds that decide only when a kernel is compiled, what a judge
allocates and what a command says in advance.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.policy import DEFAULT, Policy

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SIZED = ("autotune", "timed", "compile")
STEPS = ("steps", "greedy", "smt", "trees", "baselines", "lowering", "bounds")
CASES_BY_STEPS: tuple[tuple[str, CollectiveName, int, str], ...] = (
    ("fig10", "allgather", 1, "auto"),
    ("v100_fail_one4", "allgather", 1, "auto"),
    ("v100_4p8", "allgather", 1, "auto"),
    ("h20_4p8", "allreduce", 1, "auto"),
    ("h20_4p8", "alltoall", 1, "auto"),
    ("a100_x2", "allgather", 2, "greedy"),
    ("h20_16", "allgather", 2, "trees"),
    ("h20_16", "allgather", 2, "tree-packing"),
    ("fig10", "allgather", 1, "cegis"),
    ("v100_fail_one4", "broadcast", 3, "lns"),
    ("h20_4x3", "allgather", 4, "server-rings"),
)
CASES_BY_SIZE: tuple[tuple[str, CollectiveName, int], ...] = (
    ("fig10", "allgather", 64_000),
    ("fig10", "allgather", 64_000_000),
    ("fig10", "alltoall", 64_000),
)
ALIKE = 1e-3  # of the time
CPU_NOISE = 2.0  # times as many CPU seconds are no difference


@dataclass(frozen=True)
class Outcome:
    """Of one case: steps, and seconds of the program where there is one."""

    case: str
    steps: int
    seconds: float


def requests(section: str) -> Iterator[tuple[str, Request]]:
    """The cases on which thresholds of ``section`` are tried."""
    if section in SIZED:
        for cluster, name, size in CASES_BY_SIZE:
            topology = EXAMPLES / cluster / "topo.dsl"
            yield f"{cluster} {name} {size:,} B", Request(topology, name, size=size, budget=Budget(600.0))
    else:
        for cluster, name, chunks, strategy in CASES_BY_STEPS:
            topology = EXAMPLES / cluster / "topo.dsl"
            request = Request(topology, name, chunks, strategy=strategy, budget=Budget(600.0))
            yield f"{cluster} {name} c={chunks} {strategy}", request


def outcomes(section: str, policy: Policy) -> tuple[list[Outcome], float]:
    """All cases, and their CPU seconds together."""
    started, results = time.process_time(), []
    for case, request in requests(section):
        synthesis = synthesize(replace(request, policy=policy))
        seconds = synthesis.program_seconds or synthesis.time_optimality.seconds or 0.0
        results.append(Outcome(case, synthesis.solution.schedule.makespan, seconds))
    return results, time.process_time() - started


def scaled(value: Any, factor: float) -> Any:
    """A number, or each number of a tuple, times ``factor``; whole numbers stay whole, shares shares."""
    if isinstance(value, tuple):
        return tuple(scaled(part, factor) for part in value)
    if isinstance(value, int):
        return max(0 if value == 0 else 1, round(value * factor))
    return min(value * factor, 1.0) if value < 1.0 else value * factor


def change(section: str, name: str, factor: float, before: tuple[list[Outcome], float]) -> str:
    """In words, what ``factor`` times the threshold changes."""
    values = getattr(DEFAULT, section)
    value = scaled(getattr(values, name), factor)
    if value == getattr(values, name):
        return "-"
    policy = replace(DEFAULT, **{section: replace(values, **{name: value})})
    try:
        after, cpu = outcomes(section, policy)
    except Exception as error:
        return f"fails: {type(error).__name__}: {str(error)[:60]}"
    words = [text for old, new in zip(before[0], after, strict=True) if (text := difference(old, new))]
    ratio = cpu / before[1]
    if not 1 / CPU_NOISE < ratio < CPU_NOISE:
        words.append(f"CPU x {ratio:.1f}")
    return "; ".join(words) or "same"


def difference(old: Outcome, new: Outcome) -> str:
    """Steps, or else seconds, of one case before and after; empty where they are alike."""
    if old.steps != new.steps and " c=" in old.case:
        return f"{old.case}: {old.steps} -> {new.steps} steps"
    if abs(new.seconds - old.seconds) > ALIKE * old.seconds:
        return f"{old.case}: {100 * (new.seconds / old.seconds - 1):+.1f} % time"
    return ""


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="thresholds whose SECTION.NAME begins so")
    only = parser.parse_args().only
    print("# What thresholds are worth\n")
    print("Each threshold halved and doubled, the others as they are; written by")
    print("`python tests/benchmarks/policy_sensitivity.py`, whose head says how.\n")
    print("Cases by steps: " + "; ".join(f"{c} {n} c={k} {s}" for c, n, k, s in CASES_BY_STEPS) + ".\n")
    print("Cases by size: " + "; ".join(f"{c} {n} {size:,} B" for c, n, size in CASES_BY_SIZE) + ".\n")
    for section in (*STEPS, *SIZED):
        names = [f.name for f in fields(getattr(DEFAULT, section)) if f"{section}.{f.name}".startswith(only)]
        if not names:
            continue
        outcomes(section, DEFAULT)  # kernels are compiled, modules imported
        before = outcomes(section, DEFAULT)
        print(f"## {section}\n\n| threshold | value | halved | doubled |\n|---|---|---|---|")
        for name in names:
            value = getattr(getattr(DEFAULT, section), name)
            halved, doubled = (change(section, name, factor, before) for factor in (0.5, 2.0))
            print(f"| `{name}` | {value} | {halved} | {doubled} |", flush=True)
            sys.stderr.write(f"{section}.{name}\n")
        print()


if __name__ == "__main__":
    main()
