"""The cells of a manifest: every collective for every target and extent of every cluster, changed by rules.

In: a document and its clusters. Out: ``Cell``s in the order of the manifest, or findings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from hetesynth.deploy.manifest.document import Document
from hetesynth.deploy.manifest.keys import SELECTORS
from hetesynth.deploy.manifest.positions import Path
from hetesynth.deploy.manifest.settings import Settings
from hetesynth.deploy.manifest.sizes import apart, ranges
from hetesynth.deploy.manifest.values import Cell, CellOptions, ClusterEntry, Gates
from hetesynth.errors import HetesynthError
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.size_range import SizeRange
from hetesynth.model.target import target
from hetesynth.search.chunking import ChunkingOptions

MAX_CELLS = 10_000


@dataclass(frozen=True, slots=True)
class _Draft:
    """A cell that rules may still change. ``collective_at``: where it is named."""

    cluster: str
    collective: CollectiveName
    extent: SizeRange | int
    target: str
    settings: Settings
    collective_at: Path


@dataclass
class _Rule:
    path: Path
    table: dict[str, Any]
    sizes: tuple[SizeRange, ...]
    selects: int = field(default=0)

    def is_for(self, draft: _Draft) -> bool:
        """Whether the rule selects the cell."""
        fits = (
            draft.cluster in self.table.get("clusters", (draft.cluster,))
            and draft.collective in self.table.get("collectives", (draft.collective,))
            and draft.target in self.table.get("targets", (draft.target,))
        )
        if not fits or "sizes" not in self.table:
            return fits
        extent = draft.extent
        return isinstance(extent, SizeRange) and any(_inside(extent, one) for one in self.sizes)


def _inside(inner: SizeRange, outer: SizeRange) -> bool:
    ends = outer.high is None or (inner.high is not None and inner.high <= outer.high)
    return outer.low <= inner.low and ends


def cells(document: Document, entries: Mapping[int, ClusterEntry]) -> tuple[Cell, ...]:
    """The cells of the clusters ``entries``, which are known by their places in the document."""
    defaults = Settings({}).over(document.values.get("defaults", {}), ("defaults",))
    checked: dict[Path, tuple[SizeRange, ...]] = {}
    drafts: list[_Draft] = []
    for number, entry in entries.items():
        path: Path = ("cluster", number)
        settings = defaults.over(document.values["cluster"][number], path)
        drafts += _drafts(entry, settings, path, document, checked)
        if len(drafts) > MAX_CELLS:
            message = f"these are more than {MAX_CELLS} schedules"
            document.add_to_key("HS864", path, message, "leave some out, or make a second manifest")
            return ()
    _check_both_extents(document)
    rules = _rules(document, {entry.name for entry in entries.values()})
    changed = [_changed(draft, rules) for draft in drafts]
    _check_rules(rules, document)
    kept = [draft for draft in changed if not draft.settings.get("skip")]
    if drafts and not kept and not document.findings:
        document.add_to_key("HS864", rules[-1].path, "nothing is left to be made", "the rules skip every cell")
    _check_callable(kept, document)
    return tuple(_cell(draft, document) for draft in kept)


def _drafts(
    entry: ClusterEntry, settings: Settings, path: Path, document: Document,
    checked: dict[Path, tuple[SizeRange, ...]],
) -> list[_Draft]:  # fmt: skip
    """The cells of one cluster. ``checked``: lists of sizes that were read before, by their places."""
    collectives, targets = settings.get("collectives"), settings.get("targets")
    if collectives is None:
        if not any(document.positions.has((*at, "collectives")) for at in ((), ("defaults",), path)):
            help_ = 'add collectives = ["allgather", "allreduce"] here or to [defaults]'
            document.add_to_key("HS862", path, "no collectives are named", help_)
        return []
    extents: tuple[SizeRange | int, ...] = (settings.get("chunks"),)
    if "sizes" in settings.stated:
        texts, place = settings.stated["sizes"]
        if place not in checked:
            checked[place] = apart(ranges(texts, place, document), place, document)
        extents = checked[place]
    at = settings.place("collectives", path)
    return [
        _Draft(entry.name, collective, extent, runtime, settings, (*at, i))
        for runtime in targets
        for i, collective in enumerate(collectives)
        for extent in extents
        if collective is not None and runtime is not None
    ]


def _check_both_extents(document: Document) -> None:
    """``sizes`` and ``chunks`` in one table say two things."""
    places: list[tuple[Path, Any]] = [(("defaults",), document.values.get("defaults", {}))]
    places += [(("cluster", i), table) for i, table in enumerate(document.values.get("cluster", ()))]
    for path, table in places:
        if "sizes" in table and "chunks" in table:
            message = "`sizes` and `chunks` exclude each other: with sizes chunks are chosen for each range"
            document.add_to_key("HS865", (*path, "chunks"), message, "leave one of them out")


# --- rules


def _rules(document: Document, clusters: set[str]) -> list[_Rule]:
    from hetesynth.topology.language.findings import did_you_mean

    rules = []
    selectors = {key.name for key in SELECTORS}
    for number, table in enumerate(document.values.get("rule", ())):
        path: Path = ("rule", number)
        changes = {key for key, value in table.items() if key not in selectors and value != {}}
        if not changes and not document.findings:
            help_ = "add strategy, effort, seed, root, single_root, runtime_costs, gates or skip"
            document.add_to_key("HS862", path, "this rule changes nothing", help_)
        for i, name in enumerate(table.get("clusters", ())):
            if name is not None and name not in clusters:
                message = f"there is no cluster `{name[:60]}`"
                document.add("HS864", (*path, "clusters", i), message, did_you_mean(name, clusters))
        sizes = ranges(table.get("sizes", ()), (*path, "sizes"), document)
        rules.append(_Rule(path, table, tuple(sizes.values())))
    return rules


def _changed(draft: _Draft, rules: list[_Rule]) -> _Draft:
    settings = draft.settings
    for rule in rules:
        if rule.is_for(draft):
            rule.selects += 1
            changes = {name: value for name, value in rule.table.items() if name not in _SELECTING}
            settings = settings.over(changes, rule.path)
    return replace(draft, settings=settings)


_SELECTING = frozenset(key.name for key in SELECTORS)


def _check_rules(rules: list[_Rule], document: Document) -> None:
    """A rule that selects nothing is a mistake; only where nothing else is, which may be the reason."""
    if document.findings:
        return
    for rule in rules:
        if not rule.selects:
            help_ = "no cluster has such a cell; `sizes` selects ranges that lie in one of these"
            document.add_to_key("HS864", rule.path, "this rule selects nothing", help_)


# --- one cell


def _cell(draft: _Draft, document: Document) -> Cell:
    settings, rooted = draft.settings, draft.collective in ROOTED
    options = CellOptions(
        strategy=settings.get("strategy"),
        effort=float(settings.get("effort")),
        seed=settings.get("seed"),
        root=settings.get("root") if rooted else None,
        single_root=settings.get("single_root") and rooted,
        runtime_costs=settings.get("runtime_costs"),
        chunking=_chunking(draft, document),
        exclusion=settings.get("exclusion"),
    )
    _check_strategy(draft, document)
    gates = Gates(
        float(settings.get("gates.percent_of_limit") or 0) or None,
        float(settings.get("gates.factor_over_library") or 0) or None,
        settings.get("gates.steps") or None,
        bool(settings.get("gates.proven")),
    )
    return Cell(draft.cluster, draft.collective, draft.extent, draft.target, options, gates)


def _chunking(draft: _Draft, document: Document) -> ChunkingOptions:
    from hetesynth.deploy.manifest.sizes import NoRange, size_of

    settings = draft.settings
    chunk_bytes = None
    text, place = settings.get("chunk_size"), settings.place("chunk_size", draft.collective_at)
    if text is not None and isinstance(draft.extent, SizeRange):
        message = "`chunk_size` is for `chunks`: with `sizes` it follows from the size"
        document.add_to_key("HS865", place, message, "leave it out here")
    elif text is not None:
        try:
            chunk_bytes = size_of(text)
        except NoRange as wrong:
            document.add("HS865", place, wrong.message, wrong.help)
    return ChunkingOptions(chunk_bytes, _reference(draft, document), settings.get("rounding"))


def _reference(draft: _Draft, document: Document) -> str | Fraction:
    from hetesynth.topology.language.quantity import parse_quantity

    text = str(draft.settings.get("tau_ref"))
    place = draft.settings.place("tau_ref", draft.collective_at)
    try:
        if text[:1].isdigit():
            return parse_quantity(text, "time", "tau_ref")
    except HetesynthError as error:
        document.add("HS865", place, error.message.removeprefix("tau_ref: "), error.help)
    else:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", text):
            document.add("HS865", place, f"`{text[:60]}` is no reference", 'such as "slowest", "nic" or "20us"')
    return text


def _check_strategy(draft: _Draft, document: Document) -> None:
    from hetesynth.search.registry import row_of

    name = draft.settings.get("strategy")
    row, place = row_of(name), draft.settings.place("strategy", draft.collective_at)
    if draft.collective not in row.accepts:
        message = f"strategy {name} has no {draft.collective}"
        document.add("HS864", place, message, f"it takes {', '.join(row.accepts)}; a [[rule]] states it for these")
    elif row.objective == "time" and not isinstance(draft.extent, SizeRange):
        message = f"strategy {name} counts seconds, so it needs to know sizes"
        document.add(
            "HS865", place, message, 'state sizes, such as sizes = ["..1MB", "1MB.."], or strategy = "auto"'
        )


# --- what runtimes do with it


def _check_callable(drafts: Sequence[_Draft], document: Document) -> None:
    """A finding at each collective that targets never run, or whose programs they run for other roots too."""
    from hetesynth.engine.program_warnings import demand_single_root

    never: dict[Path, dict[str, _Draft]] = {}
    unpromised: dict[Path, dict[str, _Draft]] = {}
    for draft in drafts:
        if draft.collective not in target(draft.target).collectives:
            never.setdefault(draft.collective_at, {})[draft.target] = draft
        elif draft.collective in ROOTED and not draft.settings.get("single_root"):
            unpromised.setdefault(draft.collective_at, {})[draft.target] = draft
    for place, by_target in never.items():
        collective = next(iter(by_target.values())).collective
        who = ", ".join(f"{name} ({target(name).runtime})" for name in by_target)
        names = ", ".join(f'"{name}"' for name in by_target)
        help_ = f'leave it out: [[rule]] collectives = ["{collective}"], targets = [{names}], skip = true'
        document.add("HS867", place, f"{who} never run{'s' * (len(by_target) == 1)} a {collective}", help_)
    for place, by_target in unpromised.items():
        draft = next(iter(by_target.values()))
        try:
            demand_single_root([target(name) for name in by_target], draft.collective, promised=False)
        except HetesynthError as error:
            root = draft.settings.get("root")
            help_ = f"add single_root = true if every {draft.collective} of the job has root {root}, or skip it"
            document.add("HS867", place, error.message, help_)
