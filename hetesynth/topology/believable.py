"""Clusters to compute on: those whose GPUs do no more than their model can."""

from hetesynth.errors import HetesynthError
from hetesynth.model.topology import Topology
from hetesynth.topology import language
from hetesynth.topology.language import TopologySource


def load_topology(source: TopologySource) -> Topology:
    """Return the cluster of a file, or the one given. Raise HS252 if a GPU does more than its model."""
    from hetesynth.topology.lint.limits import WAY_OUT, overstated

    topology = language.load_topology(source)
    for vertex, message in overstated(topology):
        help_ = f'{WAY_OUT}? if it is meant, say so: `model "custom {vertex.model}"`'
        raise HetesynthError(f"{topology.name}: `{vertex.name}`: {message}", code="HS252", help=help_)
    return topology
