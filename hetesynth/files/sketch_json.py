"""TACCL's sketch files (microsoft/taccl, taccl/examples/sketch)."""

from typing import Any

from hetesynth.errors import HetesynthError, did_you_mean
from hetesynth.files.strict_json import JsonRefused, fail, integer, integers, items, read_json
from hetesynth.model.sketch import Connection, Sketch

MAX_BYTES = 1 << 20
_GPUS = 4096  # of a server
_OUTSIDE = ("enforce_ordering", "beta_split", "chunk_to_relay_map")
_FIELDS = {
    "sketch": ("nnodes", "intranode_sketch", "internode_sketch", "symmetry_offsets", "hyperparameters"),
    "intranode_sketch": ("strategy", "switches", "switch_hyperedge_strategy"),
    "internode_sketch": ("strategy", "internode_conn", "gpus_to_sender_rev_map", *_OUTSIDE),
    "hyperparameters": ("input_chunkup", "input_size"),
}
_NAMED: tuple[Connection, ...] = ("fully-connected", "direct-map")


def read_sketch_json(data: bytes, name: str) -> Sketch:
    """Return the sketch in ``data``; HetesynthError HS627 if it is none or states something unknown."""
    try:
        if len(data) > MAX_BYTES:
            fail(f"more than {MAX_BYTES} bytes")
        return _sketch(read_json(data, 8, 9), name)
    except JsonRefused as error:
        way_out = "docs/sketches.md has the fields of TACCL's files and what each means here"
        raise HetesynthError(f"{name} is no sketch: {error}", code="HS627", help=way_out) from error


def _sketch(document: object, name: str) -> Sketch:
    unused: list[str] = []
    named = {0}
    whole = _object(document, "sketch", unused)
    if not whole.keys() & set(_FIELDS["sketch"]):
        is_topology = "gpus_per_node" in whole
        fail("it is a topology, which `hetesynth topo import` reads" if is_topology else "no field of a sketch")
    inside = _object(whole.get("intranode_sketch", {"strategy": "none"}), "intranode_sketch", unused)
    kind = inside.get("strategy")
    if kind == "switch":
        switches = items(inside.get("switches"), "switches")
        preferred = items(inside.get("switch_hyperedge_strategy"), "switch_hyperedge_strategy", len(switches))
        named.update(*(integers(s, "a switch", _GPUS) for s in switches))
        if any(one not in ("uc-min", "uc-max") for one in preferred):
            fail("switch_hyperedge_strategy knows uc-min and uc-max")
        unused.append(
            f"switches and {', '.join(dict.fromkeys(preferred))}: the topology has its switches, and --max-peers "
            "limits connections"
        )
    elif kind in ("minmax", "maxmin"):
        unused.append(f"intranode strategy {kind}: strategies balance loads by themselves")
    elif kind != "none":
        fail(f"intranode strategy {str(kind)[:40]!r}: TACCL reads switch, minmax, maxmin and none")
    between: frozenset[tuple[int, int]] | Connection | None = None
    relays: dict[int, set[int]] = {}
    if "internode_sketch" in whole:
        outside = _object(whole["internode_sketch"], "internode_sketch", unused)
        if outside.get("strategy") != "relay":
            fail("internode strategy: TACCL reads relay")
        joined = outside.get("internode_conn")
        between = next((one for one in _NAMED if one == joined), None)
        if between is None:
            between = frozenset((src, dst) for src, to in _map(joined, "internode_conn") for dst in to)
            named.update(*between)
        for sender, gpus in _map(outside.get("gpus_to_sender_rev_map", {}), "gpus_to_sender_rev_map"):
            named.update((sender, *gpus))
            for gpu in gpus:
                relays.setdefault(gpu, set()).add(sender)
        if outside.get("enforce_ordering", False) is not False:
            unused.append("enforce_ordering: strategies order the chunks of a sender")
        if "beta_split" in outside:
            unused.append("beta_split: links that share a NIC share its rate in the topology")
        if "chunk_to_relay_map" in outside:
            fail("chunk_to_relay_map: write gpus_to_sender_rev_map, as TACCL's own files do")
    symmetries = [
        integers(pair, "a pair of symmetry_offsets", 1 << 20)
        for pair in items(whole.get("symmetry_offsets", []), "symmetry_offsets")
    ]
    if len(symmetries) > 16 or any(len(pair) != 2 or pair[1] < 1 for pair in symmetries):
        fail("symmetry_offsets holds at most 16 pairs of an offset and a size of at least 1")
    numbers = _object(whole.get("hyperparameters", {}), "hyperparameters", unused)
    if "input_size" in numbers:
        unused.append("input_size: --size states the size of the buffer")
    return Sketch(
        name,
        integer(whole["nnodes"], "nnodes", 1, 1 << 20) if "nnodes" in whole else None,
        between,
        tuple((gpu, frozenset(senders)) for gpu, senders in sorted(relays.items())),
        tuple((offset, size) for offset, size in symmetries),
        integer(numbers["input_chunkup"], "input_chunkup", 1, 4096) if "input_chunkup" in numbers else None,
        max(named),
        tuple(unused),
    )


def _object(value: object, where: str, unused: list[str]) -> dict[str, Any]:
    """Return ``value`` if it is an object, else raise JsonRefused; unknown fields are added to ``unused``."""
    if not isinstance(value, dict):
        fail(f"{where} is not an object")
    unknown = [field for field in value if field not in _FIELDS[where]]
    unused += [f"{where} has no field {field[:40]!r}: {did_you_mean(field, _FIELDS[where])}" for field in unknown]
    return value


def _map(value: object, where: str) -> list[tuple[int, tuple[int, ...]]]:
    """Return the items of ``value``, an object with numbers of GPUs as fields and lists of such as values."""
    if not isinstance(value, dict):
        fail(f"{where} is neither an object nor {' nor '.join(_NAMED)}")
    for key in value:
        if not (key.isascii() and key.isdigit() and len(key) <= 4):
            fail(f"{where}: {key[:40]!r} is not the number of a GPU")
    return [(int(key), integers(to, where, _GPUS)) for key, to in value.items()]
