"""The reader of compositions refuses what is damaged, says what, and reads what is at the edge of its limits."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest
from support.pods import SMALL, composed, document, encoded

from hetesynth.files.strict_json import JsonRefused
from hetesynth.judge.composition.document import MAX_TIME, Document, read_document

PHASE = ("phases", 0)
KIND = (*PHASE, "kinds", 0)
TOP = "the document is not an object with the fields format, version, header, cluster, collective, ranks, "
GONE = object()


@cache
def good() -> dict[str, Any]:
    """Four pods of two GPUs, a chunk each."""
    return document(composed(SMALL["4x2"], "allgather"))


def damaged(path: tuple[str | int, ...], value: object) -> bytes:
    values = copy.deepcopy(good())
    place: Any = values
    for key in path[:-1]:
        place = place[key]
    if value is GONE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return encoded(values)


def read(path: tuple[str | int, ...], value: object) -> Document:
    return read_document(damaged(path, value))


REFUSED: list[tuple[tuple[str | int, ...], object, str]] = [
    (("format",), "other", "its format is not 'hetesynth-composition', version 1"),
    (("cluster",), GONE, TOP + "chunks_per_rank, chunk_bytes, pods, phases"),
    (("collective",), "gather", "'gather' is not composed"),
    (("ranks",), 0, "ranks: 0 is not an integer from 1 to 65536"),
    (("ranks",), True, "ranks: True is not an integer from 1 to 65536"),
    (("ranks",), 9, "the pods have 8 ranks, not 9"),
    (("chunks_per_rank",), (1 << 23) + 1, "8 ranks with 8388609 chunks each are too many to judge"),
    (("header",), [], f"picoseconds: None is not an integer from 0 to {MAX_TIME}"),
    (("header", "picoseconds"), -1, f"picoseconds: -1 is not an integer from 0 to {MAX_TIME}"),
    (("pods",), {}, "pods is not a list"),
    (("pods", 0), ["a0", 0], "a pod is not a list of 3"),
    (("pods", 0, 0), 7, "the name of a pod is not a string"),
    (("pods", 1, 1), 3, "pod a1 does not begin at rank 2"),
    (("pods", 1, 2), 0, "pod a1: 0 is not an integer from 1 to 8"),
    (("phases",), 1, "phases is not a list"),
    (PHASE, [], "a phase is not an object with the fields "
     "adds, kinds, kind_of, uplinks, paths, rounds, batches, moves"),
    ((*PHASE, "adds"), 2, "adds: 2 is not an integer from 0 to 1"),
    ((*PHASE, "kinds"), {}, "kinds is not a list"),
    ((*PHASE, "kind_of"), [0, 0, 0], "kind_of does not name a kind for each pod"),
    ((*PHASE, "kind_of", 3), 1, "kind_of: 1 is not an integer from 0 to 0"),
    ((*PHASE, "uplinks", 0), [[32, 33]], "uplinks do not fit the gates of the pods"),
    ((*PHASE, "uplinks", 0, 0), [32], "uplinks: a row is not a list of 2"),
    ((*PHASE, "uplinks", 0, 0, 1), MAX_TIME, "uplinks: a value is not an integer in range"),
    ((*PHASE, "paths", 0), [20, 20], "a path is not a list of 3"),
    ((*PHASE, "paths", 0, 1), -1, f"a path: -1 is not an integer from 0 to {MAX_TIME}"),
    ((*PHASE, "moves"), [[], []], "moves is not a list of 3"),
    ((*PHASE, "moves", 0, 0, 0), 4, "moves: a value is out of range"),
    ((*PHASE, "moves", 0, 0, 3), 9, "moves: a value is out of range"),
    ((*PHASE, "moves", 0, 1, 3), 7, "a move names a position that there is not"),
    ((*PHASE, "batches"), [], "batches is not a list of 1"),
    ((*PHASE, "batches", 0), [[0, 1]] * 3, "batches is not a list of 4"),
    ((*PHASE, "batches", 0, 0), [0], "a batch is not a list of 2"),
    ((*PHASE, "batches", 0, 0), [2, 1], "the steps of a batch run backwards"),
    (KIND, 3, "a kind is not an object with the fields order, gates, slots, own, links, home, entered"),
    ((*KIND, "order"), [0, 0], "the order of a kind does not name each GPU once"),
    ((*KIND, "order"), [0, 2], "order: 2 is not an integer from 0 to 1"),
    ((*KIND, "gates", 0), [0, [4]], "a gate is not a list of 3"),
    ((*KIND, "gates", 0, 0), 2, "a gate: 2 is not an integer from 0 to 1"),
    ((*KIND, "gates", 0, 1), 4, "a gate is not a list"),
    ((*KIND, "gates", 0, 2), [-1], f"a gate: -1 is not an integer from 0 to {MAX_TIME}"),
    ((*KIND, "links", 0), [0, 1], "a link is not a list of 3"),
    ((*KIND, "links", 0, 0), 2, "a link: 2 is not an integer from 0 to 1"),
    ((*KIND, "links", 0, 1), 2, "a link: 2 is not an integer from 0 to 1"),
    ((*KIND, "slots"), [2], "slots: 2 is not an integer from 0 to 1"),
    ((*KIND, "slots"), [], "slots are missing, or own gates do not fit the chunks of a pod"),
    ((*KIND, "own"), [0], "slots are missing, or own gates do not fit the chunks of a pod"),
    ((*KIND, "own"), [0, 2], "own: 2 is not an integer from 0 to 1"),
    ((*KIND, "home", 0, 0), [2, 0], "home: a value is out of range"),
    ((*KIND, "entered", 0, 0), [0, 2], "entered: a value is out of range"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "refusal"), REFUSED)
def test_damage_is_named(path: tuple[str | int, ...], value: object, refusal: str) -> None:
    with pytest.raises(JsonRefused) as error:
        read(path, value)
    assert str(error.value) == refusal


def test_a_kind_of_pods_has_one_size_and_is_used() -> None:
    values = copy.deepcopy(good())
    values["pods"] = [["a0", 0, 1], ["a1", 1, 3], ["a2", 4, 2], ["a3", 6, 2]]
    unused = copy.deepcopy(good())
    unused["phases"][0]["kinds"] *= 2
    for document_, kind in ((values, 0), (unused, 1)):
        with pytest.raises(JsonRefused, match=f"the pods of kind {kind} are not of one size"):
            read_document(encoded(document_))
