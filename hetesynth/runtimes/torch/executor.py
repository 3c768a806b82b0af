"""One rank's part of a table, carried out over a process group.

Per round all sends and receives are issued in the order of the table, the same on both ends of every pair, and
waited for; then come the additions. NCCL gets them as one group on the current stream. Data travels as bytes, so
every type does.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from hetesynth.errors import HetesynthError
from hetesynth.runtimes.torch.steps import Part, Step

TAG = 29_798
"""Of messages on backends that have tags, so that they do not meet the caller's own."""
Add = Callable[[Any, Any], object]
ADDS: dict[Any, Add] = {
    dist.ReduceOp.SUM: lambda a, b: a.add_(b),
    dist.ReduceOp.MAX: lambda a, b: torch.maximum(a, b, out=a),
    dist.ReduceOp.MIN: lambda a, b: torch.minimum(a, b, out=a),
}
"""What is reduced here, element by element, by the first tensor."""


def play(part: Part, group: Any, buffers: Sequence[Any], chunk: int, add: Add) -> None:
    """Carry out ``part``. ``buffers``: input, output and scratch, flat and of one type. ``chunk``: elements.
    HetesynthError HS819 where a peer does not answer."""
    raw = [buffer.view(torch.uint8) for buffer in buffers]
    width = chunk * buffers[0].element_size()
    for (a, i), (b, j), count in part.copies:
        to, source = (raw[x].narrow(0, at * width, count * width) for x, at in ((a, i), (b, j)))
        if to.data_ptr() != source.data_ptr():  # else a call in place
            to.copy_(source)
    exchange = _each if raw[0].device.type == "cpu" else _batch
    for step in part.steps:
        exchange(group, step, [raw[x].narrow(0, at * width, count * width) for _, _, x, at, count in step.moves])
        for (a, i), (b, j), count in step.sums:
            add(buffers[a].narrow(0, i * chunk, count * chunk), buffers[b].narrow(0, j * chunk, count * chunk))


def _each(group: Any, step: Step, views: Sequence[Any]) -> None:
    works: list[Any] = []
    number = 0
    try:
        for number, (sends, peer, *_) in enumerate(step.moves):
            works.append((group.send if sends else group.recv)([views[number]], peer, TAG))
        for number, work in enumerate(works):  # noqa: B007
            work.wait()
    except RuntimeError as error:
        sends, peer, *_ = step.moves[number]
        raise _no_answer(step, f"{'to' if sends else 'from'} rank {peer}", error) from error


def _batch(group: Any, step: Step, views: Sequence[Any]) -> None:
    moves = [
        dist.P2POp(dist.isend if sends else dist.irecv, view, dist.get_global_rank(group, peer), group)
        for (sends, peer, *_), view in zip(step.moves, views, strict=True)
    ]
    try:
        for work in dist.batch_isend_irecv(moves):
            work.wait()
    except RuntimeError as error:
        raise _no_answer(step, f"with ranks {sorted({move[1] for move in step.moves})}", error) from error


def _no_answer(step: Step, peers: str, error: RuntimeError) -> HetesynthError:
    said = " ".join(str(error).split(". This", 1)[0].split())[:200]
    help_text = "a peer has died or stands still: look at its log; the group cannot be used again"
    return HetesynthError(f"round {step.number}, {peers}: {said}", code="HS819", help=help_text, exit_code=1)
