"""Parts named twice, node types and imports that nothing uses, ratios upside down (HS243, HS246, HS255)."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path

from hetesynth.model.diagnostics import Diagnostic, Span
from hetesynth.topology.language.elaborate import Inspection, instances_in
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.library import library_path
from hetesynth.topology.language.names import expand
from hetesynth.topology.language.syntax import Cluster, Import, Network, NodeType, PodType, Word


def named_twice(inspection: Inspection) -> Iterator[Diagnostic]:
    """Yield parts that stand twice in one list: `ports gpu[0-3], gpu[3-7]`."""
    for item in () if inspection.is_paper else inspection.file.items:
        for statement in item.items if isinstance(item, (NodeType, PodType, Cluster)) else ():
            for words in _lists(statement):
                first: dict[str, Word] = {}
                for word in words:
                    # what has variables is none of several names yet
                    names = expand(word, Findings()) if "(" not in word.text else []
                    for name in [name for name in names if name in first][:1]:
                        message = f"`{name}` is named by `{first[name].text}` in this list already"
                        help_ = "name each part once: did you mean another range?"
                        yield Diagnostic("HS243", word.span, message, help_, "warning")
                    first = dict.fromkeys(names, word) | first


def _lists(item: object) -> Iterator[Sequence[Word]]:
    """Yield the lists of words in a statement, also in the statements inside of it."""
    if isinstance(item, tuple) and item and all(isinstance(word, Word) for word in item):
        yield item
    elif isinstance(item, tuple):
        for part in item:
            yield from _lists(part)
    elif is_dataclass(item) and not isinstance(item, (Word, Span)):
        for field in fields(item):
            yield from _lists(getattr(item, field.name))


def unused(inspection: Inspection) -> Iterator[Diagnostic]:
    """Yield node types, pods and imports of the file that its cluster does not use."""
    if inspection.cluster is None or inspection.is_paper:
        return
    in_use = {word.text for word in instances_in(inspection.cluster, inspection.types)}
    folder = Path(inspection.file.name).parent
    files = {
        item: folder / item.target.text if item.is_path else library_path(item.target.text)
        for item in inspection.file.items
        if isinstance(item, Import)
    }
    # the files whose types are used; where one is imported by a file that is imported, each may have led to it
    origins = {Path(inspection.types[name].name.span.file) for name in in_use if name in inspection.types}
    is_direct = origins <= {*files.values(), Path(inspection.file.name)}
    for item in inspection.file.items:
        if isinstance(item, (NodeType, PodType)) and item.name.text not in in_use:
            message = f"no instance is of the type `{item.name.text}`"
            yield Diagnostic("HS246", item.name.span, message, "remove it, or add `instance a = ...`", "warning")
        elif isinstance(item, Import) and is_direct and files[item] not in origins:
            message = f"nothing of `{item.target.text}` is used"
            yield Diagnostic("HS246", item.target.span, message, "remove the import", "warning")


def upside_down(inspection: Inspection) -> Iterator[Diagnostic]:
    """Yield each oversubscription below 1, which gives uplinks more than their NICs have."""
    for item in inspection.stated[-1:]:
        for statement in item.items:
            for prop in statement.properties if isinstance(statement, Network) else ():
                number = prop.amount.number if prop.amount is not None else ""
                if prop.name == "oversubscription" and number and Fraction(number) < 1:
                    message = f"an oversubscription of {number} gives uplinks more than their NICs have"
                    help_ = "it is what NICs have over what uplinks have: 4 where uplinks have a quarter"
                    yield Diagnostic("HS255", prop.span, message, help_, "warning")
