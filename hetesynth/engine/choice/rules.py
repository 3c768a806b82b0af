"""The rules of ``auto`` where a size is given: which candidate specs are tried, in which order, and when.

Each rule notes why it was skipped. What holds of a strategy (keeps its time, needs few peers) stands in its row of
the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from hetesynth.engine.choice.candidates import CandidateSpec, CandidateSpecs, strategy_of
from hetesynth.engine.problem import MANY_RANKS
from hetesynth.model.decisions import Decisions
from hetesynth.policy.autotune import AutotunePolicy
from hetesynth.search import registry
from hetesynth.search.chunking import Chunking, ChunkingOptions
from hetesynth.search.search import Rule, applicable


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


def _skipped_if(holds: Callable[[Situation], bool], why: str) -> Condition:
    return lambda situation: why if holds(situation) else None


no_programs = _skipped_if(lambda s: not s.programs, "no programs are made")
personalized = _skipped_if(lambda s: s.specs.personalized, "every chunk is for one rank")
not_personalized = _skipped_if(lambda s: not s.specs.personalized, "chunks go to several ranks, or are added")
links_independent = _skipped_if(lambda s: s.specs.independent, "links share nothing")
links_share = _skipped_if(lambda s: not s.specs.independent, "links share resources")
empty_chunks = _skipped_if(lambda s: s.specs.chunk_bytes(s.chunks) < 1, "a chunk would be less than a byte")


def slower_as_program(name: str) -> Condition:
    """Programs are made, and others are quicker than those of strategy ``name``."""
    return lambda situation: past_programs(situation, registry.row_of(name))


def past_programs(situation: Situation, row: registry.StrategyRow) -> str | None:
    """Programs are made, and others are quicker than those of ``row``."""
    slower = situation.programs and situation.specs.request.collective in row.schedules_only
    return "programs are made, and others are quicker" if slower else None


def one_chunking(situation: Situation) -> str | None:
    """The capacities of eq. 1 round as little as any."""
    if len(situation.chunkings) > 1:
        return None
    if situation.specs.request.chunking != ChunkingOptions():
        return "the rounding of capacities is stated"
    if not situation.less_rounding:
        return "time is over, only the capacities of eq. 1 are tried"
    return "no capacities round less than those of eq. 1"


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


arrival_guides = _skipped_if(
    lambda s: arrival_misleads(s) is None, "at this ratio the rule 'earliest arrival' is for it"
)


def too_large_for(name: str) -> Condition:
    """A schedule has more transfers than the row of strategy ``name`` allows."""
    return lambda situation: past_row(situation, registry.row_of(name))


def past_row(situation: Situation, row: registry.StrategyRow) -> str | None:
    """A schedule has more transfers than ``row`` allows."""
    return None if row.max_transfers is None else more_transfers(row.max_transfers)(situation)


TimeRule = Rule[Situation, Iterable[CandidateSpec]]
"""Runs by saying what is tried."""


def applied(rules: Iterable[TimeRule], situation: Situation) -> Iterator[CandidateSpec]:
    """The specs of all ``rules`` that apply, one rule after the other."""
    for rule in applicable(rules, situation, situation.decisions):
        situation.decisions.note(rule.name, "applied", "its conditions hold")
        yield from rule.run(situation)


def opening(specs: CandidateSpecs, decisions: Decisions, *, programs: bool) -> Iterator[CandidateSpec]:
    """What is tried before all numbers of chunks are gone through.

    What keeps its time as a program, where ``programs`` are made, server rings first and rings last; on large
    clusters other fixed routes, which take little time; what comes near the bound at the first try where bytes
    weigh much.
    """
    situation = Situation(specs, specs.counts()[0], decisions.inside("opening"), programs=programs)
    yield from applied(OPENING, situation)


def of_count(
    specs: CandidateSpecs, chunks: int, decisions: Decisions, *, programs: bool, less_rounding: bool = True
) -> Iterator[CandidateSpec]:
    """The specs with ``chunks`` chunks per rank; ``programs``: whether programs are made of what wins. Raises
    HetesynthError HS611 where chunks would be empty."""
    if specs.chunk_bytes(chunks) < 1:
        raise specs.too_small(chunks)
    rules = EVERY_COUNT if specs.request.strategy == "auto" else STATED
    record = decisions.inside(f"chunks {chunks}")
    yield from applied(rules, Situation(specs, chunks, record, less_rounding, programs))


def out_of_time(specs: CandidateSpecs, decisions: Decisions) -> Iterator[CandidateSpec]:
    """Fixed routes, which need no search, with as few chunks as allowed; nothing where these are many."""
    yield from applied(OUT_OF_TIME, Situation(specs, min(specs.counts()), decisions.inside("out of time")))


# ---- specs


def _steps(name: str) -> Callable[[Situation], Iterator[CandidateSpec]]:
    """Strategy ``name``, which counts steps, with all capacities."""
    return lambda situation: situation.specs.named(name, situation.chunks, situation.chunkings)


def _paper(name: str) -> Callable[[Situation], Iterator[CandidateSpec]]:
    """The same with the paper's capacities."""
    return lambda situation: situation.specs.named(name, situation.chunks, situation.chunkings[:1])


