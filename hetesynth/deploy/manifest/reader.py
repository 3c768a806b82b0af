"""``hetesynth.toml`` to a ``Manifest``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path as FilePath
from typing import Any

from hetesynth.deploy.manifest.clusters import check_apart, clusters, output
from hetesynth.deploy.manifest.document import Document, Path, read_document
from hetesynth.deploy.manifest.keys import DEFAULTS, GATES, SELECTORS
from hetesynth.deploy.manifest.values import Cell, CellOptions, ClusterEntry, Gates, Manifest
from hetesynth.engine.program_warnings import demand_single_root
from hetesynth.errors import HetesynthError, did_you_mean
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.size_range import SizeRange, spelled_range, spelling
from hetesynth.model.target import target
from hetesynth.search.chunking import ChunkingOptions
from hetesynth.search.registry import row_of
from hetesynth.topology.language.units import parse_quantity

EXTENT = ("sizes", "chunks")
"""Keys of which a table that states one overrules both, and with sizes the size of chunks too."""
MAX_SIZE = 1 << 50
_OTHER_DOTS = re.compile(r"\.{3,}|…|\s-\s|(?<=[A-Za-z])-(?=[0-9])|\bto\b|:|–")
MAX_CELLS = 10_000
FILE_NAME = "hetesynth.toml"


@dataclass(frozen=True, slots=True)
class Settings:
    """``stated``: (value, place) by key; those of gates as ``gates.steps``."""

    stated: dict[str, tuple[Any, Path]]

    def over(self, table: dict[str, Any], path: Path) -> Settings:
        """With what ``table``, which stands at ``path``, says laid over."""
        overruled = {*(EXTENT if set(EXTENT) & set(table) else ()), *(("chunk_size",) if "sizes" in table else ())}
        stated = {name: one for name, one in self.stated.items() if name not in overruled}
        for name, value in table.items():
            if name == "gates":
                stated |= {f"gates.{gate}": (one, (*path, name, gate)) for gate, one in value.items()}
                continue
            stated[name] = (value, (*path, name))
        return Settings(stated)

    def get(self, name: str) -> Any:
        """The value of ``name``, or its default."""
        if name in self.stated:
            return self.stated[name][0]
        table, _, gate = name.partition(".")
        key = GATES.key(gate) if table == "gates" and gate else DEFAULTS.key(name)
        return None if key is None else key.default

    def place(self, name: str, otherwise: Path) -> Path:
        """Where the value of ``name`` stands."""
        return self.stated[name][1] if name in self.stated else otherwise


class NoRange(Exception):
    """The characters of a text that are no size, and why."""

    def __init__(self, start: int, length: int, message: str, help: str) -> None:
        super().__init__(message)
        self.start, self.length, self.message, self.help = start, length, message, help


def size_range(text: str) -> SizeRange:
    """The range that ``text`` says. Raises ``NoRange``."""
    other = _OTHER_DOTS.search(text)
    if other:
        ends = f"{text[: other.start()].strip()[:20]}..{text[other.end() :].strip()[:20]}"
        raise NoRange(0, len(text), f"`{text[:60]}` is no range", f'write "{ends}"')
    if text.count("..") > 1:
        raise NoRange(0, len(text), f"`{text[:60]}` is no range", 'a range has two ends: "1MB..64MB"')
    before, dots, after = text.partition("..")
    if not before.strip() and not after.strip():
        help_ = 'one end is needed: "..1MB" or "1MB.."; for all sizes leave `sizes` out'
        raise NoRange(0, len(text), f"`{text[:60]}` has no end", help_)
    if dots and after.strip() and re.fullmatch(r"0+(\.0+)?\s*[A-Za-z]*", before.strip()):
        help_ = f'write "..{after.strip()[:20]}"'
        raise NoRange(0, len(text), f"`{text[:60]}` begins at no size", help_)
    low = size_of(before) if before.strip() else 0
    high = size_of(after, len(before) + 2) if after.strip() else None if dots else low
    if high is not None and high < low:
        help_ = f'write "{spelling(high)}..{spelling(low)}"'
        raise NoRange(0, len(text), f"`{text[:60]}` ends before it begins", help_)
    return SizeRange(low, high, spelled_range(low, high))


def size_of(text: str, start: int = 0) -> int:
    """The bytes that ``text`` says, which begins at ``start`` of another. Raises ``NoRange``."""
    start += len(text) - len(text.lstrip())
    word = text.strip()
    try:
        bytes_ = parse_quantity(word, "size", "sizes")
    except HetesynthError as error:
        help_ = error.help.replace(
            "for example 16MB", "a number with B, KB, MB, GB, KiB, MiB or GiB (M alone is MiB)"
        )
        help_ = f"did you mean {word}MB?" if re.fullmatch("[0-9.]{1,18}", word) else help_
        raise NoRange(start, len(word), f"`{word[:60]}` is no size with a unit", help_) from None
    if bytes_.denominator != 1 or not 1 <= bytes_ <= MAX_SIZE:
        raise NoRange(start, len(word), f"`{word[:60]}` is no whole number of bytes up to 1 PiB", "such as 64MB")
    return int(bytes_)


def ranges(texts: Sequence[str | None], path: Path, document: Document) -> dict[int, SizeRange]:
    """The ranges in a list of the document by their places in it; findings for those that are none."""
    read = {}
    for number, text in enumerate(texts):
        if text is None:
            continue
        try:
            read[number] = size_range(text)
        except NoRange as wrong:
            place = document.positions.inside((*path, number), wrong.start, wrong.length)
            document.findings.add("HS865", place, wrong.message, wrong.help)
    return read


def apart(read: dict[int, SizeRange], path: Path, document: Document) -> tuple[SizeRange, ...]:
    """The same for one folder, where no two may overlap; an end at which another begins is that one's."""
    ordered = sorted(read.items(), key=lambda item: (item[1].low, item[1].high or math.inf))
    widest: SizeRange | None = None
    for number, one in ordered:
        if widest is not None and (widest.high is None or one.low < widest.high or one.low == widest.low):
            way_out = "a call must fit one range only"
            if (one.low, one.high) == (widest.low, widest.high):
                way_out = "name a range once"
            elif one.low > widest.low:
                begins = spelled_range(widest.low, one.low)
                way_out = f"one may begin where the other ends: {begins}, {one.text}"
            document.add("HS865", (*path, number), f"`{one.text}` and `{widest.text}` overlap", way_out)
        if widest is None or (widest.high is not None and (one.high is None or one.high > widest.high)):
            widest = one
    return tuple(
        replace(one, closed=all(one.high != other.low for i, other in read.items() if i != number))
        for number, one in read.items()
    )


