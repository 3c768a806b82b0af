"""A schedule for every loss of a single GPU, NIC, link or server, made ahead. Losses that leave the same cluster
but for names share a schedule, with the ranks renumbered."""

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hetesynth import __version__
from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.atlas import MARK
from hetesynth.engine.carry_over import CarryOver
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.engine.recipe import recipe_in, topology_hash
from hetesynth.engine.repair import Repaired, RepairRequest, repaired
from hetesynth.engine.request import LOSS_KINDS, LossKind, Request
from hetesynth.engine.synth import synthesize
from hetesynth.errors import HetesynthError
from hetesynth.files.folders import with_digests, write_folder
from hetesynth.files.schedule_json import read_schedule_json
from hetesynth.model.diagnostics import SourceError
from hetesynth.model.topology import Topology
from hetesynth.search.search import Progress, no_progress
from hetesynth.topology.believable import load_topology
from hetesynth.topology.language.overridden import overridden


def isomorphism(one: Topology, other: Topology) -> tuple[int, ...] | None:
    """Return the vertex of ``other`` for each of ``one``; None: no mapping that keeps wires and links is found."""
    pair, number = (one, other), len(one.vertices)
    sizes = {(len(t.vertices), t.ranks, len(t.wires), len(t.links), t.chunk_bytes) for t in pair}
    if len(sizes) > 1 or one.groups or other.groups:
        return None
    wires: list[list[tuple[int, Hashable]]] = []  # at each vertex of both: the other end and what the wire is
    looks: list[Hashable] = []
    for start, topology in zip((0, number), pair, strict=True):
        wires += [[] for _ in topology.vertices]
        for wire in topology.wires:
            what = (wire.kind, wire.bandwidth, wire.lanes, wire.latency)
            wires[start + wire.src].append((start + wire.dst, ("out", what)))
            wires[start + wire.dst].append((start + wire.src, ("in", what)))
        rates = (*topology.throughputs[: topology.ranks], *[None] * (number - topology.ranks))
        looks += [(v.kind, v.model, rate) for v, rate in zip(topology.vertices, rates, strict=True)]
    colours = _refined(wires, _numbered(looks))
    while Counter(colours[:number]) == Counter(colours[number:]):
        several = min((colour for colour, n in Counter(colours[:number]).items() if n > 1), default=None)
        if several is None:
            vertex = {colour: v for v, colour in enumerate(colours[number:])}
            mapping = tuple(vertex[colour] for colour in colours[:number])
            return mapping if _described(one, mapping) == _described(other, tuple(range(number))) else None
        for start in 0, number:
            colours[colours.index(several, start)] = 2 * number  # a fresh one
        colours = _refined(wires, colours)
    return None


def _described(topology: Topology, to: tuple[int, ...]) -> tuple[Counter[Hashable], Counter[Hashable]]:
    """Return the wires and the links, counted, with vertices renamed by ``to``."""
    wires, links = topology.wires, topology.links
    return (
        Counter((to[w.src], to[w.dst], w.kind, w.bandwidth, w.lanes, w.latency) for w in wires),
        Counter((to[x.src], to[x.dst], x.kind, tuple(to[wires[w].dst] for w in x.wires)) for x in links),
    )


def _refined(wires: list[list[tuple[int, Hashable]]], colours: list[int]) -> list[int]:
    """Return ``colours`` refined until vertices of one color have the same wires to the same colors."""
    while True:
        ends = (Counter((colours[end], what) for end, what in of_vertex) for of_vertex in wires)
        finer = _numbered([(colour, frozenset(end.items())) for colour, end in zip(colours, ends, strict=True)])
        if len({*finer}) == len({*colours}):
            return finer
        colours = finer


