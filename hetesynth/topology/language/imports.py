"""Follows imports and gathers the node types, pods and the one cluster of a program."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from hetesynth.errors import HetesynthError, did_you_mean
from hetesynth.model.diagnostics import SourceError, Span
from hetesynth.topology.language import paper
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.library import declared_types, library_names, library_path
from hetesynth.topology.language.names import plain
from hetesynth.topology.language.parser import begins_statement, parse
from hetesynth.topology.language.source import SUFFIX, Source, is_topology_file, no_standard_input, read_source
from hetesynth.topology.language.syntax import Cluster, Define, File, Import, NodeType, PodType

MAX_IMPORTS = 32
MAX_IMPORT_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Program:
    """The node types and pods by name, imported ones included, and the cluster."""

    nodes: dict[str, NodeType | PodType]
    cluster: Cluster


def resolve(source: Source, findings: Findings) -> Program:
    """Parse ``source`` and everything it imports; raises ``SourceError`` when there is no cluster to elaborate."""
    findings.sources[source.name] = source.text
    main = paper.lowered(parse(source), findings)
    loader = _Loader(findings)
    loader.load(main, (_identity(source.name),))
    if loader.incomplete:
        findings.raise_any()
    clusters = [item for item in main.items if isinstance(item, Cluster)]
    for cluster in clusters:
        plain(cluster.name, "a cluster", findings)
    if len(clusters) != 1:
        span = clusters[1].span if clusters else Span(source.name, 1, 1)
        number = "are several" if clusters else "is no cluster"
        message = f"a file describes one cluster; there {number} in this one"
        help_ = "put each into its own file" if clusters else "add `cluster NAME { instance a = NODE ... }`"
        findings.add("HS203" if clusters else "HS200", span, message, help_)
        if not clusters:
            findings.raise_any()
    findings.sources.update(source.aside)
    return Program(loader.nodes, replace(clusters[0], items=(*clusters[0].items, *source.losses)))


def _identity(name: str) -> str:
    return str(Path(name).resolve()) if "\0" not in name else name


@dataclass(slots=True)
class _Loader:
    findings: Findings
    nodes: dict[str, NodeType | PodType] = field(default_factory=dict)
    incomplete: bool = False  # an import failed: names may be missing
    _loaded: set[str] = field(default_factory=set)

    def load(self, file: File, chain: tuple[str, ...]) -> None:
        """Take in the node types of ``file``, imports first. ``chain`` holds the files being imported."""
        for item in file.items:
            if isinstance(item, Import):
                self._follow(item, file, chain)
        for item in file.items:
            if isinstance(item, (NodeType, PodType)):
                what = "node type" if isinstance(item, NodeType) else "pod"
                name = plain(item.name, f"a {what}", self.findings)
                if name is not None and name in self.nodes:
                    self.findings.add("HS203", item.name.span, f"there are two {what}s `{name}`")
                elif name is not None:
                    self.nodes[name] = item
            elif len(chain) > 1 and isinstance(item, (Cluster, Define)):
                message = "an imported file may only define node types and pods"
                help_ = "move the node types into a file of their own and import that"
                self.findings.add("HS215", item.span, message, help_)

    def _follow(self, item: Import, file: File, chain: tuple[str, ...]) -> None:
        name, span = item.target.text, item.target.span
        path = no_standard_input(Path(file.name).parent / name) if item.is_path else library_path(name)
        if path is None or (item.is_path and not is_topology_file(path)):
            message = f"there is no topology file `{name[:60]}` to import"
            help_ = f"only files called *{SUFFIX} can be imported"
            if not item.is_path:
                meant = declared_types().get(name) or did_you_mean(name, library_names())
                help_ = f'`import NAME` is of the node library ({meant}), `import "own.dsl"` of a file of your own'
            self.findings.add("HS215", span, message, help_)
            self.incomplete = True
            return
        identity = _identity(str(path))
        if identity in chain:
            shown = " -> ".join(Path(name).name for name in (*chain[chain.index(identity) :], identity))
            self.findings.add("HS216", span, f"the imports form a cycle: {shown}", "remove one of them")
            self.incomplete = True
            return
        if identity in self._loaded:
            return
        if len(self._loaded) >= MAX_IMPORTS or len(chain) >= MAX_IMPORT_DEPTH:
            message = f"more than {MAX_IMPORTS} imports, or deeper than {MAX_IMPORT_DEPTH}"
            self.findings.add("HS216", span, message, "collect the node types in fewer files")
            return
        self._loaded.add(identity)
        try:
            source = read_source(path)
            imported = parse(source)
            self.findings.sources[source.name] = source.text
        except SourceError as error:
            self.incomplete = True
            for finding in error.diagnostics:
                lines = error.sources.get(finding.span.file, "").split("\n")
                if begins_statement("".join(lines[finding.span.line - 1 : finding.span.line])):
                    self.findings.sources.update(error.sources)
                    self.findings.extend([finding])
                else:  # it may be a file of secrets
                    self.findings.extend([replace(finding, message="something else is expected here")])
        except HetesynthError as error:
            self.findings.add("HS215", span, f"cannot import: {error.message}", error.help)
            self.incomplete = True
        else:
            self.load(imported, (*chain, identity))


def type_meant(name: str, types: Collection[str]) -> str:
    """Return the help for a missing node type: the import to add, or the nearest of ``types``."""
    library = declared_types()
    if name in library:
        return f"add `import {library[name]}` at the top of the file"
    own = [node for node, file in library.items() if file == name]
    if own:
        return f"`import {name}` brings the types {', '.join(own)}"
    otherwise = "define it, `node NAME { ... }`, or import a file of the library: " + ", ".join(library_names())
    return did_you_mean(name, types, otherwise)
