"""What ``topo ranks`` prints.

In: a rank order, and the files that were written. Out: text, or JSON. Decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hetesynth.deploy.rank_files import FORMATS

if TYPE_CHECKING:
    from hetesynth.deploy.rank_files import RankOrder

SHOWN_NAMES = 4


def rank_order_text(order: RankOrder, formats: Sequence[str]) -> str:
    """The files of ``formats`` one behind the other, with their names where there are several."""
    blocks = []
    for name in formats:
        file_name, text = FORMATS[name]
        blocks.append(f"# {file_name}\n{text(order)}" if len(formats) > 1 else text(order))
    if tuple(formats) == ("table",) and order.unnamed:
        blocks.append(unnamed_text(order) + "\n")
    return "\n".join(blocks).removesuffix("\n")


def written_text(order: RankOrder, written: Sequence[Path]) -> str:
    """The paths, how many ranks and machines they name, and which names are no hosts'."""
    lines = [f"{order.cluster}: {len(order.places)} ranks on {len(order.machines())} hosts"]
    lines += [f"  wrote {path}" for path in written]
    return "\n".join([*lines, *([unnamed_text(order)] if order.unnamed else [])])


def unnamed_text(order: RankOrder) -> str:
    """Which servers have no host, and how to state it."""
    names = ", ".join(order.unnamed[:SHOWN_NAMES]) + (", ..." if len(order.unnamed) > SHOWN_NAMES else "")
    first = order.unnamed[0].rpartition(".")[2]
    return (
        f"no host is stated for {names}: the names of the instances stand for them.\n"
        f'  help: state it where the instance is declared: instance {first} = ... {{ host "node17" }}'
    )


def rank_order_document(order: RankOrder, written: Sequence[Path]) -> str:
    """One JSON object."""
    ranks = [
        {"rank": place.rank, "host": machine, "server": place.server, "gpu": place.device, "visible": slot}
        for machine, places in order.machines()
        for slot, place in enumerate(places)
    ]
    document = {
        "cluster": order.cluster,
        "ranks": ranks,
        "without_host": list(order.unnamed),
        "files": [str(path) for path in written],
    }
    return json.dumps(document, indent=2)
