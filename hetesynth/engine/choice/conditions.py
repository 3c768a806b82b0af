"""Conditions of the rules by time: each is named by what makes it skip a rule, and says why, or None.

In: candidate specs with a number of chunks per rank, and the thresholds of the policy. Out: reasons in words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from hetesynth.engine.choice.candidates import CandidateSpecs
from hetesynth.model.decisions import Decisions
from hetesynth.policy.autotune import AutotunePolicy
from hetesynth.search import registry
from hetesynth.search.chunking import Chunking, ChunkingOptions


@dataclass(frozen=True)
class Situation:
    """What the conditions look at: candidates with ``chunks`` chunks per rank.

    ``less_rounding``: with capacities that round less, which take seconds to find on large clusters. ``programs``:
    whether programs are made of what wins.
    """

    specs: CandidateSpecs
    chunks: int
    decisions: Decisions
    less_rounding: bool = True
    programs: bool = True

    @cached_property
    def chunkings(self) -> list[Chunking]:
        """The capacities to try, the paper's first."""
        return self.specs.chunkings(self.chunks, less_rounding=self.less_rounding)

    @property
    def transfers(self) -> int:
        """Of a schedule, about."""
        return self.specs.transfers(self.chunks)


Condition = Callable[[Situation], str | None]
"""Why a rule does not apply, or None."""
Threshold = Callable[[AutotunePolicy], float]


def stated(situation: Situation) -> str | None:
    """The user names a strategy."""
    name = situation.specs.request.strategy
    return None if name == "auto" else f"strategy {name} is stated"


def no_programs(situation: Situation) -> str | None:
    """Only schedules are asked for."""
    return None if situation.programs else "no programs are made"


def slower_as_program(name: str) -> Condition:
    """Programs are made, and others are quicker than those of strategy ``name``."""

    def condition(situation: Situation) -> str | None:
        return past_programs(situation, registry.row_of(name))

    return condition


def past_programs(situation: Situation, row: registry.StrategyRow) -> str | None:
    """Programs are made, and others are quicker than those of ``row``."""
    slower = situation.programs and situation.specs.request.collective in row.schedules_only
    return "programs are made, and others are quicker" if slower else None


def personalized(situation: Situation) -> str | None:
    """Every chunk is for one rank."""
    return "every chunk is for one rank" if situation.specs.personalized else None


def not_personalized(situation: Situation) -> str | None:
    """Chunks are for several ranks."""
    return None if situation.specs.personalized else "chunks go to several ranks, or are added"


def links_independent(situation: Situation) -> str | None:
    """No two links share a resource."""
    return "links share nothing" if situation.specs.independent else None


def links_share(situation: Situation) -> str | None:
    """Links share resources."""
    return None if situation.specs.independent else "links share resources"


def one_chunking(situation: Situation) -> str | None:
    """The capacities of eq. 1 round as little as any."""
    if len(situation.chunkings) > 1:
        return None
    if situation.specs.request.chunking != ChunkingOptions():
        return "the rounding of capacities is stated"
    if not situation.less_rounding:
        return "time is over, only the capacities of eq. 1 are tried"
    return "no capacities round less than those of eq. 1"


def empty_chunks(situation: Situation) -> str | None:
    """The buffer is too small for the number of chunks."""
    return None if situation.specs.chunk_bytes(situation.chunks) >= 1 else "a chunk would be less than a byte"


def _shown(ratio: float) -> str:
    """Three digits or more, without an exponent."""
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def _ratio(words: str, outside: Callable[[float, float], bool], limit: Threshold) -> Condition:
    def condition(situation: Situation) -> str | None:
        ratio, border = situation.specs.bandwidth_latency_ratio, limit(situation.specs.policy)
        skipped = outside(ratio, border)
        return f"bandwidth-to-latency ratio {_shown(ratio)} is {words} {border:g}" if skipped else None

    return condition


def below(limit: Threshold) -> Condition:
    """The ratio is below ``limit``."""
    return _ratio("below", lambda ratio, border: ratio < border, limit)


def not_above(limit: Threshold) -> Condition:
    """The ratio is not above ``limit``."""
    return _ratio("not above", lambda ratio, border: ratio <= border, limit)


def more_transfers(limit: Threshold) -> Condition:
    """A schedule has more transfers than ``limit``."""

    def condition(situation: Situation) -> str | None:
        most = limit(situation.specs.policy)
        return f"{situation.transfers:,} transfers are more than {most:,}" if situation.transfers > most else None

    return condition


def few_transfers(situation: Situation) -> str | None:
    """The collective is so small that searches end soon."""
    most = situation.specs.policy.max_transfers_fixed_routes
    return None if situation.transfers > most else f"{situation.transfers:,} transfers are not more than {most:,}"


def many_chunks(situation: Situation) -> str | None:
    """There are more chunks than earliest arrival is tried with where it misleads."""
    most = situation.specs.policy.max_chunks_misled
    return f"{situation.chunks} chunks per rank are more than {most}" if situation.chunks > most else None


def arrival_misleads(situation: Situation) -> str | None:
    """Bytes weigh so much that earliest arrival is no guide: it then comes last."""
    policy, personalized = situation.specs.policy, situation.specs.personalized
    limit = policy.ratio_arrival_misleads_personalized if personalized else policy.ratio_arrival_misleads
    ratio = situation.specs.bandwidth_latency_ratio
    return f"bandwidth-to-latency ratio {_shown(ratio)} is above {limit:g}" if ratio > limit else None


def arrival_guides(situation: Situation) -> str | None:
    """Earliest arrival does not come last."""
    return None if arrival_misleads(situation) else "at this ratio the rule 'earliest arrival' is for it"


def too_large_for(name: str) -> Condition:
    """A schedule has more transfers than the row of strategy ``name`` allows."""

    def condition(situation: Situation) -> str | None:
        return past_row(situation, registry.row_of(name))

    return condition


def past_row(situation: Situation, row: registry.StrategyRow) -> str | None:
    """A schedule has more transfers than ``row`` allows."""
    return None if row.max_transfers is None else more_transfers(row.max_transfers)(situation)