def _numbered(colours: Sequence[Hashable]) -> list[int]:
    """Return a number for each color, equal for equal ones, in the order of their first appearance."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(colour, len(numbers)) for colour in colours]


@dataclass(frozen=True)
class Loss:
    """A loss, as ``--without`` names it. ``repaired``: what is left; None where ``refusal`` says why not.
    ``like``: an earlier loss that leaves the same cluster but for names; rank r is rank ``ranks[r]`` there."""

    kind: LossKind
    name: str
    repaired: Repaired | None = None
    refusal: str = ""
    like: str = ""
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class NMinusOne:
    """The schedules of the whole cluster and of each loss."""

    request: Request
    whole: Synthesis
    losses: tuple[Loss, ...]

    def write(self, folder: Path) -> list[Path]:
        """Write the whole folder, which is new, empty or an atlas to be replaced; return the paths in it."""
        write_folder(folder, self.files, MARK)
        return [folder / name for name in self.files]

    @cached_property
    def folders(self) -> dict[str, str]:
        """The folder of each loss that has a schedule of its own."""
        return {
            loss.name: f"{number:04d}-{re.sub(r'[^-._A-Za-z0-9]', '-', loss.name.replace('<->', '--'))}"
            for number, loss in enumerate(self.losses)
            if loss.repaired is not None
        }

    @cached_property
    def files(self) -> dict[str, bytes]:
        """Every file by its name in the folder: those of the whole cluster and of each loss, and the index."""
        stem = f"{self.whole.topology.name}-{self.request.collective}"
        contents = {f"whole/{stem}{suffix}": data for suffix, data in self.whole.files.items()}
        for loss in self.losses:
            if loss.repaired is not None:
                made_of_loss = loss.repaired.synthesis.files
                contents |= {f"{self.folders[loss.name]}/{stem}{s}": data for s, data in made_of_loss.items()}
        contents["index.json"] = (json.dumps(with_digests(self.index, contents), indent=2) + "\n").encode()
        return contents

    @cached_property
    def index(self) -> dict[str, Any]:
        """The JSON index: each loss with its folder, or the loss whose schedule it shares, and figures."""
        losses = []
        for loss in self.losses:
            entry: dict[str, Any] = {"without": loss.name, "kind": loss.kind}
            if loss.refusal:
                entry["refusal"] = loss.refusal
            elif loss.repaired is None:
                entry |= {"folder": self.folders[loss.like], "like": loss.like, "rank_there": list(loss.ranks)}
            else:
                entry |= {"folder": self.folders[loss.name], "new_rank_of": list(loss.repaired.changes.ranks)}
                entry |= _figures(loss.repaired.synthesis)
            losses.append(entry)
        return {
            "kind": "hetesynth atlas of single losses",
            "generator": f"hetesynth {__version__}",
            "cluster": self.whole.topology.name,
            "topology_sha256": topology_hash(self.whole.topology),
            "collective": self.request.collective,
            "ranks": self.whole.topology.ranks,
            "targets": [t.name for t in self.request.targets],
            "whole": _figures(self.whole),
            "losses": losses,
        }


def n_minus_one(
    request: Request, kinds: Sequence[LossKind] = LOSS_KINDS, progress: Progress = no_progress
) -> NMinusOne:
    """Make the schedules of the whole cluster and of each loss. HetesynthError: the whole cluster has none."""
    whole = synthesize(request, progress)
    before = load_topology(request.topology)
    losses: list[Loss] = []
    unlike: list[tuple[Loss, Topology]] = []
    for kind, name in single_losses(before, kinds):
        progress(f"without {name}", None)
        path = overridden(request.file, [name])
        try:
            after = load_topology(path)
            changes = CarryOver(before, after)
            root = changes.root(whole.problem.collective.root)
            for other, topology in unlike:
                mapping = isomorphism(after, topology) if other.kind == kind else None
                if mapping is None or other.repaired is None:
                    continue
                if root is None or mapping[root] == other.repaired.synthesis.problem.collective.root:
                    losses.append(Loss(kind, name, like=other.name, ranks=mapping[: after.ranks]))
                    break
            else:
                document = read_schedule_json(whole.files[SCHEDULE_SUFFIX], "the schedule of the whole cluster")
                rest = request.budget, request.targets, request.schedule_only, request.single_root, request.policy
                asked = RepairRequest(None, request.topology, path, *rest, always=request.always)
                loss = Loss(kind, name, repaired(asked, document, recipe_in(document, "it"), changes))
                losses.append(loss)
                unlike.append((loss, after))
        except SourceError as error:
            losses.append(Loss(kind, name, refusal=error.diagnostics[0].message))
        except HetesynthError as error:
            losses.append(Loss(kind, name, refusal=error.message))
    return NMinusOne(request, whole, tuple(losses))


def single_losses(topology: Topology, kinds: Sequence[LossKind] = LOSS_KINDS) -> Iterator[tuple[LossKind, str]]:
    """Yield the kind and the name, as for ``--without``, of every single loss of ``kinds``."""
    if "gpu" in kinds and topology.ranks > 2:
        yield from (("gpu", vertex.name) for vertex in topology.vertices[: topology.ranks])
    if "nic" in kinds:
        yield from (("nic", vertex.name) for vertex in topology.vertices if vertex.kind == "nic")
    if "link" in kinds:
        direct = {tuple(sorted((w.src, w.dst))) for w in topology.wires if max(w.src, w.dst) < topology.ranks}
        for a, b in sorted(direct):
            yield "link", f"{topology.vertices[a].name}<->{topology.vertices[b].name}"
    servers = dict.fromkeys(topology.servers)
    if "server" in kinds and len(servers) > 2:
        yield from (("server", name) for name in servers)


def _figures(synthesis: Synthesis) -> dict[str, Any]:
    certificate, seconds = synthesis.solution.certificate, synthesis.program_seconds
    return {
        "ranks": synthesis.topology.ranks,
        "steps": certificate.steps,
        "lower_bound": certificate.bound.steps,
        "program_predicted_us": None if seconds is None else seconds * 1e6,
    }