@dataclass(frozen=True, slots=True)
class _Draft:
    """A cell that rules may still change. ``collective_at``: where it is named."""

    cluster: str
    collective: CollectiveName
    extent: SizeRange | int
    target: str
    settings: Settings
    collective_at: Path


_SELECTING = frozenset(key.name for key in SELECTORS)


@dataclass
class _Rule:
    path: Path
    table: dict[str, Any]
    sizes: tuple[SizeRange, ...]
    selects: int = 0

    def is_for(self, draft: _Draft) -> bool:
        """True where the rule selects the cell."""
        fits = (
            draft.cluster in self.table.get("clusters", (draft.cluster,))
            and draft.collective in self.table.get("collectives", (draft.collective,))
            and draft.target in self.table.get("targets", (draft.target,))
        )
        if not fits or "sizes" not in self.table:
            return fits
        inner = draft.extent
        return isinstance(inner, SizeRange) and any(
            outer.low <= inner.low
            and (outer.high is None or (inner.high is not None and inner.high <= outer.high))
            for outer in self.sizes
        )


def cells(document: Document, entries: Mapping[int, ClusterEntry]) -> tuple[Cell, ...]:
    """The cells of the clusters ``entries``, which are known by their places in the document."""
    defaults = Settings({}).over(document.values.get("defaults", {}), ("defaults",))
    checked: dict[Path, tuple[SizeRange, ...]] = {}
    drafts: list[_Draft] = []
    path: Path
    for number, entry in entries.items():
        path = ("cluster", number)
        settings = defaults.over(document.values["cluster"][number], path)
        collectives, targets = settings.get("collectives"), settings.get("targets")
        if collectives is None:
            if not any(document.positions.has((*at, "collectives")) for at in ((), ("defaults",), path)):
                help_ = 'add collectives = ["allgather", "allreduce"] here or to [defaults]'
                document.add_to_key("HS862", path, "no collectives are named", help_)
            continue
        extents: tuple[SizeRange | int, ...] = (settings.get("chunks"),)
        if "sizes" in settings.stated:
            texts, place = settings.stated["sizes"]
            if place not in checked:  # a list that several clusters have is read once
                checked[place] = apart(ranges(texts, place, document), place, document)
            extents = checked[place]
        at = settings.place("collectives", path)
        drafts += [
            _Draft(entry.name, collective, extent, runtime, settings, (*at, i))
            for runtime in targets
            for i, collective in enumerate(collectives)
            for extent in extents
            if collective is not None and runtime is not None
        ]
        if len(drafts) > MAX_CELLS:
            message = f"these are more than {MAX_CELLS} schedules"
            document.add_to_key("HS864", path, message, "leave some out, or make a second manifest")
            return ()
    places: list[tuple[Path, Any]] = [(("defaults",), document.values.get("defaults", {}))]
    places += [(("cluster", i), table) for i, table in enumerate(document.values.get("cluster", ()))]
    for path, table in places:
        if "sizes" in table and "chunks" in table:
            message = "`sizes` and `chunks` exclude each other: with sizes chunks are chosen for each range"
            document.add_to_key("HS865", (*path, "chunks"), message, "leave one of them out")
    changed, rules = _ruled(drafts, document, {entry.name for entry in entries.values()})
    kept = [draft for draft in changed if not draft.settings.get("skip")]
    if drafts and not kept and not document.findings:
        document.add_to_key("HS864", rules[-1].path, "nothing is left to be made", "the rules skip every cell")
    _check_callable(kept, document)
    return tuple(_cell(draft, document) for draft in kept)


