"""Sources -> Topology: the topology language (dsl/). Importing this package loads neither lark nor the grammar."""

import os

from hetesynth.model.pods import PodCluster
from hetesynth.model.topology import Topology
from hetesynth.topology.language.paths import unreachable_pairs

__all__ = ["TopologySource", "load_pods", "load_topology", "parse_topology", "unreachable_pairs"]


TopologySource = str | os.PathLike[str] | Topology
"""A cluster, or the file that describes it."""


def load_topology(source: TopologySource) -> Topology:
    """The cluster that the file at ``source`` describes, or that is given in its place; else ``SourceError``."""
    if isinstance(source, Topology):
        return source
    from hetesynth.topology.language.elaborate import topology_of
    from hetesynth.topology.language.source import read_source

    return topology_of(read_source(source))


def load_pods(path: str | os.PathLike[str]) -> PodCluster:
    """The cluster that the file at ``path`` describes, as pods; no link between two pods is worked out."""
    from hetesynth.topology.language.elaborate import pods_of
    from hetesynth.topology.language.source import read_source

    return pods_of(read_source(path))


def parse_topology(text: str, filename: str = "<text>") -> Topology:
    """The cluster that ``text`` describes, as if it stood in ``filename``. Raises ``SourceError``."""
    from hetesynth.topology.language.elaborate import topology_of
    from hetesynth.topology.language.source import checked_source

    return topology_of(checked_source(text, filename))
