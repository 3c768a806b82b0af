"""TACCL's topology of a server, with what it profiled, to text of the language (microsoft/taccl, examples/topo).

``alpha`` is a latency, a beta the time of one profiled chunk; the source states no unit. In the files for 1 MB
they are microseconds and microseconds a MB; those for 32 KB and 1 KB count tenths and hundredths of a microsecond,
as the betas of all five files agree then. ``invbws`` are betas, in small files with alpha: rates are of the betas.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from hetesynth.files.strict_json import JsonRefused, fail, integer, items, read_json
from hetesynth.model.words import counted
from hetesynth.topology.importers.edge_list import MAX_COUNT, positive
from hetesynth.topology.importers.machine import Remark
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, refused
from hetesynth.topology.importers.wording import MAX_NAME, bandwidth, comment, identifier, parts, time

HELP = "see taccl/examples/topo: gpus_per_node, alpha, and node_betas_list or links, betas, invbws"
# by the size in the name: how many of the chunk make a MB, and how many ticks of the figures make a microsecond
_SCALES = {"1MB": (1, 1), "32KB": (32, 10), "1KB": (1024, 100)}
# NDv2 as taccl/topologies/generic.py has it: pairs of GPUs over two NVLinks, and over one
_NDV2 = ((2, "01 04 13 23 26 45 57 67"), (1, "02 03 12 15 37 46 47 56"))
_KNOWN = {
    *("name", "gpus_per_node", "nics_per_node", "alpha", "node_betas_list", "node_invbws_list", "links", "betas"),
    *("invbws", "remote_invbw", "remote_alpha", "remote_beta"),
}

Wires = dict[tuple[int, int], tuple[int, Fraction]]  # source and destination: how many links, and beta of each


def read_taccl(source: Source, options: ReadOptions) -> Reading:
    """Return as many servers as the file stands for, joined by NICs where they are several; HS732."""
    try:
        facts = read_json(source.data, max_depth=4, max_digits=18)
        return _reading(facts, source, source.stated.model or options.model)
    except (JsonRefused, ValueError) as error:
        raise refused(source.name, str(error), HELP) from error
    except KeyError as error:
        raise refused(source.name, f"no field {error}", HELP) from error
    except (AttributeError, TypeError) as error:
        raise refused(source.name, "not an object of numbers and lists", HELP) from error


def _reading(facts: dict[str, Any], source: Source, model: str) -> Reading:
    gpus = integer(facts["gpus_per_node"], "gpus_per_node", 1, MAX_COUNT)
    name = str(facts.get("name", ""))[:MAX_NAME]
    size = re.search(r"(?<![0-9])\d{1,4}[KM]B", name)
    chunks, ticks = _SCALES.get(size[0] if size else "", (1, 1))
    remarks = [] if size and size[0] in _SCALES else [Remark("assumed", "figures are in us, and in us for a MB")]
    if unknown := sorted(facts.keys() - _KNOWN):
        remarks.append(Remark("found", f"not read: {', '.join(unknown)[:200]}"))

    def rate(beta: Fraction) -> Fraction:
        return Fraction(10**12 * ticks, chunks) / beta

    betas = [
        positive({"node_betas_list": beta}, "node_betas_list")
        for beta in items(facts.get("node_betas_list", []), "node_betas_list")
    ]
    kinds = ["nvlink"] if betas else []
    rest = "; ".join(
        [
            f"latency {time(positive(facts, 'alpha', zero=True) / ticks / 10**6)}",
            *(f"kind {kind}" for kind in kinds),
        ]
    )
    model = model or ("V100" if len(betas) == 2 or name.startswith("DGX2") else "")
    body = [f'model "{model}"'] if model else []
    body.append(f"gpus {gpus}")
    if len(betas) == 1 and gpus > 1:
        body.append(
            f"switch sw {{ ports {parts('gpu', range(gpus))}; bandwidth {bandwidth(rate(betas[0]))}; {rest} }}"
        )
    elif len(betas) != 1:
        wires = _ndv2(gpus, betas) if betas else _matrices(facts, gpus)
        alike: dict[tuple[int, str, str], list[int]] = defaultdict(list)
        for (src, dst), (count, beta) in sorted(wires.items()):
            both = wires.get((dst, src)) == (count, beta)
            if src < dst or not both:
                alike[src, "<->" if both else "->", bandwidth(rate(beta), count)].append(dst)
        for (src, arrow, carried), to in alike.items():
            body.append(f"link gpu{src} {arrow} {parts('gpu', to)} {{ bandwidth {carried}; {rest} }}")
    outside = []
    nics = integer(facts.get("nics_per_node", -1), "nics_per_node", -1, MAX_COUNT)
    if nics > 0:
        carried = bandwidth(rate(positive(facts, "remote_beta")))
        text = f"{counted(nics, 'NIC')} of {carried} a server" + (", shared by neighbours" if nics < gpus else "")
        latency = time(positive(facts, "remote_alpha", zero=True) / ticks / 10**6)
        if source.servers > 1:
            kinds.append("net")
            body.append(f"nic {parts('nic', range(nics))} {{ bandwidth {carried} }}")
            for nic in range(nics):
                own = [gpu for gpu in range(gpus) if min(gpu // max(gpus // nics, 1), nics - 1) == nic % gpus]
                body.append(f"attach {parts('gpu', own)} -> nic{nic}")
            outside.append(f"fabric net {{ join *.nic*; latency {latency} }}")
        else:
            text += f": {source.name}*2 imports two servers"
        remarks.append(Remark("found", text))
    elif source.servers > 1:
        fail(f"{source.servers} servers, and nics_per_node tells of no NICs between them")
    outside += [f"measured {', '.join(kinds)}"] if kinds else []  # they are profiled, not of data sheets
    lines = comment(f"Imported from {source.name}: {name}")
    lines += [line for remark in remarks for line in comment(f"{remark.kind}: {remark.text}")]
    lines += ["", "node taccl {", *(f"  {line}" for line in body), "}", "", f"cluster {identifier(name, 'c')} {{"]
    lines += [
        f"  instance {parts('n', range(source.servers))} = taccl",
        *(f"  {line}" for line in outside),
        "}",
        "",
    ]
    return Reading(text="\n".join(lines), remarks=tuple(remarks))


def _ndv2(gpus: int, betas: Sequence[Fraction]) -> Wires:
    """Return the links of NDv2, whose two betas are for two NVLinks together and for one."""
    if gpus != 8 or len(betas) != 2:
        fail(
            "node_betas_list has one beta, of a switch, or the two of NDv2 with 8 GPUs: write links, betas, invbws"
        )
    wires = {}
    for (count, pairs), beta in zip(_NDV2, betas, strict=True):
        for a, b in ((int(pair[0]), int(pair[1])) for pair in pairs.split()):
            wires[a, b] = wires[b, a] = (count, beta * count)
    return wires


def _matrices(facts: dict[str, Any], gpus: int) -> Wires:
    """Return the links of a user's own file, whose matrices have a row for each destination."""
    links, betas = (
        [items(row, f"a row of {key}", gpus) for row in items(facts[key], key, gpus)] for key in ("links", "betas")
    )
    return {
        (src, dst): (count, positive({f"betas[{dst}][{src}]": betas[dst][src]}, f"betas[{dst}][{src}]"))
        for dst in range(gpus)
        for src in range(gpus)
        if src != dst and (count := integer(links[dst][src], f"links[{dst}][{src}]", 0, MAX_COUNT))
    }