def _ruled(drafts: list[_Draft], document: Document, clusters: set[str]) -> tuple[list[_Draft], list[_Rule]]:
    """The drafts as the rules leave them; a rule that selects or changes nothing is a mistake."""
    rules = []
    for number, table in enumerate(document.values.get("rule", ())):
        path: Path = ("rule", number)
        changes = {key for key, value in table.items() if key not in _SELECTING and value != {}}
        if not changes and not document.findings:
            help_ = "add strategy, effort, seed, root, single_root, runtime_costs, gates or skip"
            document.add_to_key("HS862", path, "this rule changes nothing", help_)
        for i, name in enumerate(table.get("clusters", ())):
            if name is not None and name not in clusters:
                message = f"there is no cluster `{name[:60]}`"
                document.add("HS864", (*path, "clusters", i), message, did_you_mean(name, clusters))
        sizes = ranges(table.get("sizes", ()), (*path, "sizes"), document)
        rules.append(_Rule(path, table, tuple(sizes.values())))
    changed = []
    for draft in drafts:
        settings = draft.settings
        for rule in rules:
            if rule.is_for(draft):
                rule.selects += 1
                said = {name: value for name, value in rule.table.items() if name not in _SELECTING}
                settings = settings.over(said, rule.path)
        changed.append(replace(draft, settings=settings))
    for rule in rules if not document.findings else ():  # which may be the reason
        if not rule.selects:
            help_ = "no cluster has such a cell; `sizes` selects ranges that lie in one of these"
            document.add_to_key("HS864", rule.path, "this rule selects nothing", help_)
    return changed, rules


def _cell(draft: _Draft, document: Document) -> Cell:
    settings, rooted, chunk_bytes = draft.settings, draft.collective in ROOTED, None
    text, place = settings.get("chunk_size"), settings.place("chunk_size", draft.collective_at)
    if text is not None and isinstance(draft.extent, SizeRange):
        message = "`chunk_size` is for `chunks`: with `sizes` it follows from the size"
        document.add_to_key("HS865", place, message, "leave it out here")
    elif text is not None:
        try:
            chunk_bytes = size_of(text)
        except NoRange as wrong:
            document.add("HS865", place, wrong.message, wrong.help)
    reference: str | Fraction = str(settings.get("tau_ref"))
    text, place = str(reference), settings.place("tau_ref", draft.collective_at)
    if text[:1].isdigit():
        try:
            reference = parse_quantity(text, "time", "tau_ref")
        except HetesynthError as error:
            document.add("HS865", place, error.message.removeprefix("tau_ref: "), error.help)
    elif not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", text):
        document.add("HS865", place, f"`{text[:60]}` is no reference", 'such as "slowest", "nic" or "20us"')
    options = CellOptions(
        strategy=settings.get("strategy"),
        effort=float(settings.get("effort")),
        seed=settings.get("seed"),
        root=settings.get("root") if rooted else None,
        single_root=settings.get("single_root") and rooted,
        runtime_costs=settings.get("runtime_costs"),
        chunking=ChunkingOptions(chunk_bytes, reference, settings.get("rounding")),
        exclusion=settings.get("exclusion"),
    )
    row, place = row_of(options.strategy), settings.place("strategy", draft.collective_at)
    if draft.collective not in row.accepts:
        message = f"strategy {options.strategy} has no {draft.collective}"
        document.add("HS864", place, message, f"it takes {', '.join(row.accepts)}; a [[rule]] states it for these")
    elif row.objective == "time" and not isinstance(draft.extent, SizeRange):
        message = f"strategy {options.strategy} counts seconds, so it needs to know sizes"
        help_ = 'state sizes, such as sizes = ["..1MB", "1MB.."], or strategy = "auto"'
        document.add("HS865", place, message, help_)
    gates = Gates(
        float(settings.get("gates.percent_of_limit") or 0) or None,
        float(settings.get("gates.factor_over_library") or 0) or None,
        settings.get("gates.steps") or None,
        bool(settings.get("gates.proven")),
    )
    return Cell(draft.cluster, draft.collective, draft.extent, draft.target, options, gates)


def _check_callable(drafts: Sequence[_Draft], document: Document) -> None:
    """A finding at each collective that targets never run, or whose programs they run for other roots too."""
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


def read_manifest(path: FilePath) -> Manifest:
    """The manifest at ``path``. Raises HetesynthError HS860 and, with all that is wrong, SourceError."""
    document = read_document(path)
    entries = clusters(document, path.parent)
    folder, layout, cache = output(document, path.parent)
    manifest = Manifest(path, tuple(entries.values()), cells(document, entries), folder, layout, cache)
    if not document.findings:
        check_apart(manifest, document)
    document.findings.raise_any()
    return manifest
