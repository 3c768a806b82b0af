"""Lists that name a part twice, node types and imports that nothing uses (HS243, HS246, HS251).

In: the syntax of the file. Out: findings at the words. Knows nothing of rates.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path

from hetesynth.model.diagnostics import Diagnostic, Span
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.inspection import Inspection, instances_in
from hetesynth.topology.language.library import library_path
from hetesynth.topology.language.names import expand, glob
from hetesynth.topology.language.parser import parse
from hetesynth.topology.language.source import no_standard_input, read_source
from hetesynth.topology.language.syntax import Cluster, Import, Instance, NodeType, PodType, Word

_PLAIN = re.compile(r"(?:[A-Za-z0-9_*.]|\[[0-9, \t-]*\]|\[\*\])*")  # without variables
_ONE = re.compile(r"([A-Za-z_]+)\[([0-9]{1,6})\]")
MAX_LISTED = 512  # words of one list that are compared with each other
MAX_COMPARED = 10**6  # names of one list times its patterns: about a second


def named_twice(inspection: Inspection) -> Iterator[Diagnostic]:
    """Yield parts that stand twice in one list: `ports gpu[0-3], gpu[3-7]`."""
    for item in () if inspection.is_paper else inspection.file.items:
        if isinstance(item, (NodeType, PodType, Cluster)):
            for statement in item.items:
                for words in _lists(statement):
                    if all(_PLAIN.fullmatch(word.text) for word in words):
                        yield from _repeated(words)


def _lists(item: object) -> Iterator[Sequence[Word]]:
    """The lists of words in a statement, and in those inside of it."""
    if isinstance(item, tuple) and item and all(isinstance(word, Word) for word in item):
        yield item
    elif isinstance(item, tuple):
        for part in item:
            yield from _lists(part)
    elif is_dataclass(item) and not isinstance(item, (Word, Span)):
        for field in fields(item):
            yield from _lists(getattr(item, field.name))


def _repeated(words: Sequence[Word]) -> Iterator[Diagnostic]:
    first: dict[str, Word] = {}
    globs: list[tuple[re.Pattern[str], Word]] = []
    for word in words[:MAX_LISTED]:
        names = expand(word, Findings())
        patterns = [glob(name) for name in names if "*" in name]
        if (len(first) + len(names)) * (len(globs) + len(patterns)) > MAX_COMPARED:
            return
        # one of the names that stands in the list already, else one of the list that a pattern among them names
        again = (
            (name, by)
            for name in names
            for by in (first.get(name), *(by for pattern, by in globs if pattern.fullmatch(name)))
            if by is not None
        )
        covered = ((name, by) for pattern in patterns for name, by in first.items() if pattern.fullmatch(name))
        twice = next(again, None) or next(covered, None)
        message, help_ = "", "name each part once"
        if twice is not None:
            name, by = twice
            said = "already named by" if by.text != word.text else "named twice: by"
            message = f"`{name}` is {said} `{by.text}` in this list"
            if by.text == name != word.text:
                message = f"`{word.text}` names `{name}` again"
            help_ += ": did you mean another range?"
        else:
            listed: Counter[tuple[int, int]] = Counter()  # how often a number, by bracket
            for place, bracket in enumerate(re.findall(r"\[([^\]]*)\]", word.text)):
                for ends in (re.findall(r"\d+", piece) for piece in bracket.split(",")):
                    if ends and int(ends[-1]) - int(ends[0]) <= MAX_LISTED:
                        listed.update((place, i) for i in range(int(ends[0]), int(ends[-1]) + 1))
            if any(count > 1 for count in listed.values()):
                message = f"`{word.text}` names a number twice"
        if message:
            yield Diagnostic("HS243", word.span, message, help_, "warning")
        for name in names:
            first.setdefault(name, word)
        globs += [(pattern, word) for pattern in patterns]


def unused(inspection: Inspection) -> Iterator[Diagnostic]:
    """Yield node types, pods and imports of the file that its cluster does not use."""
    if inspection.cluster is None or inspection.is_paper:
        return
    in_use = {word.text for word in instances_in(inspection.cluster, inspection.types)}
    for item in inspection.file.items:
        if isinstance(item, (NodeType, PodType)) and item.name.text not in in_use:
            what = "node type" if isinstance(item, NodeType) else "pod"
            message = f"no instance is of {what} `{item.name.text}`"
            yield Diagnostic("HS246", item.name.span, message, "remove it, or add `instance a = ...`", "warning")
        if not isinstance(item, Import):
            continue
        names: set[str] = set()  # what the import brings, with what the imported file imports itself
        todo, seen = [(item, inspection.file.name)], set()
        while todo:
            each, importing = todo.pop()
            own = no_standard_input(Path(importing).parent / each.target.text)
            path = own if each.is_path else library_path(each.target.text)
            if path is None or path in seen:
                continue
            seen.add(path)
            inside = parse(read_source(path)).items
            names |= {inner.name.text for inner in inside if isinstance(inner, (NodeType, PodType))}
            todo += [(inner, str(path)) for inner in inside if isinstance(inner, Import)]
        if names and not names & in_use:
            message = f"nothing of `{item.target.text}` is used"
            help_ = f"remove the import, or use one of {', '.join(sorted(names)[:6])}"
            yield Diagnostic("HS246", item.target.span, message, help_, "warning")


def one_of_a_range(inspection: Inspection) -> Iterator[Diagnostic]:
    """``instance a[2] = h20x4``: one instance, a2, where two may have been meant."""
    if inspection.is_paper:
        return
    for item in inspection.file.items:
        if not isinstance(item, (PodType, Cluster)):
            continue
        names = [statement.name for statement in item.items if isinstance(statement, Instance)]
        stems = Counter(re.split(r"[\[0-9]", word.text)[0] for word in names)
        for word in names:
            alone = _ONE.fullmatch(word.text)
            if alone is not None and int(alone[2]) > 1 and stems[alone[1]] == 1:
                message = f"`{word.text}` is one instance, `{alone[1]}{alone[2]}`"
                help_ = f"did you mean {alone[2]} of them, `{alone[1]}[0-{int(alone[2]) - 1}]`?"
                yield Diagnostic("HS251", word.span, message, help_, "note")
