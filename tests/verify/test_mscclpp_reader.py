"""The reader of MSCCL++ plan JSON: what others made, what is damaged, what lies outside the subset."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.plan_chaos import outcome

from hetesynth.errors import HetesynthError
from hetesynth.judge.mscclpp.judge import plan_violations
from hetesynth.judge.mscclpp.reader import MAX_BYTES, OTHER_OPS, load_plan, read_plan_json
from hetesynth.model.plan import OPEN_MAX_BYTES

GOLDEN = Path(__file__).parents[1] / "lowering" / "golden" / "mscclpp_allgather_pair.json"


def _data() -> Path:
    given = os.environ.get("HETESYNTH_CONFORMANCE")
    return Path(given) if given else Path(__file__).parents[3] / "shared" / "data"


SHIPPED = sorted((_data() / "mscclpp_plans").glob("*.json"))


def good() -> dict[str, Any]:
    values: dict[str, Any] = json.loads(GOLDEN.read_bytes())
    return values


def text(values: object) -> bytes:
    return json.dumps(values).encode()


def changed(path: tuple[Any, ...], value: object) -> bytes:
    """The good plan with one value changed."""
    values = good()
    at: Any = values
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return text(values)


def refused(data: bytes) -> HetesynthError:
    with pytest.raises(HetesynthError) as caught:
        read_plan_json(data, "x.json")
    assert caught.value.help
    assert str(caught.value).startswith("x.json: ")
    return caught.value


@pytest.mark.skipif(not SHIPPED, reason="no conformance data")
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_plans_that_others_ship_are_read_and_right(path: Path) -> None:
    plan = load_plan(path)
    assert plan_violations(plan) == []
    assert {outcome(plan, None, seed) for seed in range(2)} == {"right"}


def test_defaults_are_those_of_the_loader() -> None:
    values = good()
    for name in (
        "reuse_resources", "use_double_scratch_buffer", "buffer_alignment", "num_threads_per_block",
        "min_message_size", "max_message_size",
    ):  # fmt: skip
        del values[name]
    del values["gpus"][0]["semaphores"]
    assert read_plan_json(text(values)) == replace(read_plan_json(GOLDEN.read_bytes()), max_bytes=OPEN_MAX_BYTES)


@pytest.mark.parametrize("name", sorted(OTHER_OPS))
def test_operations_outside_the_subset_are_named(name: str) -> None:
    values = good()
    values["gpus"][0]["threadblocks"][0]["ops"][3]["name"] = name
    error = refused(text(values))
    assert (error.code, error.exit_code) == ("HS531", 3)
    assert f"`{name}`, outside what is executed" in error.message


@pytest.mark.parametrize("feature", ["iter_context", "ops", "reduce_op", "switch"])
def test_features_outside_the_subset_are_named(feature: str) -> None:
    values = good()
    operation = values["gpus"][0]["threadblocks"][0]["ops"][3]
    if feature == "switch":
        values["gpus"][0]["channels"].append({"channel_type": "switch", "buffer_type": "i", "rank_groups": []})
    else:
        operation[feature] = "max" if feature == "reduce_op" else {}
    error = refused(text(values))
    assert (error.code, error.exit_code) == ("HS531", 3)
    assert feature in error.message


@pytest.mark.parametrize(("parts", "right"), [((0, 1, 2), True), ((2, 0), False), ((0, 1, 1, 2), True)])
def test_a_group_of_thread_blocks_shares_out_each_slice(parts: tuple[int, ...], right: bool) -> None:
    values = good()
    operations = values["gpus"][0]["threadblocks"][0]["ops"]
    at = next(i for i, operation in enumerate(operations) if operation["name"] == "put")
    group = [{**operations[at], "tbg_info": {"tb_id": part, "tbg_size": 3}} for part in parts]
    apart = [each for operation in group for each in (operation, {"name": "nop"})]
    values["gpus"][0]["threadblocks"][0]["ops"] = [*operations[:at], *apart, *operations[at + 1 :]]
    assert (not plan_violations(read_plan_json(text(values)))) == right
    group[0]["tbg_info"]["tb_id"] = 3
    assert "tb_id 3 of 3" in refused(text(values)).message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not a text"),
        (b"[]", "the plan is not an object"),
        (b"{}", "'gpus' is missing"),
        (b'{"gpus": [], "name": 1}', "0 GPUs"),
        (b"[" * 100_000, "nested more than"),
        (b'{"a": ' * 5000, "nested more than"),
        (b'{"gpus": NaN}', "NaN is not a JSON number"),
        (b'{"gpus": -Infinity}', "-Infinity is not"),
        (b'{"gpus": 1e999}', "too large a number"),
        (b'{"gpus": ' + b"9" * 100_000 + b"}", "too large a number"),
        (b'{"gpus": 1, "gpus": 2}', "one field twice"),
        (b" " * (MAX_BYTES + 1), "bytes a plan may have"),
    ],
)
def test_damaged_texts(data: bytes, words: str) -> None:
    error = refused(data)
    assert (error.code, error.exit_code) == ("HS530", 2)
    assert words in error.message


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("protocol",), "LL128", "'protocol' is 'LL128', none of Simple LL"),
        (("inplace",), 1, "'inplace' is not true or false"),
        (("name",), "n" * 2000, "'name' is not a string of at most 1000 characters"),
        (("max_message_size",), 2**64, f"not an integer from 0 to {2**64 - 1}"),
        (("buffer_alignment",), 2**31, f"not an integer from 0 to {2**31 - 1}"),
        (("gpus", 0), 3, "the plan gpus[0] is not an object"),
        (("gpus", 0, "id"), True, "True is not an integer"),
        (("gpus", 0, "id"), 1.5, "1.5 is not an integer"),
        (("gpus", 0, "threadblocks"), {}, "'threadblocks' is not a list"),
        (("gpus", 0, "channels", 0, "channel_type"), "tube", "'channel_type' is 'tube', none of"),
        (("gpus", 0, "channels", 0, "connected_to"), [[]], "[] is not an integer"),
        (("gpus", 0, "remote_buffers", 0, "type"), "x", "'type' is 'x', none of i o s"),
        (("gpus", 1, "threadblocks", 0, "ops", 3, "name"), "teleport", "'name' is 'teleport', none of"),
        (("gpus", 1, "threadblocks", 0, "ops", 3, "src_buff", 0), {"index": 0, "size": 1}, "'type' is missing"),
        (("gpus", 1, "threadblocks", 0, "ops", 2), {"name": "barrier", "barrier_id": 0}, "'num_threadblocks' is"),
    ],
)
def test_damaged_fields(path: tuple[Any, ...], value: object, words: str) -> None:
    assert words in refused(changed(path, value)).message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json", Path("a\0b")):
        with pytest.raises(HetesynthError) as caught:
            load_plan(path)
        assert caught.value.code == "HS540"


def test_a_schedule_is_told_from_a_plan() -> None:
    with pytest.raises(HetesynthError, match=r"^x is a schedule, which no runtime reads, and not an MSCCL"):
        read_plan_json(changed(("format",), "hetesynth-schedule"), "x")