def _seconds(name: str, share: Threshold | None = None) -> Callable[[Situation], Iterator[CandidateSpec]]:
    """Strategy ``name``, which counts seconds; ``share`` of the remaining budget for each."""

    def specs(situation: Situation) -> Iterator[CandidateSpec]:
        of_budget = None if share is None else share(situation.specs.policy)
        yield from situation.specs.timed(registry.row_of(name), situation.chunks, situation.chunkings, of_budget)

    return specs


def _first(
    specs: Callable[[Situation], Iterator[CandidateSpec]],
) -> Callable[[Situation], Iterator[CandidateSpec]]:
    return lambda situation: islice(specs(situation), 1)


def _packed(situation: Situation) -> Iterator[CandidateSpec]:
    return situation.specs.packed(situation.chunks, situation.chunkings[0])


def _fixed_routes(situation: Situation, rows: Iterable[registry.StrategyRow]) -> Iterator[CandidateSpec]:
    """Strategies whose routes are fixed, with the paper's capacities; no search for others."""
    if situation.specs.chunk_bytes(situation.chunks) < 1:
        raise situation.specs.too_small(situation.chunks)
    for row in rows:
        paper = situation.specs.paper_chunking(situation.chunks)
        yield from situation.specs.named(row.name, situation.chunks, [paper])


def _few_peers(situation: Situation) -> Iterator[CandidateSpec]:
    """Where load counts more than latency server rings first, as time may end after the first."""
    specs = situation.specs
    heavy = specs.bandwidth_latency_ratio >= specs.policy.ratio_load_counts
    return _fixed_routes(situation, registry.with_few_peers(load_first=heavy))


def _last_resort(situation: Situation) -> Iterator[CandidateSpec]:
    """A ring, or where chunks have to be relayed all with few peers; then what takes any cluster."""
    specs, rows = situation.specs, registry.with_few_peers(fallback=True)
    relayed = specs.personalized and specs.topology.ranks > MANY_RANKS
    return _fixed_routes(situation, [row for row in rows if relayed or row.fallback or row.name == "ring"])


def _keeping_time(name: str) -> Callable[[Situation], Iterator[CandidateSpec]]:
    """Fixed routes ``name`` with every number of chunks with which programs keep the time of their schedules."""

    def specs(situation: Situation) -> Iterator[CandidateSpec]:
        of_size, policy = situation.specs, situation.specs.policy
        for chunks in of_size.counts():
            number, what = of_size.transfers(chunks), f"{name} that keep their time, c={chunks}"
            if number > policy.max_transfers_keeping_time:
                most = policy.max_transfers_keeping_time
                situation.decisions.note(what, "skipped", f"{number:,} transfers are more than {most:,}")
            elif chunks > policy.max_chunks_keeping_time:
                most = policy.max_chunks_keeping_time
                situation.decisions.note(what, "skipped", f"{chunks} chunks per rank are more than {most}")
            elif of_size.chunk_bytes(chunks) >= 1:
                yield from of_size.named(name, chunks, [of_size.paper_chunking(chunks)])

    return specs


