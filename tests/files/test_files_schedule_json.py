"""The schedule document: what is written is read back, and nothing else is read."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.lowering_cases import case

from hetesynth.errors import HetesynthError
from hetesynth.files import schedule_json
from hetesynth.files.schedule_json import (
    read_schedule_json,
    schedule_document,
    write_document,
    write_schedule_json,
)
from hetesynth.model.collective import COLLECTIVE_NAMES

HEADER: dict[str, Any] = {
    "name": "x",
    "seed": 7,
    "bound": {"steps": 3, "method": "flow"},
    "budget": None,
    "é": 0.5,
}


def sample(graph: str = "dgx1", name: str = "allgather") -> bytes:
    return write_schedule_json(*case(graph, name), HEADER)


def changed(**values: object) -> bytes:
    return json.dumps({**json.loads(sample("pair")), **values}).encode()


def refusal(data: bytes) -> str:
    with pytest.raises(HetesynthError) as caught:
        read_schedule_json(data, "bad.json")
    assert (caught.value.code, caught.value.exit_code) == ("HS520", 2)
    assert caught.value.message.startswith("bad.json: ") and len(caught.value.message) < 500
    return caught.value.message


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
@pytest.mark.parametrize("graph", ["line3", "dgx1"])
def test_round_trip(graph: str, name: str) -> None:
    problem, schedule = case(graph, name)
    document = schedule_document(problem, schedule, HEADER)
    data = write_document(document)
    assert read_schedule_json(data) == document
    assert write_document(read_schedule_json(data)) == data == write_schedule_json(problem, schedule, HEADER)


def test_one_transfer_a_line_and_sorted_header() -> None:
    lines = sample("pair").decode("ascii").splitlines()
    assert lines[:3] == ["{", ' "format": "hetesynth-schedule",', ' "version": 1,']
    assert "  [0, 1, 0, 0, 0]," in lines and "  [0, 1, 1, 1, 0]" in lines and "  [0, 0, 1]," in lines
    backwards = dict(reversed(HEADER.items()))
    assert write_schedule_json(*case("pair", "allgather"), backwards) == sample("pair")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"format": "other"}, "not a schedule"),
        ({"version": 2}, "version 2"),
        ({"collective": "allgathr"}, "no collective 'allgathr'"),
        ({"ranks": True}, "ranks: True is not an integer from 1"),
        ({"root": 0}, "allgather has no root"),
        ({"collective": "broadcast"}, "broadcast needs root"),
        ({"header": []}, "'header' is not an object"),
        ({"links": {}}, "'links' is not a list"),
        ({"links": [[0, 0, 0]]}, "links[0] is out of range"),
        ({"links": [[1, 0, 1], [1, 1, 0]]}, "links[1] is out of range"),
        ({"links": [[0, 0, 1]]}, "transfers[1] is out of range, or its link"),
        ({"transfers": [[0, 1, 0, 0]]}, "transfers[0] is not a list of 5"),
        ({"transfers": [[1, 1, 0, 0, 0]]}, "transfers[0] is out of range"),
        ({"transfers": [[0, 1, 0, "0", 0]]}, "transfers[0] is not a list of 5"),
        ({"extra": 1}, "['extra'] is missing or not a field"),
    ],
)
def test_values_that_are_wrong(values: dict[str, object], says: str) -> None:
    assert says in refusal(changed(**values))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xff\xfe", "not a text"),
        (b"[]", "not a JSON object"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": NaN}', "NaN"),
        (b"[" * 100_000, "nested"),
        (sample("pair")[:-3], "not JSON"),
    ],
    ids=range(6),
)
def test_texts_that_are_wrong(data: bytes, says: str) -> None:
    assert says in refusal(data)


def test_brackets_in_strings_do_not_count() -> None:
    header = {"name": '[[[[[[[[[[[[[[[[[[[[[[[["\\'}
    assert read_schedule_json(write_schedule_json(*case("pair", "allgather"), header)).header == header


def test_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_json, "MAX_BYTES", 100)
    assert "more than the 100" in refusal(sample())


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_politely(data: bytes) -> None:
    refusal(data)


@pytest.mark.parametrize("seed", range(100))
def test_damaged_documents(seed: int) -> None:
    """Read or refused, never anything else."""
    rng = random.Random(seed)
    data = bytearray(sample("line3", "broadcast"))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + rng.randint(1, 20)]
            case 2:
                data[at:at] = data[rng.randrange(len(data)) :][: rng.randint(1, 30)]
            case _:
                data[at:at] = rng.choice([b"[", b"}", b'"', b"-", b"1e9", b"null", b",", b"\\u"])
    try:
        document = read_schedule_json(bytes(data))
    except HetesynthError as error:
        assert error.code == "HS520"
    else:
        assert read_schedule_json(write_document(document)) == document
