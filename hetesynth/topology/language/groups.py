"""``shared`` statements -> the topology's stated limits on links together.

In: statements with their scopes, the GPUs in rank order, the links. Out: ``SharedGroup`` values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hetesynth.model.topology import Link, Rank, SharedGroup
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.names import Part, Scope, plain
from hetesynth.topology.language.properties import lanes_of
from hetesynth.topology.language.syntax import Flow, Shared
from hetesynth.topology.language.units import measure


def shared_groups(
    stated: Iterable[tuple[Shared, Scope]], gpus: Sequence[Part], links: Sequence[Link], findings: Findings
) -> tuple[SharedGroup, ...]:
    """One group a statement, or two (``NAME.fwd``, ``NAME.rev``) where it says ``<->``."""
    statements = list(stated)
    if not statements:
        return ()
    rank = {part.name: i for i, part in enumerate(gpus)}
    between: dict[tuple[Rank, Rank], list[int]] = {}
    for index, link in enumerate(links):
        between.setdefault((link.src, link.dst), []).append(index)
    groups: list[SharedGroup] = []
    names: set[str] = set()
    for shared, scope in statements:
        for group in _groups_of(shared, scope, rank, between, findings):
            if group.name in names:
                findings.add(
                    "HS203", shared.name.span, f"there are two shared groups `{group.name}`", "rename one"
                )
            names.add(group.name)
            groups.append(group)
    return tuple(groups)


def _groups_of(
    shared: Shared,
    scope: Scope,
    rank: dict[str, Rank],
    between: dict[tuple[Rank, Rank], list[int]],
    findings: Findings,
) -> list[SharedGroup]:
    name = plain(shared.name, "a shared group", findings)
    bandwidth = measure(shared.amount, "bandwidth", "a bandwidth", findings)
    lanes = lanes_of(shared.lanes, findings)
    forward: set[int] = set()
    backward: set[int] = set()
    for flow in shared.flows:
        there, back = _links_of(flow, scope, rank, between, findings)
        forward |= there
        backward |= back
    if name is None or bandwidth is None or findings:
        return []
    if not forward and not backward and shared.optional:
        return []
    if not forward and not backward:
        findings.add(
            "HS219", shared.name.span, f"no link is in shared group `{name}`", "name GPUs that links join"
        )
        return []
    full = scope.prefix + name
    directions = [("", forward)] if not backward else [(".fwd", forward), (".rev", backward)]
    return [
        SharedGroup(full + direction, "shared", bandwidth, tuple(sorted(of)), lanes)
        for direction, of in directions
        if of
    ]


def _links_of(
    flow: Flow,
    scope: Scope,
    rank: dict[str, Rank],
    between: dict[tuple[Rank, Rank], list[int]],
    findings: Findings,
) -> tuple[set[int], set[int]]:
    sides: list[list[Rank]] = []
    for words in (flow.left, flow.right):
        parts = scope.resolve(words)
        wrong = next((part for part in parts if part.kind != "gpu"), None)
        if wrong is not None:
            message = f"a shared group names GPUs; `{wrong.name}` is none"
            findings.add("HS211", words[0].span, message, "name the GPUs whose links share the limit")
        sides.append([rank[part.name] for part in parts if part.name in rank])
    left, right = sides
    findings.spend(len(left) * len(right), flow.span)
    there = {i for u in left for v in right for i in between.get((u, v), ())}
    back = {i for u in left for v in right for i in between.get((v, u), ())} if flow.both_ways else set()
    return there, back
