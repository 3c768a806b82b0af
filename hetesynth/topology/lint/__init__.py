"""Topology files that are right and yet doubtful: findings with a span, a severity and a way out.

In: a ``Source`` and the thresholds. Out: diagnostics in the order of the text. Knows nothing of schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hetesynth.model.diagnostics import Diagnostic
from hetesynth.policy.compile import CompilePolicy
from hetesynth.topology.language.inspection import Inspection, inspected
from hetesynth.topology.language.source import Source
from hetesynth.topology.lint import definitions, limits, network, rates, rounding, symmetry
from hetesynth.topology.lint.rules import RULES, Rule

__all__ = ["RULES", "Rule", "lint", "lint_inspected"]

_CHECKS: tuple[Callable[[Inspection], Iterator[Diagnostic]], ...] = (
    rates.doubtful_rates,
    definitions.named_twice,
    definitions.unused,
    definitions.one_of_a_range,
    symmetry.unlike_twins,
    symmetry.one_way,
    symmetry.unlike_nics,
    symmetry.idle,
    symmetry.unlike_servers,
    limits.beyond_models,
    limits.behind_nics,
    network.narrow,
    network.linked_twice,
    network.swapped_rails,
    network.one_way_between,
    network.without_a_nic,
)


def lint(source: Source, policy: CompilePolicy) -> tuple[list[Diagnostic], dict[str, str]]:
    """The findings about ``source``, each once, and the texts they point into; ``SourceError`` if it is wrong."""
    return lint_inspected(inspected(source), source, policy)


def lint_inspected(
    inspections: Iterable[Inspection], source: Source, policy: CompilePolicy
) -> tuple[list[Diagnostic], dict[str, str]]:
    """The same of inspections of ``source`` that are there already."""
    findings: dict[Diagnostic, None] = {}
    sources = {source.name: source.text}
    for inspection in inspections:
        for check in _CHECKS:
            findings.update(dict.fromkeys(check(inspection)))
        findings.update(dict.fromkeys(rounding.distorted(inspection, policy.large_rounding_error)))
        sources = {**inspection.sources, **sources}
    order = {"error": 0, "warning": 1, "note": 2}
    ordered = sorted(
        findings, key=lambda d: (d.span.file, d.span.line, d.span.column, order[d.severity], d.code, d.message)
    )
    return ordered, sources
