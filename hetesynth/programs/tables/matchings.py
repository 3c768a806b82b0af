"""A round cut into permutations: edge coloring of a bipartite multigraph with as many colors as its degree."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from hetesynth.model.table import Message
from hetesynth.model.topology import Rank

End = tuple[bool, Rank]
"""Whether it sends, and the rank."""


def matchings(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Return the fewest rounds, each of messages of one count, in which no rank sends or receives twice."""
    counts = sorted({m.count for m in messages}, reverse=True)
    return [part for count in counts for part in coloured([m for m in messages if m.count == count])]


def coloured(messages: Iterable[Message]) -> list[tuple[Message, ...]]:
    """Return rounds of one count, as many as a rank has sends or receives (Koenig 1916, alternating paths)."""
    at: dict[End, dict[int, Message]] = defaultdict(dict)  # the message of each colour
    for message in messages:
        sender, receiver = (True, message.src), (False, message.dst)
        colour, other = _free(at[sender]), _free(at[receiver])
        if colour not in at[receiver]:
            _paint(at, message, colour)
            continue
        path: list[Message] = []  # from the receiver along colour, other, colour ...
        end, coming = receiver, colour
        while coming in at[end]:
            step = at[end][coming]
            path.append(step)
            end = (True, step.src) if end == (False, step.dst) else (False, step.dst)
            coming = colour + other - coming
        for i, step in enumerate(path):
            was = colour if i % 2 == 0 else other
            for ends in ((True, step.src), (False, step.dst)):
                if at[ends].get(was) is step:
                    del at[ends][was]
        for i, step in enumerate(path):
            _paint(at, step, other if i % 2 == 0 else colour)
        _paint(at, message, colour)
    colours = sorted({colour for painted in at.values() for colour in painted})
    senders = sorted(end for end in at if end[0])
    return [tuple(at[end][colour] for end in senders if colour in at[end]) for colour in colours]


def _free(painted: dict[int, Message]) -> int:
    return next(colour for colour in range(len(painted) + 1) if colour not in painted)


def _paint(at: dict[End, dict[int, Message]], message: Message, colour: int) -> None:
    at[True, message.src][colour] = at[False, message.dst][colour] = message
