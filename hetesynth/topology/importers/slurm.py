"""Slurm's topology files to a network: leaves with their hosts, and the switches above them.

They tell neither rates nor what a server is: ``--node-type`` or dumps of the servers do, and ``--uplink`` or
``--oversubscription`` for the cables between switches.
"""

from __future__ import annotations

from hetesynth.topology.importers.machine import Remark
from hetesynth.topology.importers.network import Attachment, Network, TooLarge, Trunk
from hetesynth.topology.importers.node_types import without_nvlink
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, refused
from hetesynth.topology.importers.slurm_conf import SlurmTopology, read_conf, read_yaml

SPINE = "spine"


def read_slurm_conf(source: Source, options: ReadOptions) -> Reading:
    """The network of a ``topology.conf``."""
    return _reading(source, read_conf(source.data, source.name), options)


def read_slurm_yaml(source: Source, options: ReadOptions) -> Reading:
    """The network of a ``topology.yaml``."""
    return _reading(source, read_yaml(source.data, source.name), options)


def _reading(source: Source, topology: SlurmTopology, options: ReadOptions) -> Reading:
    attachments = tuple(Attachment(host, leaf.name) for leaf in topology.leaves for host in leaf.nodes)
    trunks, remarks = _trunks(topology), (*_remarks(topology), *without_nvlink(options.node_type))
    try:
        network = Network(attachments, trunks, remarks, options.uplink, options.oversubscription)
    except TooLarge as error:
        raise refused(source, str(error), "import a part of the cluster") from error
    return Reading(network=network)


def _trunks(topology: SlurmTopology) -> tuple[Trunk, ...]:
    """What joins switches; blocks and switches below nothing meet in one more."""
    trunks = [Trunk(below, switch.name) for switch in topology.switches for below in switch.switches]
    lower = {trunk.a for trunk in trunks}
    tops = [switch.name for switch in topology.switches if switch.name not in lower]
    if len(tops) > 1:
        above = SPINE
        while above in {switch.name for switch in topology.switches}:
            above += "_"
        trunks += [Trunk(top, above) for top in tops]
    return tuple(trunks)


def _remarks(topology: SlurmTopology) -> tuple[Remark, ...]:
    """What was added, and what was passed over."""
    remarks = [Remark("found", f"{len(topology.hosts)} hosts below {len(topology.leaves)} switches or blocks")]
    lower = {name for switch in topology.switches for name in switch.switches}
    if sum(switch.name not in lower for switch in topology.switches) > 1:
        remarks.append(
            Remark("assumed", "a switch that joins the switches or blocks which nothing joins in the file")
        )
    if any(switch.block for switch in topology.switches):
        remarks.append(
            Remark("assumed", "a block is a leaf switch; the file does not tell whether NVLink joins it")
        )
    if any(switch.link_speed for switch in topology.switches):
        remarks.append(Remark("found", "LinkSpeed has no unit and is passed over"))
    return tuple(remarks)
