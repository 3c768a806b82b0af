"""How each reader of MSCCL XML treats a file, beyond the limits that stand in the table of targets.

In: a target. Out: its Reader. Only facts; whoever writes files needs none of them, so they stand beside the judge.
"""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.model.target import ALL_OPS, TARGETS, Target

_COMMON = frozenset({"allreduce", "allgather", "reduce", "broadcast", "alltoall"})
_VENDOR = _COMMON | {"reducescatter", "send", "recv", "gather", "scatter", "alltoallv"}
_RESEARCH = _COMMON | {"reduce_scatter", "custom"}


@dataclass(frozen=True, slots=True)
class Reader:
    """``words``: values of ``coll``. ``uncalled``: of these, what no call of the library brings to MSCCL.
    ``mode_ignored``: collectives for which the library looks only for calls out of place, whatever the file says.
    ``takes_next_channel``: the reader lets the channel after the last of its table pass.
    ``leaves_table``: with that channel the reader compares and counts in foreign memory behind its table;
    otherwise it writes over fields of its own.
    ``checks_peers``: refuses peers that are no rank. ``checks_sizes``: holds
    i_chunks and o_chunks against nchunksperloop. ``checks_order``: refuses minBytes over maxBytes.
    ``idle_peers_crash``: the reader itself falls over a 33rd peer without a step. ``default_max_bytes``: what a
    missing maxBytes means. ``thread_multiple``: what ``nthreads`` must be a multiple of.
    """

    words: frozenset[str] = _VENDOR
    uncalled: frozenset[str] = frozenset()
    mode_ignored: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    takes_next_channel: bool = True
    leaves_table: bool = True
    checks_peers: bool = False
    checks_sizes: bool = False
    checks_order: bool = False
    idle_peers_crash: bool = True
    default_max_bytes: int = 0
    thread_multiple: int = 1


READERS: dict[str, Reader] = {
    "rccl-6": Reader(),
    "rccl-5": Reader(),
    "msccl-executor": Reader(uncalled=frozenset({"gather", "scatter", "alltoallv"})),
    "msccl": Reader(
        words=_RESEARCH,
        mode_ignored=frozenset({"alltoall"}),
        leaves_table=False,
        checks_peers=True,
        checks_sizes=True,
        checks_order=True,
        idle_peers_crash=False,
        default_max_bytes=2**27,
        thread_multiple=32,
    ),
    "portable": Reader(
        words=_COMMON | {"reducescatter", "gather", "scatter"},
        required=frozenset({"name"}),
        checks_peers=True,
        checks_sizes=True,
        checks_order=True,
        thread_multiple=32,
    ),
}

_XML = [target for target in TARGETS.values() if target.format == "msccl-xml"]
ANY = Target(
    "any",
    "any reader of MSCCL XML",
    ops=ALL_OPS,
    max_steps=max(target.max_steps for target in _XML),
    max_thread_blocks=max(target.max_thread_blocks for target in _XML),
    max_channel=max(target.max_channel for target in _XML),
)
"""What no runtime exceeds."""


def reader_of(target: Target) -> Reader:
    """The facts about ``target``'s reader; those of ``ANY`` for a target that is not in the table."""
    return READERS.get(target.name, Reader(takes_next_channel=False, idle_peers_crash=False))


def metadata_required(target: Target) -> frozenset[str]:
    """The attributes of <algo> without which the reader refuses the file."""
    return frozenset(target.required_attributes) | reader_of(target).required
