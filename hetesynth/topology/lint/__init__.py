"""Topology files that are right and yet doubtful: findings with a span, a severity and a way out."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from hetesynth.model.diagnostics import Diagnostic
from hetesynth.topology.language.elaborate import Inspection, inspected
from hetesynth.topology.language.source import Source
from hetesynth.topology.lint import definitions, limits, rates, wiring
from hetesynth.topology.lint.view import Finding, View, grouped

__all__ = ["RULES", "Rule", "lint", "lint_inspected"]


class Rule(NamedTuple):
    """A check: its code, its name in SARIF, and a summary of its findings."""

    code: str
    name: str
    summary: str


RULES = (
    Rule("HS240", "unlike-twins", "a GPU has less bandwidth inside its server than the others"),
    Rule("HS241", "odd-bandwidth", "a bandwidth that no such hardware has: off by 8 or by 1000"),
    Rule("HS242", "odd-latency", "a latency that no such hardware has: off by 1000"),
    Rule("HS243", "named-twice", "a list names the same part twice"),
    Rule("HS244", "asymmetry", "a link in one direction only, or directions of unlike rates or latencies"),
    Rule("HS245", "idle-part", "hardware that no link uses, or GPUs that only one direction reaches"),
    Rule("HS246", "unused-definition", "a node type or an import that nothing uses"),
    Rule("HS252", "unlike-model", "a rate that GPUs of the stated model, or NICs beside them, do not have"),
    Rule("HS253", "narrow-slot", "a NIC faster than what joins it to GPUs, or a slot narrower than its twins"),
    Rule("HS254", "many-gpus", "more GPUs in a server than the stated model is built with"),
    Rule("HS255", "narrow-network", "a fabric or its uplinks with far less than the NICs below"),
    Rule("HS256", "linked-twice", "two links of one kind between the same two parts"),
    Rule("HS257", "swapped-rails", "NICs of a server in other fabrics than those of its peers"),
)

_IN_THE_TEXT: tuple[Callable[[Inspection], Iterator[Diagnostic]], ...] = (
    definitions.named_twice,
    definitions.unused,
    definitions.upside_down,
)
_OF_PARTS: tuple[Callable[[View], Iterator[Finding]], ...] = (
    rates.doubtful_rates,
    wiring.unlike_twins,
    wiring.one_way,
    wiring.idle,
    wiring.narrow,
    wiring.linked_twice,
    wiring.swapped_rails,
    limits.beyond_models,
    limits.odd_nics,
    limits.behind_nics,
)


def lint(source: Source) -> tuple[list[Diagnostic], dict[str, str]]:
    """Return the findings about ``source``, each once, and the texts by name; ``SourceError`` if it is wrong."""
    return lint_inspected(inspected(source), source)


def lint_inspected(inspections: Iterable[Inspection], source: Source) -> tuple[list[Diagnostic], dict[str, str]]:
    """Return the findings of ``inspections`` of ``source``, each once, and the texts that they point into."""
    findings: dict[Diagnostic, None] = {}
    sources = {source.name: source.text}
    for inspection in inspections:
        view = View(inspection)
        for check in _IN_THE_TEXT:
            findings.update(dict.fromkeys(check(inspection)))
        for rule in _OF_PARTS:
            findings.update(dict.fromkeys(grouped(view, rule(view))))
        sources = {**inspection.sources, **sources}
    ordered = sorted(findings, key=lambda d: (d.span.file, d.span.line, d.span.column, d.code, d.message))
    return ordered, sources
