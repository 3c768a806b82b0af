"""The judge of compositions: expands a document to every transfer and checks all laws on them.

In: the bytes of a document, and the cluster as pods where it is told. Out: violations, none for a good one.
Shares no code with the composition: gates, paths, patterns and times are taken from the document and checked
against the cluster. Without a cluster only data and order are judged, not loads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from hetesynth.judge.composition.capacity_laws import CapacityLaws
from hetesynth.judge.composition.data_laws import copy_violations, sum_violations
from hetesynth.judge.composition.document import COLLECTIVES, Document, NotReadable, read_document
from hetesynth.judge.composition.expansion import Expansion
from hetesynth.model.pods import PodCluster
from hetesynth.model.verdict import Violation

MOST_VIOLATIONS = 20


@dataclass(frozen=True, slots=True)
class CompositionVerdict:
    """What the judge says. ``picoseconds``: when the last transfer has ended; ``document``: what was read, if it
    could be."""

    violations: tuple[Violation, ...]
    readable: bool
    ranks: int = 0
    deliveries: int = 0
    picoseconds: int = 0
    document: Document | None = None


def judge_composition(data: bytes, cluster: PodCluster | None) -> CompositionVerdict:
    """Everything wrong with the composition in ``data``, the first few of it."""
    try:
        document = read_document(data)
    except NotReadable as reason:
        return CompositionVerdict((Violation("syntax", str(reason)),), readable=False)
    wrong = tuple(islice(_violations(document, cluster), MOST_VIOLATIONS))
    expansions = [Expansion(document, phase) for phase in document.phases]
    end = sum(max((event.end for event in e.events()), default=0) for e in expansions)
    wrong += tuple(_false_claims(document, end))
    deliveries = document.positions * (document.ranks - 1) * len(document.phases)
    return CompositionVerdict(wrong, True, document.ranks, deliveries, end, document)


def _false_claims(document: Document, end: int) -> Iterator[Violation]:
    """What the header says and the transfers do not."""
    if document.claimed_time != end:
        yield Violation("certificate", f"it is said to take {document.claimed_time} ps, and takes {end}")
    if document.claimed_bound > end:
        yield Violation("certificate", f"the bound is said to be {document.claimed_bound} ps, and {end} suffice")


def _violations(document: Document, cluster: PodCluster | None) -> Iterator[Violation]:
    asked = COLLECTIVES[document.collective]
    if tuple(phase.adds for phase in document.phases) != asked:
        yield Violation("not-delivered", f"the phases are not those of {document.collective}")
        return
    if cluster is not None and not _same_pods(document, cluster):
        yield Violation("no-such-link", "the pods are not those of the cluster")
        return
    expansions = [Expansion(document, phase) for phase in document.phases]
    if any((e.owner != expansions[0].owner).any() for e in expansions):
        yield Violation("not-delivered", "the phases differ in whose chunk a position is")
        return
    for phase, expansion in zip(document.phases, expansions, strict=True):
        events = expansion.events()
        yield from sum_violations(expansion, events) if phase.adds else copy_violations(expansion, events)
        if cluster is not None:
            yield from CapacityLaws(expansion, cluster).violations(events)


def _same_pods(document: Document, cluster: PodCluster) -> bool:
    pods = tuple((pod.name, pod.first_rank, cluster.size(p)) for p, pod in enumerate(cluster.pods))
    return document.pods == pods
