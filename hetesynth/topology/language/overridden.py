"""A topology file with losses that are stated beside it, as ``--without`` and ``--degrade`` do."""

import os
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from hetesynth.model.diagnostics import HIDDEN, Diagnostic, SourceError, Span
from hetesynth.topology.language.source import OverriddenFile as OverriddenFile
from hetesynth.topology.language.source import checked_source
from hetesynth.topology.language.syntax import Cluster, Loss

_WRITTEN = {
    "--without": 'name parts as in the file: "b.gpu3", "a.nic[0-1], b", "a.gpu0<->a.gpu1"',
    "--degrade": 'write TARGET=RATE, such as --degrade "a.nic*=18Gbps" or --degrade "a.gpu0<->a.gpu1=50%"',
}


def overridden(
    path: str | os.PathLike[str], without: Sequence[str] = (), degrade: Sequence[str] = ()
) -> OverriddenFile:
    """Return the file at ``path`` with the losses of both options; ``SourceError`` for a wrong value."""
    lines = {
        option: [HIDDEN.sub("?", value).replace("\n", " ").replace("\t", " ") for value in values]
        for option, values in (("--without", without), ("--degrade", degrade))
    }
    sources = {option: "\n".join(texts) for option, texts in lines.items()}
    losses = []
    for option, texts in lines.items():
        losses += [_loss(option, number, text, sources) for number, text in enumerate(texts, 1)]
    return OverriddenFile(os.fspath(path), tuple(losses), tuple(sources.items()))


def _loss(option: str, line: int, text: str, sources: dict[str, str]) -> Loss:
    """Return the loss that ``text``, value number ``line`` of ``option``, states; ``SourceError`` if none."""
    from hetesynth.topology.language.parser import parse

    head, value = ("down" if "->" in text else "without"), text
    if option == "--degrade":  # every part stays in its column
        target, _, rate = text.partition("=")
        head, value = "degrade", f"{target} to\n{' ' * (len(target) + 1)}{rate}"
    place = Span(option, line, 1, max(1, len(text)))
    try:
        items = parse(checked_source(f"cluster c {{ {head}\n{value}\n}}", option)).items
        losses = [item for top in items if isinstance(top, Cluster) for item in top.items]
        if len(items) == len(losses) == 1 and isinstance(losses[0], Loss):
            loss: Loss = with_spans(losses[0], lambda span: replace(span, line=line))
            return loss
    except SourceError as error:
        wrong = error.diagnostics[0].span
        if wrong.line > 1:
            place = replace(place, column=min(wrong.column, place.length), length=wrong.length)
    message = f"`{text[:40]}` does not say what is lost or slower"
    raise SourceError([Diagnostic("HS111", place, message, _WRITTEN[option])], sources) from None


def with_spans(value: Any, moved: Callable[[Span], Span]) -> Any:
    """Return a statement, or a part of one, with every span in it replaced by ``moved`` of it."""
    if isinstance(value, Span):
        return moved(value)
    if isinstance(value, tuple):
        return tuple(with_spans(part, moved) for part in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(value, **{part.name: with_spans(getattr(value, part.name), moved) for part in fields(value)})
