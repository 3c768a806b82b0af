"""One form of the language -> the other, with the same meaning, or what keeps it from being said there.

In: a ``Source``. Out: text. The result is read again and compared with what the source says; where they differ, or
the other form has no words for something, ``HetesynthError`` HS250. Comments stand above the block they belong to.
"""

from __future__ import annotations

import re
from collections import defaultdict

from hetesynth.errors import HetesynthError
from hetesynth.model.topology import Topology
from hetesynth.topology.language import paper
from hetesynth.topology.language.block_text import CLUSTER, block_text
from hetesynth.topology.language.elaborate import topology_of
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.layout import formatted
from hetesynth.topology.language.meaning import meaning
from hetesynth.topology.language.paper_text import paper_text
from hetesynth.topology.language.parser import parse
from hetesynth.topology.language.pieces import pieces_of
from hetesynth.topology.language.source import Source, checked_source
from hetesynth.topology.language.syntax import Define

_NODE = re.compile(r"node\d+")
_OF_THE_CLUSTER = re.compile(r"chunk|inter\w+|nodenum")


def to_block(source: Source) -> str:
    """``source`` in the block form; what is in it already, in its layout."""
    written = parse(source)
    if not any(isinstance(item, Define) for item in written.items):
        return formatted(source)
    topology = topology_of(source)
    first, comments = _paper_comments(source)
    text = first + block_text(paper.lowered(written, Findings()), comments)
    return _checked(source, topology, text, "block")


def to_paper(source: Source) -> str:
    """``source`` in the paper form; what is in it already, in its layout."""
    if any(isinstance(item, Define) for item in parse(source).items):
        return formatted(source)
    topology = topology_of(source)
    text, reasons = paper_text(topology)
    reasons += _unsaid(topology)
    if reasons:
        raise _inexpressible(
            source, "paper", reasons[0] + (f" (and {len(reasons) - 1} more)" if reasons[1:] else "")
        )
    return _checked(source, topology, _block_comments(source) + text, "paper")


def _unsaid(topology: Topology) -> list[str]:
    """What links and rates do not show, and the paper form has no words for."""
    host = next((vertex for vertex in topology.vertices if vertex.host), None)
    able = next((vertex for vertex in topology.vertices if vertex.capabilities), None)
    reasons = [f"the host of `{host.server}`, {host.host}"] if host is not None else []
    return reasons + ([f"`{able.capabilities[0]}` of `{able.name}`"] if able is not None else [])


def _checked(source: Source, topology: Topology, text: str, form: str) -> str:
    """``text`` in its layout, if it says what ``topology`` does."""
    try:
        laid_out = formatted(checked_source(text, source.name))
        same = meaning(topology_of(checked_source(laid_out, source.name))) == meaning(topology)
    except HetesynthError as error:
        raise _inexpressible(source, form, error.message) from None
    if not same:
        raise _inexpressible(source, form, "some links would have other rates or share other wires")
    return laid_out


def _inexpressible(source: Source, form: str, reason: str) -> HetesynthError:
    message = f"{source.name} cannot be said in the {form} form: {reason}"
    return HetesynthError(message, code="HS250", help="keep the form it has, or convert it to json", exit_code=1)


def _paper_comments(source: Source) -> tuple[str, dict[str, list[str]]]:
    """The comments at the top, and the others by the node whose statements they stand at."""
    pieces, last = pieces_of(source)
    owner = node = CLUSTER
    first: list[str] = []
    comments: dict[str, list[str]] = defaultdict(list)
    for index, piece in enumerate(pieces):
        if piece.type == "DEFINE":
            comments[owner] += [comment.text for comment in piece.comments if comment.trailing and index]
            name = pieces[index + 1].text
            node = name if _NODE.fullmatch(name) else node
            owner = CLUSTER if _OF_THE_CLUSTER.match(name) else node
            own = [comment.text for comment in piece.comments if not (comment.trailing and index)]
            (first if not index else comments[owner]).extend(own)
        else:
            comments[owner] += [comment.text for comment in piece.comments]
    comments[CLUSTER] += [comment.text for comment in last]
    return "".join(f"{line}\n" for line in first) + ("\n" if first else ""), comments


def _block_comments(source: Source) -> str:
    """All comments of the file, at the top: statements of the paper form are others."""
    pieces, last = pieces_of(source)
    lines = [comment.text for piece in pieces for comment in piece.comments] + [comment.text for comment in last]
    return "".join(f"{line}\n" for line in lines)