def _baselines(situation: Situation) -> Iterator[CandidateSpec]:
    """What libraries do, but for strategies that have a rule of their own."""
    for row in registry.ROWS:
        if not row.library or not row.candidate or row.placed:
            continue
        reason = past_programs(situation, row)
        if reason is not None:
            situation.decisions.note(row.name, "skipped", reason)
        else:
            yield from situation.specs.named(row.name, situation.chunks, situation.chunkings[:1])


def _unplaced(situation: Situation) -> Iterator[CandidateSpec]:
    """The candidates of the registry that no rule names."""
    for row in registry.ROWS:
        if not row.candidate or row.library or row.placed:
            continue
        reason = past_row(situation, row)
        if reason is not None:
            situation.decisions.note(row.name, "skipped", reason)
        elif row.objective == "time":
            yield from situation.specs.timed(row, situation.chunks, situation.chunkings)
        else:
            yield from situation.specs.named(row.name, situation.chunks, situation.chunkings)


def _stated_strategy(situation: Situation) -> Iterator[CandidateSpec]:
    """The strategy that the user names."""
    specs, request = situation.specs, situation.specs.request
    row = registry.row_of(request.strategy)
    if row.objective == "steps" or request.rings:
        yield from specs.each(strategy_of(request, specs.topology), situation.chunks, situation.chunkings)
        return
    reason = past_row(situation, row)
    if reason is None:
        yield from specs.timed(row, situation.chunks, situation.chunkings)
    else:
        situation.decisions.note(row.name, "skipped", reason)


# ---- the chains

_KEEPING_TIME: tuple[Condition, ...] = (
    stated, no_programs, personalized, below(lambda p: p.ratio_load_counts), links_independent,
)  # fmt: skip
_NO_PACKING: Condition = slower_as_program("tree-packing")
_TREES_FIRST: tuple[Condition, ...] = (stated, personalized, not_above(lambda p: p.ratio_trees_first))

OPENING: tuple[TimeRule, ...] = (
    Rule("server rings", _KEEPING_TIME, _keeping_time("server-rings")),
    Rule("few peers", (stated, few_transfers), _few_peers),
    Rule("tree packing first", (*_TREES_FIRST, links_independent, _NO_PACKING), _packed),
    Rule(
        "negotiated loads first",
        (*_TREES_FIRST, links_share, one_chunking, too_large_for("negotiated")),
        _seconds("negotiated", lambda p: p.share_negotiated),
    ),
    Rule(
        "earliest arrival first", (*_TREES_FIRST, links_share, too_large_for("timed")), _first(_seconds("timed"))
    ),
    Rule("greedy rounds first", (*_TREES_FIRST, links_share), _paper("greedy")),
    Rule("rings", _KEEPING_TIME, _keeping_time("ring")),
)
EVERY_COUNT: tuple[TimeRule, ...] = (
    Rule("balanced paths", (not_personalized,), _seconds("exchange")),
    Rule(
        "negotiated loads",
        (
            personalized, below(lambda p: p.ratio_load_counts), links_share, one_chunking,
            too_large_for("negotiated"),
        ),
        _seconds("negotiated", lambda p: p.share_negotiated),
    ),
    Rule("earliest arrival", (arrival_misleads, too_large_for("timed")), _seconds("timed")),
    Rule(
        "balanced trees in seconds",
        (personalized, more_transfers(lambda p: p.max_transfers_balanced_trees), one_chunking),
        _seconds("timed-trees"),
    ),
    Rule("baselines", (more_transfers(lambda p: p.max_transfers_fixed_routes),), _baselines),
    Rule("tree packing", (personalized, not_above(lambda p: p.ratio_load_counts), _NO_PACKING), _packed),
    Rule("greedy rounds", (), _steps("greedy")),
    Rule(
        "balanced trees",
        (personalized, more_transfers(lambda p: p.max_transfers_balanced_trees)),
        _steps("trees"),
    ),
    Rule("earliest arrival last", (arrival_guides, many_chunks, too_large_for("timed")), _seconds("timed")),
    Rule("other strategies", (), _unplaced),
)  # fmt: skip
OUT_OF_TIME: tuple[TimeRule, ...] = (
    Rule(
        "fixed routes",
        (stated, more_transfers(lambda p: p.max_transfers_fixed_routes), empty_chunks),
        _last_resort,
    ),
)
STATED: tuple[TimeRule, ...] = (Rule("stated strategy", (), _stated_strategy),)
