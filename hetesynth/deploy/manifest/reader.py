"""``hetesynth.toml`` to a ``Manifest``."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path as FilePath
from typing import Any

from hetesynth.deploy.manifest.document import Document, Path, read_document
from hetesynth.deploy.manifest.keys import NAME, RANGE, SELECTORS, SETTINGS
from hetesynth.deploy.manifest.values import Cell, CellOptions, ClusterEntry, Gates, Manifest
from hetesynth.engine.program_warnings import demand_single_root
from hetesynth.errors import HetesynthError, did_you_mean
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.diagnostics import SourceError
from hetesynth.model.size_range import SizeRange, spelled_range
from hetesynth.model.target import target
from hetesynth.search.chunking import ChunkingOptions
from hetesynth.search.registry import row_of
from hetesynth.topology.language.overridden import overridden
from hetesynth.topology.language.source import SUFFIX, is_topology_file, no_standard_input
from hetesynth.topology.language.units import parse_quantity

FILE_NAME = "hetesynth.toml"
USUAL_NAME = "topo"  # the stem of topology files that are named after their folder
MAX_SIZE = 1 << 50
MAX_CELLS = 10_000


def cluster_name(topology: FilePath) -> str:
    """Return the default name of the cluster of a file: the file's, or its folder's for a topo.dsl."""
    return topology.stem if topology.stem != USUAL_NAME else FilePath(os.path.abspath(topology)).parent.name


def size_range(text: str) -> SizeRange:
    """The range that ``text`` says. Raises ValueError."""
    if not re.search(RANGE, text):
        raise ValueError(f"`{text[:60]}` is no range of sizes")
    before, dots, after = text.partition("..")
    low = size_of(before) if before.strip() else 0
    high = size_of(after) if after.strip() else None if dots else low
    if high is not None and high < low:
        raise ValueError(f"`{text[:60]}` ends before it begins")
    return SizeRange(low, high, spelled_range(low, high))


def size_of(text: str) -> int:
    """The bytes that ``text`` says. Raises ValueError."""
    bytes_ = parse_quantity(text.strip(), "size", "sizes")
    if bytes_.denominator != 1 or not 1 <= bytes_ <= MAX_SIZE:
        raise ValueError(f"`{text.strip()[:60]}` is no whole number of bytes up to 1 PiB")
    return int(bytes_)


def _ranges(texts: list[str | None], path: Path, document: Document) -> list[SizeRange]:
    """Return the ranges in ``texts``, a list of the document; add a finding for each text that is none."""
    read = []
    for text in filter(None, texts):
        try:
            read.append(size_range(text))
        except ValueError as wrong:
            document.add("HS865", path, str(wrong), "such as 1MB..64MB", text)
    return read


def _checked_for_overlap(read: list[SizeRange], path: Path, document: Document) -> tuple[SizeRange, ...]:
    """Return ``read``, each range open where another begins; add a finding for two ranges that overlap."""
    ordered = sorted(read, key=lambda one: (one.low, one.high or math.inf))
    for one, other in pairwise(ordered):
        if one.high is None or other.low < one.high or other.low == one.low:
            message, help_ = f"`{one.text}` and `{other.text}` overlap", "a range may begin where another ends"
            document.add("HS865", path, message, help_)
    starts = {one.low for one in read}
    return tuple(replace(one, closed=one.high == one.low or one.high not in starts) for one in read)


def _clusters(document: Document, folder: FilePath) -> dict[int, ClusterEntry]:
    """Return the clusters that state a topology, by their places in the document; ``folder``: the manifest's."""
    entries: dict[int, ClusterEntry] = {}
    names = set[str]()
    for number, table in enumerate(document.values.get("cluster", ())):
        path, stated = ("cluster", number), table.get("topology")
        if stated is None:
            continue
        topology = no_standard_input(folder / stated)
        losses = {key: tuple(filter(None, table.get(key, ()))) for key in ("without", "degrade")}
        if not topology.is_file():
            help_ = f"paths are seen from the folder of the manifest, {folder.as_posix()}"
            document.add("HS866", path, f"there is no file `{stated}`", help_, stated)
        elif not is_topology_file(topology):
            help_ = f"call it {topology.stem}{SUFFIX}"
            document.add("HS866", path, f"`{stated}` is no topology file", help_, stated)
        for key, texts in losses.items():
            for text in texts:
                try:
                    overridden(topology, **{key: [text]})
                except SourceError as error:
                    document.add("HS866", (*path, key), error.message, error.help, text)
        name = table.get("name") or cluster_name(topology)
        if not re.fullmatch(NAME, name) or name.casefold() in names:
            message = f"`{name[:60]}` is no name of a folder, or that of another cluster"
            help_ = "state a name of letters, digits, `-`, `_` and `.`, at most 64, that no other cluster has"
            document.add("HS868", (*path, "name"), message, help_, table.get("name"))
        names.add(name.casefold())
        line = document.span(path).line
        entries[number] = ClusterEntry(name, topology, stated, losses["without"], losses["degrade"], line)
    return entries


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of cells. ``stated``: (value, place) by key; gates by keys such as ``gates.steps``."""

    stated: dict[str, tuple[Any, Path]]

    def over(self, table: dict[str, Any], path: Path) -> Settings:
        """Return these settings overlaid with those of ``table``, which stands at ``path``. A table that states
        sizes or chunks overrules both, and one with sizes the size of chunks too."""
        overruled = {"sizes", "chunks"} if table.keys() & {"sizes", "chunks"} else set()
        overruled |= {"chunk_size"} if "sizes" in table else set()
        stated = {name: one for name, one in self.stated.items() if name not in overruled}
        stated |= {name: (value, (*path, name)) for name, value in table.items() if name != "gates"}
        gates = table.get("gates", {}).items()
        return Settings(stated | {f"gates.{gate}": (one, (*path, "gates", gate)) for gate, one in gates})

    def get(self, name: str) -> Any:
        """The value of ``name``, or its default."""
        return self.stated[name][0] if name in self.stated else SETTINGS.get(name, {}).get("default")

    def place(self, name: str, otherwise: Path) -> Path:
        """Return the place where the value of ``name`` is stated, else ``otherwise``."""
        return self.stated[name][1] if name in self.stated else otherwise


@dataclass(frozen=True, slots=True)
class _Draft:
    """A cell that rules may still change. ``at``: where its collectives are named."""

    cluster: str
    collective: CollectiveName
    extent: SizeRange | int
    target: str
    settings: Settings
    at: Path


def _cells(document: Document, entries: Mapping[int, ClusterEntry]) -> tuple[Cell, ...]:
    """The cells of the clusters ``entries``, which are known by their places in the document."""
    defaults = Settings({}).over(document.values.get("defaults", {}), ("defaults",))
    drafts: list[_Draft] = []
    tables: list[tuple[Path, Any]] = [(("defaults",), document.values.get("defaults", {}))]
    tables += [(("cluster", i), table) for i, table in enumerate(document.values.get("cluster", ()))]
    for path, table in tables:
        if "sizes" in table and "chunks" in table:
            message = "`sizes` and `chunks` exclude each other: with sizes chunks are chosen for each range"
            document.add("HS865", (*path, "chunks"), message, "leave one of them out")
    for number, entry in entries.items():
        path = ("cluster", number)
        settings = defaults.over(document.values["cluster"][number], path)
        collectives, at = settings.get("collectives"), settings.place("collectives", path)
        if collectives is None:
            document.add("HS862", path, "no collectives are named", 'add collectives = ["allgather"]')
            continue
        extents: tuple[SizeRange | int, ...] = (settings.get("chunks"),)
        if "sizes" in settings.stated:
            texts, place = settings.stated["sizes"]
            extents = _checked_for_overlap(_ranges(texts, place, document), place, document)
        drafts += [
            _Draft(entry.name, collective, extent, runtime, settings, at)
            for runtime in filter(None, settings.get("targets"))
            for collective in filter(None, collectives)
            for extent in extents
        ]
        if len(drafts) > MAX_CELLS:
            message = f"these are more than {MAX_CELLS} schedules"
            document.add("HS864", path, message, "leave some out, or make a second manifest")
            return ()
    kept = [draft for draft in _ruled(drafts, document) if not draft.settings.get("skip")]
    if drafts and not kept and not document.findings:
        document.add("HS864", ("rule", 0), "nothing is left to be made", "the rules skip every cell")
    return tuple(_cell(draft, document) for draft in kept)


def _ruled(drafts: list[_Draft], document: Document) -> list[_Draft]:
    """The drafts as the rules leave them; a rule that selects or changes nothing is a mistake."""
    clusters = {draft.cluster for draft in drafts}
    for number, table in enumerate(document.values.get("rule", ())):
        path: Path = ("rule", number)
        changes = {name: value for name, value in table.items() if name not in SELECTORS and value != {}}
        for name in filter(None, table.get("clusters", ())):
            if name not in clusters:
                help_ = did_you_mean(name, clusters, "rules name clusters of this manifest")
                document.add("HS864", (*path, "clusters"), f"there is no cluster `{name[:60]}`", help_, name)
        outer = _ranges(table.get("sizes", []), (*path, "sizes"), document)

        def selects(draft: _Draft, table: dict[str, Any] = table, outer: list[SizeRange] = outer) -> bool:
            named = (("clusters", draft.cluster), ("collectives", draft.collective), ("targets", draft.target))
            if any(value not in table.get(key, (value,)) for key, value in named):
                return False
            inner = draft.extent
            return "sizes" not in table or (
                isinstance(inner, SizeRange)
                and any(o.low <= inner.low and (inner.high or math.inf) <= (o.high or math.inf) for o in outer)
            )

        chosen = [draft for draft in drafts if selects(draft)]
        if (not chosen or not changes) and not document.findings:  # which may be the reason
            what = "selects" if changes else "changes"
            help_ = (
                "name cells that there are; `sizes` selects ranges that lie in one of these; see docs/manifest.md"
            )
            document.add("HS864" if changes else "HS862", path, f"this rule {what} nothing", help_)
        drafts = [
            replace(draft, settings=draft.settings.over(changes, path)) if selects(draft) else draft
            for draft in drafts
        ]
    return drafts


def _cell(draft: _Draft, document: Document) -> Cell:
    settings, rooted, chunk_bytes = draft.settings, draft.collective in ROOTED, None
    reference: str | Fraction = str(settings.get("tau_ref"))
    runtime, ranged = target(draft.target), isinstance(draft.extent, SizeRange)

    def wrong(code: str, name: str, message: str, help_: str, value: object = None) -> None:
        document.add(code, settings.place(name, draft.at), message, help_, value)

    if (text := settings.get("chunk_size")) is not None:
        try:
            if ranged:
                raise ValueError("`chunk_size` is for `chunks`: with `sizes` it follows from the size")
            chunk_bytes = size_of(text)
        except ValueError as error:
            wrong("HS865", "chunk_size", str(error), "leave it out, or state a size such as 4MB")
    try:
        if str(reference)[0].isdigit():
            reference = parse_quantity(str(reference), "time", "tau_ref")
        elif not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", str(reference)):
            raise HetesynthError("no reference", code="HS865")
    except HetesynthError:
        wrong("HS865", "tau_ref", f"`{reference}` is no reference step", 'such as "slowest", "nic" or "20us"')
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
    row, rule = row_of(options.strategy), "a [[rule]] states another one, or skip = true, for these"
    if draft.collective not in row.accepts:
        wrong("HS864", "strategy", f"strategy {options.strategy} has no {draft.collective}", rule)
    elif row.objective == "time" and not ranged:
        message = f"strategy {options.strategy} counts seconds, so it needs to know sizes"
        wrong("HS865", "strategy", message, 'state sizes, such as sizes = ["..1MB", "1MB.."]')
    try:
        demand_single_root([runtime], draft.collective, promised=options.single_root)
        if draft.collective not in runtime.collectives:
            message = f"{runtime.name} ({runtime.runtime}) never runs a {draft.collective}"
            raise HetesynthError(message, code="HS867")
    except HetesynthError as error:
        help_ = "leave it out by a [[rule]], or add single_root = true if all calls of the job have this root"
        wrong("HS867", "collectives", error.message, help_, draft.collective)
    gates = Gates(
        float(settings.get("gates.percent_of_limit") or 0) or None,
        float(settings.get("gates.factor_over_library") or 0) or None,
        settings.get("gates.steps") or None,
        bool(settings.get("gates.proven")),
    )
    return Cell(draft.cluster, draft.collective, draft.extent, draft.target, options, gates)


def read_manifest(path: FilePath) -> Manifest:
    """The manifest at ``path``. Raises HetesynthError HS860 and, with all that is wrong, SourceError."""
    document, folder = read_document(path), path.parent
    entries = _clusters(document, folder)
    output = {"folder": "schedules", "layout": "{cluster}/{target}", **document.values.get("output", {})}
    for key in ("folder", "cache"):
        if output.get(key, "").startswith("~"):
            help_ = "write a path from the folder of the manifest, or from /"
            document.add("HS868", ("output", key), "`~` stands for nothing in a manifest", help_)
    cache = folder / output["cache"] if "cache" in output else None
    cells = _cells(document, entries)
    manifest = Manifest(path, tuple(entries.values()), cells, folder / output["folder"], output["layout"], cache)
    if not document.findings:  # a folder has a place of its own, whatever the case of letters
        pairs = dict.fromkeys((cell.cluster, cell.target) for cell in manifest.cells)
        places = [manifest.layout.format(cluster=cluster, target=target).casefold() for cluster, target in pairs]
        if len(set(places)) < len(places):
            message = "two clusters or targets have one folder"
            document.add("HS868", ("output", "layout"), message, 'use both: layout = "{cluster}/{target}"')
        folders = [os.path.abspath(manifest.folder(*pair)) for pair in pairs]
        cache = manifest.cache and FilePath(os.path.abspath(manifest.cache))
        if cache and any(cache.is_relative_to(folder) for folder in folders):
            message = "the cache is inside of a folder that is exchanged as a whole"
            document.add("HS868", ("output", "cache"), message, "name a folder beside the output")
    document.findings.raise_any()
    return manifest
